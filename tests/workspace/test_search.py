"""Search over messages: what is found, by whom, and what shredding takes away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from workspace import search, transcript
from workspace.models import Conversation, Entry, MessageText
from workspace.shredding import redact
from workspace.transcript import Draft


@pytest.fixture
def say(workspace: Any, owner: Any) -> Any:
    """Appends a message to a conversation, a new one if none is given."""

    def said(
        text: str, conversation: Any = None, kind: str = "user", **more: Any
    ) -> Any:
        conversation = conversation or Conversation.objects.create(
            workspace=workspace, created_by=owner, title="Harbour", **more
        )
        draft = Draft(kind=Entry.Kind(kind), body={"text": text})
        [entry] = transcript.append(conversation.pk, draft)
        return entry

    return said


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time in which every number below the newest is committed."""
    monkeypatch.setattr(search, "SETTLED", timedelta(seconds=-1))


def found(workspace: Any, user: Any, query: str, **more: Any) -> list[int]:
    return [hit.entry.pk for hit in search.search(workspace, user, query, **more)]


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The crane lifts forty tons", "crane tons"),
        ("The crane lifts forty tons", "CRANE"),
        ("The crane lifts forty tons", "rane"),
        ("The crane lifts forty tons", '"lifts forty"'),
        ("부산 항구의 크레인을 점검했다", "크레인을"),
        ("부산 항구의 크레인을 점검했다", "항구"),
        ("100% of it, a_b", "100%"),
        ("100% of it, a_b", "a_b"),
        ("OR AND NOT near(*", "AND near(*"),
    ],
)
def test_words_are_found_before_and_after_they_are_indexed(
    workspace, owner, say, settled, indexed, text, query
):
    entry = say(text)
    say("nothing of the kind")
    if indexed:
        assert search.index_messages() == 2
    assert found(workspace, owner, query) == [entry.pk]


@pytest.mark.parametrize(
    "query", ["", '""', "   ", '"', "crane zebra", '"forty lifts"']
)
def test_what_is_not_there_is_not_found(workspace, owner, say, settled, query):
    say("The crane lifts forty tons")
    search.index_messages()
    assert found(workspace, owner, query) == []


def test_an_answer_is_found_and_a_tools_output_is_not(workspace, owner, say, settled):
    answer = say("The crane is broken", kind="assistant")
    say("crane crane", answer.conversation, kind="tool_result")
    search.index_messages()
    assert found(workspace, owner, "crane") == [answer.pk]


@pytest.mark.parametrize("indexed", [False, True])
def test_nobody_finds_what_they_may_not_see(
    workspace, owner, member, outsider, say, settled, indexed
):
    say("a secret crane", private=True)
    if indexed:
        search.index_messages()
    assert found(workspace, owner, "crane")
    assert found(workspace, member, "crane") == []
    assert found(workspace, outsider, "crane") == []


def test_pages_give_every_message_once(workspace, owner, say, settled):
    entries = [say(f"crane {number}").pk for number in range(25)]
    search.index_messages()
    entries += [say(f"crane {number}").pk for number in range(25, 30)]
    seen: list[int] = []
    while page := found(
        workspace, owner, "crane", before=min(seen, default=None), limit=7
    ):
        seen += page
    assert seen == entries[::-1]


def test_young_messages_wait_until_all_before_them_are_stored(workspace, owner, say):
    say("crane")
    assert search.index_messages() == 0
    later = timezone.now() + timedelta(minutes=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search.timezone, "now", lambda: later)
        assert search.index_messages() == 1
    assert search.index_messages() == 0


def test_what_is_shredded_is_no_longer_found(workspace, owner, say, settled):
    entry = say("the crane's secret")
    search.index_messages()
    redact(entry.conversation, [entry.seq], owner, "a name")
    assert found(workspace, owner, "crane") == []
    assert MessageText.objects.get(pk=entry.pk).text == ""


def test_the_index_keeps_no_word_of_what_was_shredded(
    workspace, owner, say, settled, django_capture_on_commit_callbacks
):
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL's vacuum takes dead rows away")
    entry = say("qjxv")
    say("harbour")
    search.index_messages()
    assert b"qjx" in stored_index()
    with django_capture_on_commit_callbacks(execute=True):
        redact(entry.conversation, [entry.seq], owner, "a name")
    assert b"qjx" not in stored_index()


def stored_index() -> bytes:
    """All that SQLite keeps of the index of words."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT block FROM workspace_search_data")
        return b"".join(bytes(block) for (block,) in cursor.fetchall())


def test_an_excerpt_shows_the_place_and_marks_the_words():
    text = "x" * 500 + " the crane of the harbour " + "y" * 500
    parts = search.excerpt(text, ["crane", "harbour"])
    assert [part for part, is_word in parts if is_word] == ["crane", "harbour"]
    assert parts[0] == parts[-1] == ("…", False)
    assert sum(len(part) for part, _ in parts) < 300


def test_the_index_is_rebuilt_when_its_triggers_were_dropped(
    workspace, owner, say, settled
):
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL keeps its index itself")
    entry = say("the crane")
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER workspace_search_added")
    search.index_messages()
    assert found(workspace, owner, "crane") == []
    search.install(connection)
    assert found(workspace, owner, "crane") == [entry.pk]


def test_the_list_shows_messages_and_leads_to_their_place(workspace, owner, say):
    entry = say("<b>crane</b> & more")
    client = Client()
    client.force_login(owner)
    for address in (
        f"/w/{workspace.slug}/?q=crane",
        f"/w/{workspace.slug}/search/?q=crane",
    ):
        text = client.get(address).content.decode()
        assert f"?at={entry.seq}" in text
        assert "<mark>crane</mark>" in text
        assert "<b>crane" not in text
