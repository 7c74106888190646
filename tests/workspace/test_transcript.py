"""Appending and reading."""

import json
import threading

import pytest
from django.db import IntegrityError, close_old_connections, connection, transaction
from django.test.utils import CaptureQueriesContext

from tests.workspace.transcripts import conversation_of, note
from workspace import blobs, transcript
from workspace.errors import ImmutableEntry, LeaseLost, TranscriptError
from workspace.models import Conversation, Entry, Turn
from workspace.transcript import Draft, append
from workspace.verification import verify


@pytest.fixture
def conversation(workspace, owner):
    return conversation_of(workspace, owner)


def head(conversation):
    conversation.refresh_from_db()
    return conversation.head_seq, conversation.head_digest


def statements(captured):
    return [
        query["sql"]
        for query in captured.captured_queries
        if not query["sql"].startswith(("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE"))
    ]


def test_entries_are_numbered_without_a_gap_and_move_the_head(conversation):
    first = append(conversation.pk, note("one"), note("two"))
    [third] = append(conversation.pk, note("three"))
    assert [entry.seq for entry in [*first, third]] == [1, 2, 3]
    assert head(conversation) == (3, third.digest)


def test_an_append_takes_four_statements_however_many_entries_it_adds(conversation):
    with CaptureQueriesContext(connection) as one:
        append(conversation.pk, note("alone"))
    with CaptureQueriesContext(connection) as many:
        append(conversation.pk, *(note(f"text {n}") for n in range(20)))
    assert len(statements(one)) == len(statements(many)) == 4


def test_what_is_read_is_what_was_appended(conversation, owner):
    turn = Turn.objects.create(conversation=conversation, author=owner)
    body = {"text": "보고서 😀", "parts": [1, 2.5, None, True, {"deep": []}]}
    append(
        conversation.pk,
        Draft(Entry.Kind.USER, body, turn=turn, author=owner, client_id="a"),
    )
    [entry] = transcript.entries(conversation.pk)
    assert transcript.body(entry) == body
    assert (entry.turn, entry.author, entry.kind) == (turn, owner, Entry.Kind.USER)


def test_nul_and_lone_surrogates_are_stored_as_what_both_databases_hold(conversation):
    append(conversation.pk, note("a\0b \ud83d\ude00 \ud800!"))
    [entry] = transcript.entries(conversation.pk)
    assert "\0" not in entry.stored.text
    assert transcript.body(entry) == {"text": "a\0b 😀 \ufffd!"}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_hold_is_refused_and_nothing_is_stored(
    conversation, number
):
    with pytest.raises(ValueError, match="has no place in a body"):
        append(conversation.pk, note("fine"), note(number))
    assert head(conversation)[0] == 0


def test_a_body_nested_too_deeply_is_refused(conversation):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        append(conversation.pk, note(deep))


def test_a_large_body_lies_in_the_blob_store_and_reads_the_same(
    conversation, workspace
):
    text = "가" * 1_700_000  # 5 MB
    append(conversation.pk, note(text), note("small"))
    large, small = transcript.entries(conversation.pk)
    assert len(large.stored.text) < 300
    assert transcript.bodies([small, large]) == [{"text": "small"}, {"text": text}]
    sha256 = json.loads(large.stored.text)[transcript.REFERENCE]["sha256"]
    file = blobs.path(workspace.pk, sha256)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert verify(conversation) == 2


def test_a_body_that_looks_like_a_reference_is_only_text(conversation):
    body = {transcript.REFERENCE: {"sha256": "../../etc/passwd"}}
    append(conversation.pk, Draft(Entry.Kind.NOTICE, body))
    [entry] = transcript.entries(conversation.pk)
    assert transcript.body(entry) == body


def test_a_draft_can_be_sealed_before_the_transaction(conversation):
    sealed = transcript.seal(conversation.pk, note("x" * 100_000), note("y"))
    with CaptureQueriesContext(connection) as captured:
        append(conversation.pk, *sealed)
    assert len(statements(captured)) == 4
    assert verify(conversation) == 2


def test_bodies_of_entries_without_their_text_take_one_query(conversation):
    append(conversation.pk, *(note(str(n)) for n in range(5)))
    bare = list(Entry.objects.filter(conversation=conversation).order_by("seq"))
    with CaptureQueriesContext(connection) as captured:
        found = transcript.bodies(bare)
    assert [item["text"] for item in found] == list("01234")
    assert len(captured) == 1


def test_entries_are_read_from_either_end(conversation):
    append(conversation.pk, *(note(str(n)) for n in range(1, 10)))

    def seqs(**limits):
        return [entry.seq for entry in transcript.entries(conversation.pk, **limits)]

    assert seqs(after=6) == [7, 8, 9]
    assert seqs(after=2, limit=2) == [3, 4]
    assert seqs(before=6, limit=2) == [4, 5]
    assert seqs(after=2, before=5) == [3, 4]


def test_a_guard_that_raises_takes_everything_back(conversation):
    append(conversation.pk, note("kept"))
    before = head(conversation)

    def lost():
        raise LeaseLost

    with pytest.raises(LeaseLost), transaction.atomic():
        append(conversation.pk, note("gone"), guard=lost)
    assert head(conversation) == before
    assert verify(conversation) == 1


def test_the_guard_runs_after_the_conversation_is_locked(conversation):
    seen = []
    append(conversation.pk, note("a"), guard=lambda: seen.append(head(conversation)[0]))
    assert seen == [1]


def test_an_outer_transaction_that_fails_takes_the_append_with_it(conversation):
    with transaction.atomic():
        append(conversation.pk, note("a"))
        transaction.set_rollback(True)
    assert head(conversation)[0] == 0
    assert not transcript.entries(conversation.pk)


def test_a_repeated_client_id_is_refused_and_the_first_entry_is_found(conversation):
    [first] = append(conversation.pk, note("once", client_id="a"))
    with transaction.atomic():
        with pytest.raises(IntegrityError):
            append(conversation.pk, note("twice", client_id="a"))
        assert transcript.find_by_client_id(conversation.pk, "a") == first
    assert transcript.find_by_client_id(conversation.pk, "b") is None
    assert head(conversation) == (1, first.digest)


def test_the_same_client_id_serves_in_another_conversation(conversation, owner):
    other = conversation_of(conversation.workspace, owner)
    append(conversation.pk, note("here", client_id="a"))
    append(other.pk, note("there", client_id="a"))
    assert head(other)[0] == 1


def test_an_unknown_conversation_is_named(conversation):
    with pytest.raises(TranscriptError, match="no conversation"):
        append("00000000-0000-4000-8000-000000000000", note("a"))


def test_a_turn_of_another_conversation_is_refused(conversation, owner):
    other = conversation_of(conversation.workspace, owner)
    turn = Turn.objects.create(conversation=other)
    with pytest.raises(ValueError, match="another conversation"):
        append(conversation.pk, note("a", turn=turn))


def test_models_refuse_changes_with_a_sentence(conversation):
    [entry] = append(conversation.pk, note("a"))
    for change in (
        entry.save,
        entry.delete,
        entry.stored.save,
        entry.stored.delete,
        Entry.objects.all().delete,
        lambda: Entry.objects.update(kind="user"),
        lambda: Entry.objects.bulk_update([entry], ["kind"]),
        lambda: conversation.entries.all().delete(),
    ):
        with pytest.raises(ImmutableEntry):
            change()
    assert verify(conversation) == 1


def test_threads_that_append_at_once_leave_no_gap(real_transactions, workspace, owner):
    conversation = conversation_of(workspace, owner)
    failures = []

    def work(name):
        try:
            for number in range(50):
                append(
                    conversation.pk,
                    note(f"{name} {number}", client_id=f"{name}{number}"),
                )
        except Exception as error:  # noqa: BLE001 - shown by the assert below
            failures.append(error)
        finally:
            close_old_connections()
            connection.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    conversation = Conversation.objects.get(pk=conversation.pk)
    assert verify(conversation) == conversation.head_seq == 200
    texts = [
        body["text"] for body in transcript.bodies(transcript.entries(conversation.pk))
    ]
    for name in "abcd":
        mine = [text for text in texts if text.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(50)]
