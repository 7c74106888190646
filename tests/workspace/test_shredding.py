"""Erasing a body in the open."""

import pytest
from django.db import DatabaseError, connection, transaction

from tests.workspace.transcripts import conversation_of, execute, note
from workspace import blobs, transcript
from workspace.errors import BadInput
from workspace.models import Blob, Entry, EntryBody
from workspace.shredding import redact
from workspace.transcript import Draft, append
from workspace.verification import sign_head, verify


@pytest.fixture
def conversation(workspace, owner):
    return conversation_of(workspace, owner, "keep", "my password is swordfish", "keep")


def output(text, sha256):
    return Draft(Entry.Kind.TOOL_RESULT, {"output": text, "output_sha256": sha256})


def test_a_redacted_body_is_gone_and_the_chain_still_verifies(conversation, owner):
    sign_head(conversation)
    entry = redact(conversation, [2], owner, " A password. ")
    erased = transcript.entries(conversation.pk)[1]
    assert (erased.stored.text, erased.stored.nonce) == (None, None)
    assert transcript.body(erased) == {}
    assert transcript.body(entry) == {
        "entries": [2],
        "by": str(owner.pk),
        "reason": "A password.",
    }
    assert (entry.kind, entry.author) == (Entry.Kind.REDACTION, owner)
    assert verify(conversation) == 4


def test_only_what_a_redaction_names_can_be_erased_by_sql(conversation, owner):
    redact(conversation, [2], owner, "A password.")
    kept = Entry.objects.get(conversation=conversation, seq=1)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        execute(
            "UPDATE workspace_entrybody SET text = NULL, nonce = NULL"
            " WHERE entry_id = %s",
            kept.pk,
        )


def test_a_redaction_of_another_conversation_erases_nothing_here(
    conversation, workspace, owner
):
    other = conversation_of(workspace, owner, "a", "b")
    redact(other, [2], owner, "Elsewhere.")
    mine = Entry.objects.get(conversation=conversation, seq=2)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        execute(
            "UPDATE workspace_entrybody SET text = NULL, nonce = NULL"
            " WHERE entry_id = %s",
            mine.pk,
        )


def test_a_named_body_can_only_be_erased_not_rewritten(conversation, owner):
    redact(conversation, [2], owner, "A password.")
    pk = Entry.objects.get(conversation=conversation, seq=2).pk
    for change in ("text = '{}'", "text = '{}', nonce = 'x'", "nonce = 'x'"):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            execute(f"UPDATE workspace_entrybody SET {change} WHERE entry_id = %s", pk)


def test_a_notice_that_talks_like_a_redaction_opens_nothing(conversation):
    append(conversation.pk, Draft(Entry.Kind.NOTICE, {"entries": [2]}))
    pk = Entry.objects.get(conversation=conversation, seq=2).pk
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        execute(
            "UPDATE workspace_entrybody SET text = NULL, nonce = NULL"
            " WHERE entry_id = %s",
            pk,
        )


def test_a_reason_with_nul_and_quotes_does_not_hide_the_redaction(conversation, owner):
    entry = redact(conversation, [2], owner, "it's \0 \\u0000 '], \"entries\": [1]")
    assert transcript.body(entry)["reason"].startswith("it's \0")
    assert verify(conversation) == 4


def test_redacting_twice_is_harmless(conversation, owner):
    redact(conversation, [2], owner, "Once.")
    redact(conversation, [2, 3], owner, "Twice.")
    assert verify(conversation) == 5


@pytest.mark.parametrize(
    ("seqs", "reason", "sentence"),
    [
        ([2], "  ", "Say why"),
        ([2], "x" * 2001, "at most"),
        ([], "Why not.", "between 1 and"),
        ([9], "Why not.", "no entry 9"),
        ([0], "Why not.", "no entry 0"),
        (range(1, 3000), "Why not.", "between 1 and"),
    ],
)
def test_a_redaction_that_makes_no_sense_is_refused(
    conversation, owner, seqs, reason, sentence
):
    with pytest.raises(BadInput, match=sentence):
        redact(conversation, seqs, owner, reason)
    assert verify(conversation) == 3
    assert not EntryBody.objects.filter(text=None).exists()


def test_redactions_themselves_stay_readable(conversation, owner):
    entry = redact(conversation, [2], owner, "A password.")
    with pytest.raises(BadInput, match="itself a redaction"):
        redact(conversation, [entry.seq], owner, "Cover the tracks.")
    append(conversation.pk, Draft(Entry.Kind.REDACTION, {"entries": [entry.seq]}))
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        execute(
            "UPDATE workspace_entrybody SET text = NULL, nonce = NULL"
            " WHERE entry_id = %s",
            entry.pk,
        )


def test_the_file_of_a_large_body_is_deleted(
    conversation, workspace, owner, django_capture_on_commit_callbacks
):
    text = "x" * 100_000
    first, second = append(conversation.pk, note(text), note(text))
    with django_capture_on_commit_callbacks(execute=True):
        redact(conversation, [first.seq], owner, "Too much.")
    assert transcript.body(Entry.objects.get(pk=first.pk)) == {}
    assert transcript.body(second) == {"text": text}
    folder = blobs.path(workspace.pk, "0" * 64).parents[1]
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 1
    assert verify(conversation) == 6


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_whole_output_is_deleted_with_the_last_entry_that_names_it(
    conversation, workspace, owner, size, django_capture_on_commit_callbacks
):
    """Also where the body that names it is itself large."""
    blob = blobs.record(workspace.pk, b"all of it", "text/plain")
    first, second = append(
        conversation.pk, output("x" * size, blob.sha256), output("y", blob.sha256)
    )
    with django_capture_on_commit_callbacks(execute=True):
        redact(conversation, [first.seq], owner, "One of two.")
    assert blobs.get(workspace.pk, blob.sha256) == b"all of it"
    with django_capture_on_commit_callbacks(execute=True):
        redact(conversation, [second.seq], owner, "The other.")
    with pytest.raises(blobs.DamagedBlob, match="cannot be read"):
        blobs.get(workspace.pk, blob.sha256)
    assert Blob.objects.get(pk=blob.pk).shredded_at is not None
    assert verify(conversation) == 7


def test_a_missing_output_is_named(conversation, workspace):
    blob = blobs.record(workspace.pk, b"all of it", "text/plain")
    append(conversation.pk, output("x", blob.sha256))
    assert verify(conversation) == 4
    blobs.remove(workspace.pk, blob.sha256)
    with pytest.raises(Exception, match="Entry 4: The stored file"):
        verify(conversation)


def test_erased_bytes_are_gone_from_the_database_file(
    real_transactions, workspace, owner
):
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL frees them when it vacuums")
    conversation = conversation_of(workspace, owner, "sardines and swordfish")
    redact(conversation, [1], owner, "A password.")
    execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(connection.settings_dict["NAME"], "rb") as file:
        assert b"swordfish" not in file.read()


def test_blobs_are_kept_once_and_per_workspace(workspace, var_dir):
    first = blobs.record(workspace.pk, b"same", "text/plain")
    assert blobs.record(workspace.pk, b"same", "text/plain") == first
    assert blobs.get(workspace.pk, first.sha256) == b"same"
    with pytest.raises(blobs.DamagedBlob):
        blobs.get("00000000-0000-4000-8000-000000000000", first.sha256)
    with pytest.raises(blobs.DamagedBlob, match="not the name"):
        blobs.path(workspace.pk, "../../secret_key")
    assert list(var_dir.rglob(".new-*")) == []


def test_a_store_that_cannot_be_written_says_so_and_appends_nothing(
    conversation, var_dir
):
    (var_dir / "blobs").write_text("a file where the folder should be")
    with pytest.raises(blobs.StoreFailed, match="Not a directory. Free some"):
        append(conversation.pk, note("x" * 100_000))
    assert verify(conversation) == 3


def test_a_shredded_blob_can_be_stored_again(workspace):
    first = blobs.record(workspace.pk, b"same", "text/plain")
    Blob.objects.filter(pk=first.pk).update(shredded_at=first.created_at)
    blobs.remove(workspace.pk, first.sha256)
    again = blobs.record(workspace.pk, b"same", "text/plain")
    assert (again.pk, again.shredded_at) == (first.pk, None)
    assert blobs.get(workspace.pk, first.sha256) == b"same"
