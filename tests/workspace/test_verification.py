"""What verification finds, and that it names the entry."""

import re

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests.workspace.transcripts import conversation_of, note, tampering
from workspace import blobs, signing, verification
from workspace.chain import GENESIS
from workspace.errors import BrokenChain, TranscriptError
from workspace.models import Conversation, Entry, HeadSignature
from workspace.transcript import append, link_of
from workspace.verification import sign_head, sign_heads, verify


@pytest.fixture
def conversation(workspace, owner):
    return conversation_of(workspace, owner, *"abcdef")


def broken(conversation):
    with pytest.raises(BrokenChain) as caught:
        verify(conversation)
    return caught.value


def ids(conversation):
    return dict(
        Entry.objects.filter(conversation=conversation).values_list("seq", "pk")
    )


def cut(run, conversation, seq):
    """Delete the entries from `seq` on."""
    for number, pk in ids(conversation).items():
        if number >= seq:
            run("DELETE FROM workspace_entrybody WHERE entry_id = %s", pk)
            run("DELETE FROM workspace_entry WHERE id = %s", pk)


def move_head(conversation):
    """Let the head name the last entry that is there."""
    last = Entry.objects.filter(conversation=conversation).order_by("seq").last()
    Conversation.objects.filter(pk=conversation.pk).update(
        head_seq=last.seq if last else 0, head_digest=last.digest if last else GENESIS
    )


def rehash(run, conversation):
    """Make every link fit again, as somebody without the key can."""
    digest = GENESIS
    for entry in Entry.objects.filter(conversation=conversation).order_by("seq"):
        digest = link_of(entry).digest(digest)
        run("UPDATE workspace_entry SET digest = %s WHERE id = %s", digest, entry.pk)
    move_head(conversation)


def test_an_untouched_transcript_verifies(conversation):
    assert verify(conversation) == 6
    sign_head(conversation)
    assert verify(conversation) == 6


def test_an_empty_transcript_verifies(workspace, owner):
    assert verify(conversation_of(workspace, owner)) == 0


@pytest.mark.parametrize(
    "change",
    ["kind = 'user'", "turn_id = NULL, author_id = NULL, seq = 99", "digest = 'f'"],
)
def test_a_changed_entry_is_named(conversation, change):
    pk = ids(conversation)[3]
    with tampering() as run:
        run(f"UPDATE workspace_entry SET {change} WHERE id = %s", pk)
    assert broken(conversation).seq == 3


def test_a_changed_body_is_named(conversation):
    with tampering() as run:
        run(
            "UPDATE workspace_entrybody SET text = %s WHERE entry_id = %s",
            '{"text":"D"}',
            ids(conversation)[4],
        )
    assert broken(conversation).seq == 4


def test_a_body_that_went_without_a_redaction_is_named(conversation):
    with tampering() as run:
        run(
            "UPDATE workspace_entrybody SET text = NULL, nonce = NULL"
            " WHERE entry_id = %s",
            ids(conversation)[2],
        )
    fault = broken(conversation)
    assert (fault.seq, "no redaction names it" in fault.reason) == (2, True)


def test_a_deleted_body_is_named(conversation):
    with tampering() as run:
        run("DELETE FROM workspace_entrybody WHERE entry_id = %s", ids(conversation)[2])
    assert broken(conversation).seq == 2


def test_an_entry_taken_out_of_the_middle_is_named(conversation):
    pk = ids(conversation)[3]
    with tampering() as run:
        run("DELETE FROM workspace_entrybody WHERE entry_id = %s", pk)
        run("DELETE FROM workspace_entry WHERE id = %s", pk)
    assert broken(conversation).seq == 3


def test_a_cut_tail_is_found_by_the_head(conversation):
    with tampering() as run:
        cut(run, conversation, 5)
    assert broken(conversation).seq == 5


def test_a_cut_tail_with_its_head_moved_is_found_by_the_signature(conversation):
    sign_head(conversation)
    with tampering() as run:
        cut(run, conversation, 4)
        move_head(conversation)
    fault = broken(conversation)
    assert (fault.seq, "cut off" in fault.reason) == (4, True)


def test_entries_beyond_the_head_are_found(conversation):
    entry = Entry.objects.get(conversation=conversation, seq=4)
    Conversation.objects.filter(pk=conversation.pk).update(
        head_seq=4, head_digest=entry.digest
    )
    assert broken(conversation).seq == 5


def test_a_head_with_another_digest_is_found(conversation):
    Conversation.objects.filter(pk=conversation.pk).update(head_digest="f" * 64)
    assert broken(conversation).seq == 6


def test_a_rehashed_tail_is_found_by_the_signature(conversation):
    sign_head(conversation)
    with tampering() as run:
        run(
            "UPDATE workspace_entry SET kind = 'user' WHERE id = %s",
            ids(conversation)[4],
        )
        rehash(run, conversation)
    fault = broken(conversation)
    assert (fault.seq, "signed" in fault.reason) == (6, True)


def test_a_signature_that_was_made_to_fit_a_rehashed_tail_is_forged(conversation):
    sign_head(conversation)
    with tampering() as run:
        run(
            "UPDATE workspace_entry SET kind = 'user' WHERE id = %s",
            ids(conversation)[4],
        )
        rehash(run, conversation)
        conversation.refresh_from_db()
        run(
            "UPDATE workspace_headsignature SET digest = %s WHERE conversation_id = %s",
            conversation.head_digest,
            Conversation._meta.pk.get_db_prep_value(conversation.pk, connection),
        )
    assert "forged" in broken(conversation).reason


def test_a_changed_tail_is_logged_and_never_signed(
    conversation, workspace, owner, caplog
):
    other = conversation_of(workspace, owner, "sound")
    with tampering() as run:
        run(
            "UPDATE workspace_entry SET kind = 'user' WHERE id = %s",
            ids(conversation)[4],
        )
    assert sign_heads([conversation, other]) == 1
    assert "Entry 4" in caplog.text
    assert [signed.conversation for signed in HeadSignature.objects.all()] == [other]


def test_only_heads_that_moved_are_signed(conversation):
    assert [sign_heads([conversation]), sign_heads([conversation])] == [1, 0]
    append(conversation.pk, note("g"))
    assert sign_heads() == 1
    signed = HeadSignature.objects.filter(conversation=conversation)
    assert list(signed.order_by("seq").values_list("seq", flat=True)) == [6, 7]


def test_a_missing_key_is_named_rather_than_replaced(conversation, settings, tmp_path):
    sign_head(conversation)
    settings.SIGNING_KEY_FILE = str(tmp_path / "elsewhere.key")
    with pytest.raises(TranscriptError, match=r"elsewhere.key.*is missing"):
        verify(conversation)
    assert not signing.key_exists()


def test_another_key_does_not_vouch_for_old_signatures(
    conversation, settings, tmp_path
):
    sign_head(conversation)
    settings.SIGNING_KEY_FILE = str(tmp_path / "new.key")
    signing.public_key()
    assert "made with another key" in broken(conversation).reason


@pytest.mark.parametrize("harm", ["change", "remove"])
def test_a_damaged_large_body_is_named(conversation, workspace, harm):
    append(conversation.pk, note("x" * 100_000))
    [file] = [
        path
        for path in blobs.path(workspace.pk, "0" * 64).parents[1].rglob("*")
        if path.is_file()
    ]
    if harm == "remove":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes().replace(b"xxx", b"xyx", 1))
    assert broken(conversation).seq == 7


def test_long_transcripts_are_read_in_batches(conversation, monkeypatch):
    monkeypatch.setattr(verification, "BATCH", 4)
    assert verify(conversation) == 6
    with tampering() as run:
        run(
            "UPDATE workspace_entry SET kind = 'user' WHERE id = %s",
            ids(conversation)[5],
        )
    assert broken(conversation).seq == 5


@pytest.mark.parametrize("flip", [0x01, 0x80])
def test_a_byte_flipped_in_the_database_file_is_found(
    real_transactions, workspace, owner, flip, capsys
):
    """0x80 makes the text something that is not UTF-8."""
    if connection.vendor != "sqlite":
        pytest.skip("the other database's pages carry no plain row")
    conversation = conversation_of(workspace, owner, "one", "the lamp is on", "three")
    file = connection.settings_dict["NAME"]
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with open(file, "r+b") as opened:
        data = bytearray(opened.read())
        [place] = [found.start() for found in re.finditer(b"the lamp is on", data)]
        opened.seek(place)
        opened.write(bytes([data[place] ^ flip]))
    with pytest.raises(CommandError, match="Entry 2:"):
        call_command("transcript", "verify", "--all")
    with open(file, "r+b") as opened:
        opened.seek(place)
        opened.write(b"t")
    connection.close()
    assert verify(conversation) == 3


def test_the_command_tells_of_every_conversation(
    conversation, workspace, owner, capsys
):
    bad = conversation_of(workspace, owner, "x")
    with tampering() as run:
        run("UPDATE workspace_entry SET kind = 'user' WHERE id = %s", ids(bad)[1])
    with pytest.raises(CommandError, match=f"{bad.pk}: Entry 1"):
        call_command("transcript", "verify", "--all")
    assert f"{conversation.pk}: 6 entries verify." in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [[], ["--all", "x"], ["nonsense"], ["00000000-0000-4000-8000-000000000000"]],
)
def test_the_command_refuses_what_names_no_conversation(conversation, words):
    with pytest.raises(CommandError, match=r"conversation.*\.$"):
        call_command("transcript", "verify", *words)
