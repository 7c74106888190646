"""An export verifies without the database, and shows every change."""

import json
import os
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some

from tests.workspace.transcripts import conversation_of, note, tampering
from workspace import exports, signing
from workspace.chain import canonical
from workspace.errors import BrokenChain, TranscriptError
from workspace.exports import check, export
from workspace.models import Entry
from workspace.shredding import redact
from workspace.transcript import append


@pytest.fixture
def conversation(workspace, owner):
    made = conversation_of(workspace, owner, "one", "two \0 😀", "x" * 100_000, "four")
    redact(made, [2], owner, "A password.")
    return made


@pytest.fixture
def lines(conversation):
    return [line.encode() for line in export(conversation)]


def edited(line, **values):
    return (canonical(json.loads(line) | values) + "\n").encode()


def refused(lines, **more):
    with pytest.raises(TranscriptError) as caught:
        check(lines, **more)
    return str(caught.value)


def test_an_export_verifies(conversation, lines):
    verdict = check(lines, signing.public_key())
    assert verdict.conversation == conversation.pk
    assert (verdict.entries, verdict.erased) == (5, {2})
    assert json.loads(json.loads(lines[3])["content"].partition("\n")[2]) == {
        "text": "x" * 100_000
    }


def test_a_transcript_without_entries_is_exported(workspace, owner):
    assert check(line.encode() for line in export(conversation_of(workspace, owner)))


def test_a_file_cut_between_lines_names_the_first_missing_entry(lines):
    assert refused(lines[:-1]).startswith("Entry 5: the file ends")
    assert refused(lines[:1]).startswith("Entry 1: the file ends")


def test_a_file_cut_inside_a_line_names_the_line(lines):
    assert refused([*lines[:-1], lines[-1][:50]]).startswith("Line 6 is empty, cut off")
    assert refused([*lines[:-1], lines[-1][:-1]]).startswith("Line 6 is cut off")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"\0\xff\xfe", b"[]\n", b"{}\n", b"1\n", b"[" * 100_000, b"NaN"],
)
def test_garbage_is_refused_with_a_sentence(content):
    assert refused([content]).startswith("Line 1")


def test_no_lines_at_all_are_refused():
    assert refused([]).startswith("Line 1")


@pytest.mark.parametrize(
    ("number", "change", "sentence"),
    [
        (0, {"conversation": "00000000-0000-4000-8000-000000000000"}, "signature"),
        (0, {"conversation": "x"}, "Line 1 does not name"),
        (0, {"format": "transcript/2"}, "transcript/2"),
        (0, {"heads": []}, "beyond the last signed head"),
        (0, {"heads": [1]}, "Line 1 must have"),
        (0, {"public_key": "zz"}, "signature"),
        (1, {"seq": 7}, "Entry 1: it is missing"),
        (1, {"seq": True}, "'seq' has the wrong type"),
        (1, {"kind": "user"}, "Entry 1: its digest"),
        (1, {"author": "x"}, "Entry 1: its digest"),
        (1, {"created_at": "\ufffd"}, "Entry 1: its digest"),
        (1, {"body": "{}"}, "Entry 1: its body is not the one"),
        (1, {"body": None}, "Entry 1: its body is there only in part"),
        (1, {"body": None, "nonce": None}, "Entry 1: its body was taken out"),
        (1, {"content": "x"}, "Entry 1: its large body"),
        (3, {"content": None}, "Entry 3: its large body"),
        (3, {"content": "y"}, "Entry 3: its large body"),
        (2, {"note": "more"}, "Line 3 must have exactly"),
        (5, {"digest": "f"}, "Entry 5: its digest"),
    ],
)
def test_an_edited_line_is_named(lines, number, change, sentence):
    lines[number] = edited(lines[number], **change)
    assert sentence in refused(lines)


def test_swapped_doubled_and_missing_lines_are_named(lines):
    header, one, two, *rest = lines
    assert refused([header, two, one, *rest]).startswith("Entry 1: it is missing")
    assert refused([header, one, one, two, *rest]).startswith("Entry 2: it is missing")
    assert refused([header, one, *rest]).startswith("Entry 2: it is missing")


def test_a_rehashed_export_fails_at_its_signature(lines):
    from workspace.chain import GENESIS, Link

    digest = GENESIS
    for number, line in enumerate(lines[1:], start=1):
        entry = json.loads(line)
        if number == 1:
            entry["kind"] = "user"
        link = Link(**{name: entry[name] for name in exports.LINK_FIELDS})
        entry["digest"] = digest = link.digest(digest)
        lines[number] = (canonical(entry) + "\n").encode()
    assert refused(lines).startswith(
        "Entry 5: its digest is not the one that was signed"
    )


def test_another_key_is_refused_when_one_is_expected(lines):
    assert "another key" in refused(lines, key="00" * 32)


@hypothesis_settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=some.data())
def test_no_single_byte_can_change_unnoticed(small, data):
    place = data.draw(some.integers(0, len(small) - 1))
    flip = data.draw(some.integers(1, 255))
    changed = bytearray(small)
    changed[place] ^= flip
    assert refused(bytes(changed).splitlines(keepends=True), key=signing.public_key())


@pytest.fixture
def small(workspace, owner):
    made = conversation_of(workspace, owner, "one", "two")
    redact(made, [1], owner, "A password.")
    return "".join(export(made)).encode()


def test_a_broken_transcript_is_not_exported(conversation):
    pk = Entry.objects.get(conversation=conversation, seq=4).pk
    with tampering() as run:
        run("UPDATE workspace_entry SET kind = 'user' WHERE id = %s", pk)
    with pytest.raises(BrokenChain, match="Entry 4"):
        list(export(conversation))


def test_what_was_appended_since_is_exported_next_time(conversation, lines):
    append(conversation.pk, note("later"))
    assert check(line.encode() for line in export(conversation)).entries == 6


def test_the_commands_write_and_check_a_file(conversation, tmp_path, capsys):
    file = tmp_path / "transcript.jsonl"
    call_command("transcript", "export", str(conversation.pk), "--out", str(file))
    call_command("transcript", "import", "--check", str(file))
    shown = capsys.readouterr().out
    assert "5 entries verify, 1 of them erased" in shown
    assert signing.public_key() in shown
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.glob(".transcript*")) == []


def test_the_export_goes_to_the_terminal_without_a_file(conversation, capsys):
    call_command("transcript", "export", str(conversation.pk))
    shown = capsys.readouterr().out
    assert check(shown.encode().splitlines(keepends=True)).entries == 5


@pytest.mark.parametrize(
    "words",
    [
        ("export", "{id}", "--out", "{tmp}/no/such/folder/file"),
        ("export", "nonsense"),
        ("import", "--check", "{tmp}/missing"),
        ("import", "--check", "{tmp}"),
    ],
)
def test_the_commands_refuse_with_a_sentence(conversation, tmp_path, words):
    filled = [word.format(id=conversation.pk, tmp=tmp_path) for word in words]
    with pytest.raises(CommandError, match=r"\.$"):
        call_command("transcript", *filled)


def test_a_file_is_checked_without_any_database(lines, tmp_path):
    file = tmp_path / "transcript.jsonl"
    file.write_bytes(b"".join(lines))
    nowhere = os.environ | {
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing",
        "VAR_DIR": str(tmp_path / "nothing"),
    }
    words = [sys.executable, "manage.py", "transcript", "import", "--check", str(file)]
    done = subprocess.run(
        words, env=nowhere, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "5 entries verify" in done.stdout) == (0, True), (
        done.stderr
    )
    file.write_bytes(b"".join(lines)[:-200])
    done = subprocess.run(
        words, env=nowhere, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: Line 6")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "nothing").exists()
