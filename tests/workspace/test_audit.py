"""The audit log: what is noted, who reads it, and that it is never rewritten."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from workspace import audit
from workspace.actions import people
from workspace.errors import Conflict, ImmutableEntry
from workspace.models import Change, Conversation


def last(action: str) -> Change:
    return Change.objects.filter(action=action).latest("pk")


def test_changes_of_people_are_noted_with_before_and_after(workspace, owner, member):
    seat = workspace.memberships.get(user=member)
    people.change_role(member=seat, role="viewer", by=owner)
    people.remove_member(member=seat, by=owner)
    noted = last("member.role")
    assert (noted.old, noted.new, noted.by) == ("member", "viewer", owner)
    assert noted.subject == str(member)
    assert last("member.removed").old == "viewer"
    assert last("member.joined").by == member


def test_only_what_differs_is_noted(workspace, owner):
    people.update_workspace(
        workspace=workspace, by=owner, name="Harbour", time_zone="UTC", network=False
    )
    assert last("workspace.changed").new == {"name": "Harbour"}
    count = Change.objects.count()
    people.update_workspace(
        workspace=workspace, by=owner, name="Harbour", time_zone="UTC", network=False
    )
    assert Change.objects.count() == count


def test_a_change_that_is_refused_leaves_no_line(workspace, owner):
    count = Change.objects.count()
    with pytest.raises(Conflict):
        people.remove_member(member=owner.memberships.get(), by=owner)
    assert Change.objects.count() == count


def test_the_log_is_never_rewritten(workspace, owner):
    noted = audit.record("member.role", by=owner, workspace=workspace)
    for attempt in (noted.save, noted.delete, Change.objects.all().delete):
        with pytest.raises(ImmutableEntry):
            attempt()


def test_what_looks_like_a_secret_is_masked(workspace, owner):
    key = "sk-" + "a1B2" * 12
    noted = audit.record("agent.changed", by=owner, workspace=workspace, new={"a": key})
    assert key not in json.dumps(noted.new)


@pytest.fixture
def page_of(workspace: Any) -> Any:
    def get(user: Any, query: str = "", download: str = "") -> Any:
        client = Client()
        client.force_login(user)
        return client.get(f"/w/{workspace.slug}/settings/audit/{download}{query}")

    return get


def test_admins_read_it_and_members_do_not(page_of, admin, member, outsider):
    assert page_of(admin).status_code == 200
    assert page_of(member).status_code == 403
    assert page_of(member, download="download").status_code == 403
    assert page_of(outsider).status_code == 404


def test_a_hostile_subject_is_shown_as_text(page_of, workspace, admin, owner):
    audit.record(
        "member.role", by=owner, workspace=workspace, subject="<script>x", new="<b>"
    )
    text = page_of(admin).content.decode()
    assert "&lt;script&gt;x" in text
    assert "<script>x" not in text
    assert "&lt;b&gt;" in text


def test_filters_and_pages_find_every_change_once(page_of, workspace, admin, owner):
    for number in range(120):
        audit.record("agent.made", by=owner, workspace=workspace, subject=f"n{number}")
    seen: list[str] = []
    query = "?of=agent"
    while query:
        answer = page_of(admin, query)
        seen += [line.change.subject for line in answer.context["lines"]]
        older = answer.context["older"]
        query = f"?{older}" if older else ""
    assert seen == [f"n{number}" for number in reversed(range(120))]
    assert [
        line.change.subject for line in page_of(admin, "?q=n77").context["lines"]
    ] == ["n77"]


@pytest.mark.parametrize(
    "query", ["?before=-1", "?before=x", "?before=9" * 30, "?q=%00"]
)
def test_nonsense_in_the_address_is_harmless(page_of, admin, query):
    assert page_of(admin, query).status_code == 200


def test_changes_in_a_private_conversation_stay_private(
    page_of, workspace, owner, admin
):
    private = Conversation.objects.create(
        workspace=workspace, created_by=owner, title="secret plan", private=True
    )
    audit.record(
        "conversation.level",
        by=owner,
        workspace=workspace,
        conversation=private,
        subject="secret plan",
    )
    assert "secret plan" not in page_of(admin).content.decode()
    assert "secret plan" in page_of(owner).content.decode()


def test_the_download_has_one_object_a_line(page_of, workspace, admin, owner):
    audit.record("agent.made", by=owner, workspace=workspace, subject="scout", new={})
    answer = page_of(admin, "?of=agent", download="download")
    body = b"".join(answer.streaming_content).decode()
    [row] = [json.loads(line) for line in body.splitlines()]
    assert (row["subject"], row["by"]) == ("scout", owner.username)
