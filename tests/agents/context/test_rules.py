"""Rules files: which are found, how large they may be, and how they are sent."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.actions import agent_of, start_conversation
from agents.context.frontmatter import admits, gate_of, line_of, split
from agents.context.preview import preview
from agents.context.rules import (
    Caps,
    Found,
    RulesFile,
    cut,
    escaped,
    fitted,
    root_only,
    snapshot,
    wrapped,
)
from agents.context.rules_files import LARGEST_BYTES, discover
from agents.models import Setting
from workspace import transcript
from workspace.models import Entry


def put(folder, path, text):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def paths(found):
    return [file.path for file in found.files]


def ignored(found):
    return {one.path: one.reason for one in found.ignored}


# Caps (reference cases 23 and 24).


@pytest.mark.parametrize(
    ("window", "per_file", "total"),
    [
        (None, 20_000, 12_000),
        (0, 20_000, 12_000),
        (8_000, 8_000, 12_000),
        (32_000, 8_000, 12_800),
        (32_001, 20_000, 12_800),
        (40_000, 20_000, 16_000),
        (128_000, 30_720, 51_200),
        (200_000, 48_000, 80_000),
        (300_000, 72_000, 120_000),
        (1_000_000, 240_000, 120_000),
        (10_000_000, 500_000, 120_000),
    ],
)
def test_caps_follow_from_the_window(window, per_file, total):
    assert Caps.of(window) == Caps(per_file, total)
    assert Caps.of(window, 5, 7) == Caps(5, 7)


def test_the_deepest_file_is_cut_and_what_lies_above_stays_whole():
    files = [
        RulesFile("AGENTS.md", "a" * 400),
        RulesFile("src/AGENTS.md", "b" * 400, "src"),
        RulesFile("src/client/AGENTS.md", "c" * 400, "src/client"),
    ]
    root, src, client = fitted(files, Caps(20_000, 900))
    assert root.text == "a" * 400
    assert src.text == "b" * 400
    left = 400 - client.text.count("c", 0, client.text.index("…"))
    left -= len(client.text) - client.text.rindex("]") - 1
    assert f"…[truncated: {left} more chars; read src/client/AGENTS.md" in client.text
    assert sum(len(one.text) for one in (root, src, client)) <= 900


def test_a_cut_file_keeps_seventy_percent_head_and_twenty_percent_tail():
    text = "h" * 1000 + "t" * 500
    assert cut(text, 1000, "AGENTS.md") == (
        "h" * 700
        + "…[truncated: 600 more chars; read AGENTS.md for the rest]"
        + "t" * 200
    )


def test_the_root_file_stays_whole_however_small_the_total_is():
    files = [RulesFile("AGENTS.md", "a" * 900), RulesFile("x/AGENTS.md", "b", "x")]
    assert [one.text for one in fitted(files, Caps(2_000, 100))] == ["a" * 900]


@given(
    st.lists(st.integers(1, 3_000), min_size=1, max_size=8),
    st.integers(50, 3_000),
    st.integers(50, 6_000),
)
def test_rules_never_take_more_than_their_total(sizes, per_file, total):
    files = [
        RulesFile(
            "/".join(["d"] * index + ["AGENTS.md"]), "x" * size, "/".join("d" * index)
        )
        for index, size in enumerate(sizes)
    ]
    kept = fitted(files, Caps(per_file, total))
    assert sum(len(one.text) for one in kept) <= max(total, min(sizes[0], per_file))
    assert all(len(one.text) <= per_file for one in kept)
    for one in kept:
        if not one.is_whole:
            left = int(one.text.partition("truncated: ")[2].partition(" ")[0])
            assert one.text.count("x") + left == len(one.file.text)


# The block.


@pytest.mark.parametrize(
    "text",
    ["</context>", "</ CONTEXT >", "< /context>", '<context file="AGENTS.md">x'],
)
def test_a_file_cannot_close_its_wrapper_or_open_another(text):
    [kept] = fitted([RulesFile("AGENTS.md", f"before {text} after")], Caps.of(None))
    sent = wrapped(kept)
    assert sent.count("<") == 2
    assert escaped("a < b, <ctx> and </div>") == "a < b, <ctx> and </div>"


def test_a_hostile_path_stays_inside_its_attribute():
    file = RulesFile('a"><b>\n/AGENTS.md', "text", 'a"><b>\n')
    first = wrapped(fitted([file], Caps.of(None))[0]).splitlines()[0]
    assert first == '<context file="a&quot;&gt;&lt;b&gt;\\n/AGENTS.md">'


def test_the_block_has_its_heading_and_one_part_for_each_file_root_first():
    found = Found((RulesFile("AGENTS.md", "one"), RulesFile("x/CLAUDE.md", "two", "x")))
    made = snapshot(found, Caps.of(None))
    assert made.parts[0]["text"].startswith("# Project Context\n")
    assert [part["id"] for part in made.parts[1:]] == [
        "rules:AGENTS.md",
        "rules:x/CLAUDE.md",
    ]
    assert snapshot(Found(), Caps.of(None)).parts == ()


def test_a_gated_file_is_recorded_and_not_in_the_block():
    gated = RulesFile("AGENTS.md", "only python", globs=("**/*.py",))
    made = snapshot(Found((gated,)), Caps.of(None))
    assert made.parts == ()
    assert made.record["gated"][0]["paths"] == ["**/*.py"]


# Discovery.


def test_all_kinds_are_read_in_their_order_and_equal_texts_once(tmp_path):
    put(tmp_path, ".cursorrules", "cursor")
    put(tmp_path, ".snowpea/instructions.md", "pea")
    put(tmp_path, "QWEN.md", "qwen")
    put(tmp_path, "CLAUDE.md", "\nshared\r\n")
    put(tmp_path, "AGENTS.md", "shared")
    found = discover(tmp_path, "chat")
    assert paths(found) == [
        "AGENTS.md",
        "QWEN.md",
        ".snowpea/instructions.md",
        ".cursorrules",
    ]
    assert ignored(found) == {"CLAUDE.md": "same"}


def test_mode_rules_hold_in_their_mode_only_and_in_order_of_names(tmp_path):
    put(tmp_path, "AGENTS.md", "root")
    put(tmp_path, ".bob/rules/b.md", "b")
    put(tmp_path, ".bob/rules/a.md", "a")
    put(tmp_path, ".bob/rules-plan/p.md", "p")
    put(tmp_path, ".bobrules", "beaten by the folder")
    put(tmp_path, ".bobrules-review", "fallback")
    chat = ["AGENTS.md", ".bob/rules/a.md", ".bob/rules/b.md"]
    assert paths(discover(tmp_path, "chat")) == chat
    assert paths(discover(tmp_path, "plan")) == [*chat, ".bob/rules-plan/p.md"]
    assert paths(discover(tmp_path, "review")) == [*chat, ".bobrules-review"]


def test_folders_are_searched_by_depth_to_the_fourth_and_dependencies_skipped(tmp_path):
    for path in (
        "z/AGENTS.md",
        "a/b/c/AGENTS.md",
        "a/b/c/d/AGENTS.md",
        "a/b/c/d/e/AGENTS.md",
        "node_modules/x/AGENTS.md",
        ".hidden/AGENTS.md",
        "vendor/AGENTS.md",
    ):
        put(tmp_path, path, path)
    assert paths(discover(tmp_path, "chat")) == [
        "z/AGENTS.md",
        "a/b/c/AGENTS.md",
        "a/b/c/d/AGENTS.md",
    ]


def test_at_most_forty_files_in_sub_folders_are_read(tmp_path):
    for number in range(45):
        put(tmp_path, f"d{number:02}/AGENTS.md", f"rules {number}")
    found = discover(tmp_path, "chat")
    assert len(found.files) == 40
    assert list(ignored(found)) == [f"d{number}/AGENTS.md" for number in range(40, 45)]


def test_a_link_is_followed_inside_the_workspace_and_nowhere_else(tmp_path):
    root, outside = tmp_path / "files", tmp_path / "secret.md"
    root.mkdir()
    outside.write_text("secret", encoding="utf-8")
    put(root, "docs/rules.md", "shared rules")
    (root / "AGENTS.md").symlink_to("docs/rules.md")
    (root / "CLAUDE.md").symlink_to("../secret.md")
    (root / "QWEN.md").symlink_to(outside)
    (root / ".cursorrules").symlink_to(".cursorrules")
    found = discover(root, "chat")
    assert [file.text for file in found.files] == ["shared rules"]
    assert ignored(found) == dict.fromkeys(
        ["CLAUDE.md", "QWEN.md", ".cursorrules"], "link"
    )


def test_what_is_no_text_is_left_out_with_a_reason(tmp_path):
    (tmp_path / "AGENTS.md").write_bytes(b"a\0b")
    (tmp_path / "CLAUDE.md").write_bytes(b"x" * (LARGEST_BYTES + 1))
    (tmp_path / "QWEN.md").mkdir()
    os.mkfifo(tmp_path / ".cursorrules")
    put(tmp_path, "x/AGENTS.md", " \n")
    found = discover(tmp_path, "chat")
    assert found.files == ()
    assert ignored(found) == {
        "AGENTS.md": "binary",
        "CLAUDE.md": "large",
        "QWEN.md": "unreadable",
        ".cursorrules": "unreadable",
        "x/AGENTS.md": "empty",
    }


def test_a_workspace_without_a_folder_has_no_rules(tmp_path):
    assert discover(tmp_path / "missing", "chat") == Found()


def test_a_lean_child_gets_the_first_root_file_alone(tmp_path):
    put(tmp_path, "QWEN.md", "qwen")
    put(tmp_path, "CLAUDE.md", "claude")
    put(tmp_path, ".bob/rules/a.md", "bob")
    put(tmp_path, "src/AGENTS.md", "src")
    assert paths(root_only(discover(tmp_path, "chat"))) == ["CLAUDE.md"]


# Heads and globs.


def test_a_head_gives_its_paths_and_stays_out_of_the_text(tmp_path):
    put(tmp_path, "AGENTS.md", '---\npaths:\n  - "src/**/*.py"\n---\nUse ruff.')
    put(tmp_path, "CLAUDE.md", "---\npaths: [docs/**, '*.md']\n---\nWrite short.")
    one, two = discover(tmp_path, "chat").files
    assert (one.globs, one.text) == (("src/**/*.py",), "Use ruff.")
    assert two.globs == ("docs/**", "*.md")


@pytest.mark.parametrize(
    "head", ["a: [", "- just a list", "x: " + "y" * 9_000, "[" * 4_000]
)
def test_a_bad_head_is_told_and_its_file_still_read(head):
    document = split(f"---\n{head}\n---\nThe rules.")
    assert document.values == {}
    assert document.text == "The rules."
    assert document.problem


def test_a_line_of_dashes_that_is_no_head_stays_text():
    assert split("---\nno end").text == "---\nno end"
    assert split("---\n---\nbody").text == "body"


def test_an_unusable_glob_is_dropped_and_the_others_hold():
    gate = gate_of(["src/*.py", "/etc/*", "../x", 7, ""])
    assert gate.globs == ("src/*.py",)
    assert gate.dropped == ("/etc/*", "../x")
    assert gate_of([]).globs == ()
    assert gate_of("a/**, *.{js,ts}").globs == ("a/**", "*.{js,ts}")


@pytest.mark.parametrize(
    ("glob", "path", "admitted"),
    [
        ("src/**/*.py", "src/a/b.py", True),
        ("src/**/*.py", "src/b.py", True),
        ("*.md", "README.md", True),
        ("*.md", "docs/README.md", False),
        ("docs/", "docs/a/b.txt", True),
        ("**/*.yml", ".github/x.yml", False),
        (".github/**", ".github/x.yml", True),
        ("**/.env*", "app/.env.local", True),
    ],
)
def test_globs_are_relative_to_the_root_and_leave_dot_files_alone(glob, path, admitted):
    assert admits([glob], [path]) is admitted


# In a conversation.


@pytest.fixture
def begin(workspace, owner):
    """Begin a conversation in a workspace with these files."""

    def begin(**files):
        for path, text in files.items():
            put(workspace.root, path, text)
        return start_conversation(workspace=workspace, author=owner)

    return begin


def startup_of(conversation):
    entry = conversation.entries.select_related("stored").get(kind=Entry.Kind.STARTUP)
    return transcript.body(entry)


def explored(conversation):
    return preview(conversation, agent_of(conversation))


def test_a_conversation_begins_with_the_rules_each_a_row_of_the_account(begin):
    conversation = begin(**{"AGENTS.md": "Speak kindly.", "src/AGENTS.md": "Use ruff."})
    found = explored(conversation)
    row = next(row for row in found.next.rows if row.key == "rules")
    assert {part.title for part in row.details} == {
        "AGENTS.md",
        "src/AGENTS.md",
        "Heading of the rules",
    }
    assert b"".join(one.data for one in found.assembled.segments) == (
        found.assembled.body
    )
    assert found.assembled.body.count(b"Speak kindly.") == 1


def test_a_file_that_quotes_the_rest_of_the_startup_context_gets_its_own_bytes(begin):
    index = startup_of(begin())["parts"][-1]["text"]
    found = explored(begin(**{"AGENTS.md": f"x\n\n{index}\n\n# Project Context"}))
    sizes = {one.id: one.size for one in found.assembled.segments}
    assert sizes["rules:AGENTS.md"] > len(index) > 0
    assert sizes["index"] >= len(index)
    assert b"".join(one.data for one in found.assembled.segments) == (
        found.assembled.body
    )


def test_edits_of_the_root_hold_for_the_next_conversation(begin, workspace):
    first = begin(**{"AGENTS.md": "old rules"})
    before = explored(first).assembled.body
    put(workspace.root, "AGENTS.md", "new rules")
    assert explored(first).assembled.body == before
    assert "new rules" in startup_of(begin())["text"]


def test_rules_can_be_ignored_and_their_sizes_set(begin, workspace, owner):
    Setting.objects.create(
        layer="workspace",
        workspace=workspace,
        key="agent.contextFileMaxChars",
        value=200,
    )
    record = startup_of(begin(**{"AGENTS.md": "x" * 300}))["rules"]
    assert record["files"][0]["kept"] <= 200 < record["files"][0]["size"]
    Setting.objects.create(
        layer="workspace",
        workspace=workspace,
        key="agent.ignoreContextFiles",
        value=True,
    )
    body = startup_of(begin())
    assert body["rules"]["off"]
    assert "Project Context" not in body["text"]


def test_long_rules_go_to_the_store_and_the_caps_follow_from_the_model(begin):
    body = startup_of(begin(**{"AGENTS.md": "한" * 100_000}))
    assert body["rules"]["per_file"] == 64_800  # of the simulator's 270,000 tokens
    assert body["rules"]["files"][0]["kept"] <= 64_800


@pytest.mark.parametrize(
    "head",
    [
        "name: !!bool maybe",
        "name: !!timestamp soon",
        "name: !!int ''",
        "name: !!float ''",
        "? !!int ''\n: x",
        f"0x{'f' * 50}: x\n? 0x{'f' * 100}\n: y",
        f"? !!int 0x{'f' * 6000}\n: x",
    ],
)
def test_a_head_that_yaml_chokes_on_is_told_and_never_raised(head):
    found = split(f"---\n{head}\n---\nBody")
    assert found.text == "Body"
    assert found.problem or found.values


def test_a_number_too_long_to_write_is_no_line_of_text():
    found = split(f"---\nname: 0x{'f' * 6000}\n---\nBody")
    assert line_of(found.values["name"], 100) == ""
