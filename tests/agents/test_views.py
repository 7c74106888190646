"""Posting, stopping, answering and figures: the chat page's side of agents."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from agents import actions
from agents.models import Run, Wait
from workspace.models import Entry, Turn

JSON = {"Accept": "application/json"}


@pytest.fixture
def conversation(workspace, member):
    return actions.start_conversation(workspace=workspace, author=member)


@pytest.fixture
def as_person(client):
    def sign_in(user):
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return sign_in


def address(conversation, part: str) -> str:
    return conversation.get_absolute_url() + part


def post(client, conversation, part: str = "messages", **fields):
    return client.post(address(conversation, part), fields, headers=JSON)


def messages_of(conversation) -> int:
    return conversation.entries.filter(kind=Entry.Kind.USER).count()


def test_a_message_is_taken_once_however_often_it_is_sent(
    conversation, as_person, member
):
    client, client_id = as_person(member), str(uuid4())
    first = post(client, conversation, text="hello", client_id=client_id).json()
    again = post(client, conversation, text="hello", client_id=client_id).json()
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert (first["seq"], first["turn"]) == (again["seq"], again["turn"])
    assert messages_of(conversation) == 1
    assert Run.objects.filter(conversation=conversation).count() == 1


def test_a_plain_form_is_sent_back_to_the_conversation(conversation, as_person, member):
    answer = as_person(member).post(
        address(conversation, "messages"),
        {"text": "hello"},
        headers={"Accept": "text/html", "Sec-Fetch-Mode": "navigate"},
    )
    assert answer["Location"] == conversation.get_absolute_url()
    assert messages_of(conversation) == 1


WRITES = ["messages", "stop", "retry", "resend", "withdraw", "level"]
READS = ["waits", "figures"]


@pytest.mark.parametrize("part", WRITES)
def test_a_viewer_may_not_and_an_outsider_must_not_know(
    part, conversation, as_person, viewer, outsider
):
    assert post(as_person(viewer), conversation, part).status_code == 403
    assert post(as_person(outsider), conversation, part).status_code == 404
    assert messages_of(conversation) == 0


@pytest.mark.parametrize("part", WRITES)
def test_a_write_is_no_link(part, conversation, as_person, member):
    assert as_person(member).get(address(conversation, part)).status_code == 405


@pytest.mark.parametrize("part", READS)
def test_a_viewer_reads_figures_and_waits_and_an_outsider_does_not(
    part, conversation, as_person, viewer, outsider
):
    url = address(conversation, part)
    assert as_person(viewer).get(url, headers=JSON).status_code == 200
    assert as_person(outsider).get(url, headers=JSON).status_code == 404


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("messages", {"text": "  \n "}),
        ("messages", {"text": "x", "client_id": "y" * 65}),
        ("retry", {"to_seq": "x"}),
        ("retry", {"to_seq": "९"}),
        ("withdraw", {"queued": "x"}),
        ("level", {"level": "everything"}),
    ],
)
def test_bad_input_is_answered_with_a_sentence(
    part, fields, conversation, as_person, member
):
    answer = post(as_person(member), conversation, part, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"].endswith((".", "!"))


def test_a_conversation_starts_with_its_first_message(workspace, as_person, member):
    answer = as_person(member).post(
        f"/w/{workspace.slug}/new", {"text": "read README.md", "private": "on"}
    )
    [conversation] = workspace.conversations.all()
    assert answer["Location"] == conversation.get_absolute_url()
    assert (conversation.private, messages_of(conversation)) == (True, 1)


def test_the_figures_name_the_simulator_and_say_what_a_turn_used(
    conversation, as_person, member
):
    client = as_person(member)
    turn = post(client, conversation, text="hello").json()["turn"]
    Run.objects.filter(turn=turn).update(
        round=3, tokens_in=12_400, tokens_cached=11_284, tokens_out=90
    )
    url = address(conversation, f"figures?turns={turn}")
    shown = client.get(url, headers=JSON).json()
    assert shown["turns"][turn]["line"] == (
        "3 rounds · 12.4k in (91 % cached) · price unknown"
    )
    assert "No language model is answering" in shown["header"]


def test_who_manages_endpoints_is_led_to_them_by_the_simulators_line(
    conversation, as_person, member, admin
):
    url = address(conversation, "figures")
    for user, is_led in ((member, False), (admin, True)):
        shown = as_person(user).get(url, headers=JSON).json()
        assert ("/settings/endpoints/" in shown["header"]) is is_led


@pytest.fixture
def asked(conversation, as_person, member):
    """A question and an approval that the member's turn waits for."""
    turn = post(as_person(member), conversation, text="go").json()["turn"]
    run = Run.objects.get(turn=turn)
    Run.objects.filter(pk=run.pk).update(state=Run.State.WAITING)
    Turn.objects.filter(pk=turn).update(state=Turn.State.WAITING)
    hostile = '{"command": "<script>alert(1)</script>"}'
    return Wait.objects.create(
        run=run,
        kind=Wait.Kind.APPROVAL,
        payload={"tool": "shell", "arguments": hostile, "why": "It leaves the box."},
    )


def test_an_approval_shows_its_exact_arguments_to_all_and_buttons_to_who_may_decide(
    asked, conversation, as_person, member, viewer, admin
):
    url = address(conversation, "waits")
    for user, may_decide in ((viewer, False), (member, True), (admin, True)):
        page = as_person(user).get(url).content
        assert b"&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert b"<script>alert" not in page
        assert (b'value="deny"' in page) is may_decide


@pytest.mark.parametrize(
    ("rule", "to_member", "to_admin"),
    [
        (
            "level accept",
            {"once", "conversation", "deny"},
            {"once", "conversation", "always", "deny"},
        ),
        ("shell", {"once", "deny"}, {"once", "deny"}),
    ],
)
def test_an_approval_offers_only_what_would_have_an_effect(
    asked, conversation, as_person, member, admin, rule, to_member, to_admin
):
    Wait.objects.filter(pk=asked.pk).update(payload=asked.payload | {"rule": rule})
    for user, expected in ((member, to_member), (admin, to_admin)):
        page = as_person(user).get(address(conversation, "waits")).content.decode()
        assert set(re.findall(r'name="decision" value="(\w+)"', page)) == expected


def test_a_wait_of_another_conversation_cannot_be_answered_from_here(
    asked, workspace, as_person, member
):
    other = actions.start_conversation(workspace=workspace, author=member)
    answer = post(as_person(member), other, f"waits/{asked.pk}", decision="once")
    assert answer.status_code == 404
    asked.refresh_from_db()
    assert asked.outcome == ""
