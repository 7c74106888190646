from __future__ import annotations

import hashlib
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agents.errors import ToolError
from agents.tools.caps import MOST_CHARACTERS, cap, output_path
from agents.tools.edits import replace
from agents.tools.files import DEFAULT_LINES, Page, scan


def shown(result):
    """The file's text back from numbered lines, without the closing remark."""
    lines = result.output.split("\n")[: result.meta["lines"]]
    return "\n".join(line.partition("\t")[2] for line in lines)


def test_a_file_is_read_as_numbered_lines_and_empty_lines_are_bare(agent):
    (agent.root / "a.py").write_text("import os\n\n\tx = 1\n")
    result = agent.call("read_file", path="a.py")
    assert result.output == "1\timport os\n\n3\t\tx = 1"
    assert (
        result.meta["sha256"] == hashlib.sha256(b"import os\n\n\tx = 1\n").hexdigest()
    )
    assert result.meta["total_lines"] == 3


def test_a_page_says_how_to_go_on(agent):
    (agent.root / "a").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    result = agent.call("read_file", path="a", offset=3, limit=4)
    assert result.output.startswith("3\tline 3\n")
    assert result.output.endswith("6\tline 6\n[lines 3-6 of 10; go on: offset=7]")


def test_two_thousand_lines_are_shown_unless_a_limit_says_otherwise(agent):
    (agent.root / "a").write_text("x\n" * 5000)
    result = agent.call("read_file", path="a")
    assert result.meta["lines"] == DEFAULT_LINES
    assert "go on: offset=2001" in result.output


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"no newline", b"a\r\nb\r\n", b"\xef\xbb\xbfx"]
)
def test_unusual_endings_are_read(agent, data):
    (agent.root / "a").write_bytes(data)
    result = agent.call("read_file", path="a")
    assert result.ok
    assert "\r" not in result.output
    assert "\ufeff" not in result.output


def test_an_offset_past_the_end_names_the_number_of_lines(agent):
    (agent.root / "a").write_text("one\ntwo\n")
    result = agent.call("read_file", path="a", offset=3)
    assert not result.ok
    assert "has 2 lines" in result.error.message


def test_a_line_of_five_megabytes_is_cut_and_hashed_whole(agent):
    data = b"x" * 5_000_000
    (agent.root / "a").write_bytes(data)
    result = agent.call("read_file", path="a")
    assert len(result.output) < MOST_CHARACTERS + 200
    assert "line 1 is cut: 5,000,000 bytes" in result.output
    assert result.meta["sha256"] == hashlib.sha256(data).hexdigest()


def test_korean_names_are_found_in_either_normal_form(agent):
    import unicodedata

    (agent.root / unicodedata.normalize("NFD", "한글.txt")).write_text("안녕\n")
    result = agent.call("read_file", path=unicodedata.normalize("NFC", "한글.txt"))
    assert result.output == "1\t안녕"


def test_a_binary_file_is_refused_and_an_image_is_named(agent):
    (agent.root / "a.bin").write_bytes(b"ELF\0\1")
    (agent.root / "a.PNG").write_bytes(b"\x89PNG\0")
    assert agent.call("read_file", path="a.bin").error.code == "binary"
    result = agent.call("read_file", path="a.PNG")
    assert result.ok
    assert "view_image" in result.output
    assert "\n" not in result.output


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing", "not_found"),
        ("folder", "is_folder"),
        (".", "is_folder"),
        ("file/x", "not_folder"),
        ("/etc/passwd", "bad_path"),
        ("../x", "bad_path"),
        ("a\0b", "bad_path"),
        ("\ud800", "bad_path"),
        ("x" * 300, "bad_path"),
    ],
)
def test_a_bad_path_gets_a_sentence(agent, path, code):
    (agent.root / "folder").mkdir()
    (agent.root / "file").write_text("x")
    result = agent.call("read_file", path=path)
    assert result.error.code == code
    assert result.error.message.endswith(".")


def test_the_shells_path_of_a_file_works_too(agent):
    (agent.root / "a").write_text("x\n")
    assert agent.call("read_file", path="/workspace/a").output == "1\tx"


def test_a_stored_output_is_read_under_its_virtual_path(agent):
    path = output_path("ab" * 32)
    agent.outputs[path] = "".join(f"{n}\n" for n in range(5000)).encode()
    result = agent.call("read_file", path=path, offset=4000, limit=1)
    assert result.output.startswith("4000\t3999")
    assert (
        agent.call("read_file", path=output_path("cd" * 32)).error.code == "not_found"
    )
    assert agent.call("write_file", path=path, content="").error.code == "read_only"


def test_a_new_file_is_written_with_its_folders(agent):
    result = agent.call("write_file", path="새 폴더/b/c.txt", content="안녕\n")
    assert result.ok
    assert result.meta["created"]
    assert (agent.root / "새 폴더/b/c.txt").read_text() == "안녕\n"
    assert "+안녕" in result.meta["diff"]


def test_an_unread_or_changed_file_is_not_overwritten(agent):
    file = agent.root / "a"
    file.write_text("one\n")
    assert agent.call("write_file", path="a", content="x").error.code == "stale_file"
    agent.call("read_file", path="a")
    file.write_text("two\n")
    result = agent.call("write_file", path="a", content="x")
    assert result.error.code == "stale_file"
    assert "has changed" in result.error.message
    assert agent.call(
        "edit_file", path="a", old_string="two", new_string="x"
    ).error.code
    assert file.read_text() == "two\n"


def test_a_write_keeps_the_mode_and_leaves_no_temporary_file(agent):
    file = agent.root / "run.sh"
    file.write_text("a")
    file.chmod(0o750)
    agent.call("read_file", path="run.sh")
    assert agent.call("write_file", path="run.sh", content="b").ok
    assert file.stat().st_mode & 0o777 == 0o750
    assert os.listdir(agent.root) == ["run.sh"]


def test_one_write_after_another_needs_no_read_between(agent):
    agent.call("write_file", path="a", content="x = 1\n")
    assert agent.call("edit_file", path="a", old_string="1", new_string="2").ok
    assert agent.call("write_file", path="a", content="x = 3\n").ok


def test_read_only_refuses_writes(agent):
    result = agent.call_read_only("write_file", path="a", content="x")
    assert result.error.code == "read_only"
    assert not (agent.root / "a").exists()


def test_an_edit_keeps_bytes_that_are_not_utf8(agent):
    file = agent.root / "a"
    file.write_bytes("가나".encode("cp949") + b"\nkey = 1\n")
    agent.call("read_file", path="a")
    assert agent.call(
        "edit_file", path="a", old_string="key = 1", new_string="key = 2"
    ).ok
    assert file.read_bytes() == "가나".encode("cp949") + b"\nkey = 2\n"


def test_an_edit_of_a_crlf_file_keeps_its_line_ends(agent):
    file = agent.root / "a"
    file.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    agent.call("read_file", path="a")
    agent.call("edit_file", path="a", old_string="one\ntwo", new_string="1\n2")
    assert file.read_bytes() == b"1\r\n2\r\nthree\r\n"


def test_an_ambiguous_edit_names_the_lines(agent):
    (agent.root / "a").write_text("x\ny\nx\n")
    agent.call("read_file", path="a")
    result = agent.call("edit_file", path="a", old_string="x", new_string="z")
    assert "found 2 times, at lines 1, 3" in result.error.message
    done = agent.call(
        "edit_file", path="a", old_string="x", new_string="z", replace_all=True
    )
    assert "2 places" in done.output
    assert (agent.root / "a").read_text() == "z\ny\nz\n"


def test_a_missed_edit_shows_what_is_near():
    with pytest.raises(ToolError, match=r"(?s)Nearest.*2\t    return total"):
        replace("def f():\n    return total\n", "\treturn total", "x")
    with pytest.raises(ToolError, match="line numbers"):
        replace("a = 1\nb = 2\n", "1\ta = 1\n2\tb = 2", "x")
    with pytest.raises(ToolError, match="read the file again"):
        replace("a\n", "zzzzzzzzzz", "x")


@pytest.mark.parametrize(
    ("old", "new", "code"), [("", "x", "empty_old_string"), ("a", "a", "no_change")]
)
def test_an_edit_without_sense_is_refused(old, new, code):
    with pytest.raises(ToolError) as raised:
        replace("a", old, new)
    assert raised.value.code == code


def test_half_a_surrogate_is_not_written(agent):
    result = agent.call("write_file", path="a", content="\ud83d")
    assert result.error.code == "bad_text"
    assert not (agent.root / "a").exists()


def test_arguments_have_other_names_but_unknown_ones_are_refused(agent):
    (agent.root / "a").write_text("x\n")
    assert agent.call("read", file_path="a").ok
    with pytest.raises(ValidationError):
        agent.call("read_file", path="a", lines=3)


@pytest.mark.parametrize(("text", "old"), [("aaa", "aa"), ("\n\n\n", "\n\n")])
def test_places_that_overlap_leave_open_which_one_is_meant(text, old):
    with pytest.raises(ToolError, match="is found 2 times"):
        replace(text, old, "")


@given(
    before=st.text("ab\n", max_size=20),
    old=st.text("ab\n", min_size=1, max_size=4),
    after=st.text("ab\n", max_size=20),
    new=st.text("cd\n", max_size=4),
)
def test_an_edit_changes_one_place_and_nothing_else_or_refuses(before, old, after, new):
    text = before + old + after
    try:
        edited = replace(text, old, new)
    except ToolError as error:
        refused = error.code
    else:
        assert edited.text == before + new + after
        assert edited.line == before.count("\n") + 1
        refused = ""
    expected = "" if text.find(old) == text.rfind(old) else "not_unique"
    assert refused == ("no_change" if old == new else expected)


@given(
    text=st.text(
        st.characters(exclude_characters="\0\r\ufeff", exclude_categories=["Cs"])
    ),
    size=st.integers(1, 5),
    pieces=st.integers(1, 7),
)
def test_the_pages_of_a_file_joined_are_the_file(text, size, pieces):
    data = text.encode()
    chunks = [data[at : at + pieces] for at in range(0, len(data), pieces)]
    collected: list[str] = []
    while True:
        page = Page(len(collected) + 1, size)
        scanned = scan(iter(chunks), page)
        collected += [line.partition("\t")[2] for line in page.lines]
        if len(collected) >= scanned.total:
            break
    assert collected == (text.removesuffix("\n").split("\n") if text else [])
    assert scanned.sha256 == hashlib.sha256(data).hexdigest()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.integers(0, 90_000), st.sampled_from(["x", "line\n", "가\n"]))
def test_a_capped_text_keeps_both_ends_and_one_pointer(length, unit):
    text = (unit * length)[:length]
    seen = cap(text, "0" * 64)
    if len(text) <= MOST_CHARACTERS:
        assert seen == text
        return
    head, pointer, tail = seen.partition("\n[")
    assert pointer
    assert text.startswith(head)
    assert text.endswith(tail.partition("]\n")[2])
    assert ".tallyroom/outputs/0000000000000000.txt" in tail
    assert len(seen) < MOST_CHARACTERS + 200


def test_a_full_workspace_refuses_to_grow_but_not_to_shrink(agent, settings):
    settings.WORKSPACE_QUOTA_MB = 1
    agent.call("write_file", path="big", content="x\n" * 450_000)
    agent.call("write_file", path="more", content="keep\n")
    for name, arguments in {
        "write_file": {"path": "new", "content": "y" * 200_000},
        "edit_file": {"path": "more", "old_string": "k", "new_string": "k" * 200_000},
    }.items():
        result = agent.call(name, **arguments)
        assert result.error.code == "disk"
        assert "over the quota of 1 MB" in result.error.message
    assert not (agent.root / "new").exists()
    assert (agent.root / "more").read_text() == "keep\n"
    assert agent.call("write_file", path="big", content="small").ok
    assert agent.call("write_file", path="new", content="y" * 200_000).ok


def test_the_last_space_of_the_disk_is_not_for_agents(agent, settings):
    settings.FREE_SPACE_MB = 1 << 40
    result = agent.call("write_file", path="new", content="y")
    assert "are kept free" in result.error.message
    assert os.listdir(agent.root) == []
