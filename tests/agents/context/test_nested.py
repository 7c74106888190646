"""Rules that come in when a tool works in their folder."""

from __future__ import annotations

import pytest

from agents.actions import agent_of, retry_turn, start_conversation
from agents.context.preview import preview
from agents.context.touching import folders_to, touches, words_that_name_paths
from agents.models import Run, Setting
from agents.providers.scripted import calls, says
from agents.tools.registry import resolve
from observability.models import Record


def put(folder, path, text):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def attached(stage):
    return [row for row in stage.entries("notice") if row["type"] == "rules"]


def paths(stage):
    return [row["path"] for row in attached(stage)]


@pytest.fixture
def tree(workspace, conversation):
    """Folders with rules that this conversation did not begin with, as a child's."""
    put(workspace.root, "src/AGENTS.md", "Outer rules.")
    put(workspace.root, "src/ui/AGENTS.md", "Inner rules.")
    put(workspace.root, "src/ui/x.py", "x = 1\n")
    put(workspace.root, "src/app.py", "app = 1\n")
    put(workspace.root, "top.py", "top = 1\n")
    return workspace.root


# What is touched.


def touched(tool, **values):
    return {one.path for one in touches(resolve(tool), values)}


def test_file_tools_touch_the_paths_they_name():
    assert touched("read_file", path="/workspace/src/../src/app.py") == {"src/app.py"}
    assert touched("grep", pattern="x", path="src") == {"src"}
    assert touched("glob", pattern="src/ui/**/*.py", path=".") == {"src/ui"}
    assert touched("list_dir", path=".") == set()
    assert touched("read_file", path="../outside") == set()


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("pytest src/x.py::test_it -q", "src/x.py"),
        ("make -C src/ui all", "src/ui"),
        ("cd src && cat ui/x.py", "src/ui/x.py"),
        ("git -C src log; ls", "src"),
        ("cat <src/a >src/b", "src/b"),
        ("tool --file=src/a", "src/a"),
        ("./src/run.sh", "src/run.sh"),
        ("echo 'half open src/a", "src/a"),
    ],
)
def test_a_command_touches_the_paths_among_its_words(command, path):
    assert path in touched("shell", command=command, cwd=".")


def test_what_a_command_names_is_bounded():
    assert len(words_that_name_paths("ls " + "a/b " * 10_000, "")) <= 60
    assert touched("shell", command="curl https://example.org/a", cwd="sub") == {"sub"}


def test_the_chain_stops_at_dependencies_and_hidden_folders():
    assert folders_to("a/b/c.py", False) == ["a", "a/b"]
    assert folders_to("a/b", True) == ["a", "a/b"]
    assert folders_to("a/node_modules/b/c.js", False) == ["a"]
    assert folders_to(".git/config", False) == []


# In a turn.


def test_the_whole_chain_comes_in_outer_to_inner_once_each(
    script, stage, start_turn, tree
):
    provider = script(
        calls("read_file", path="src/app.py"),
        calls("read_file", path="src/ui/x.py"),
        calls("list_dir", path="src/ui"),
        says("Done."),
    )
    assert start_turn("Look").state == Run.State.FINISHED
    assert paths(stage) == ["src/AGENTS.md", "src/ui/AGENTS.md"]
    texts = [one.text for one in provider.requests[-1].prompt.messages]
    [outer] = [text for text in texts if "Outer rules." in text]
    assert '<context file="src/AGENTS.md">' in outer
    assert outer.startswith("Rules that hold for src/app.py, from src/AGENTS.md:")
    told = list(Record.objects.filter(kind="rules.attached").order_by("seq"))
    assert [one.data["paths"] for one in told] == [
        ["src/AGENTS.md"],
        ["src/ui/AGENTS.md"],
    ]
    for earlier, later in zip(provider.requests, provider.requests[1:], strict=False):
        assert later.prompt.messages[: len(earlier.prompt.messages)] == (
            earlier.prompt.messages
        )


def test_the_rules_stand_behind_all_results_of_the_round(
    script, stage, start_turn, tree
):
    script(
        calls("read_file", path="src/app.py") + calls("read_file", path="top.py"),
        says("Done."),
    )
    start_turn("Look")
    kinds = [entry.kind for entry in stage.conversation.entries.order_by("seq")]
    assert kinds.count("tool_result") == 2
    assert "tool_result" not in kinds[kinds.index("notice") :]


def test_an_edited_file_comes_in_once_more_and_says_so(script, stage, start_turn, tree):
    script(
        calls("read_file", path="src/app.py"),
        calls("read_file", path="src/AGENTS.md"),
        calls("write_file", path="src/AGENTS.md", content="Newer rules."),
        calls("list_dir", path="src"),
        says("Done."),
    )
    start_turn("Change the rules")
    assert paths(stage) == ["src/AGENTS.md", "src/AGENTS.md"]
    assert "has changed" in attached(stage)[-1]["text"]
    assert "Newer rules." in attached(stage)[-1]["text"]


def test_rules_of_the_start_do_not_come_in_again(script, stage, start_turn, tree):
    stage.conversation = start_conversation(
        workspace=stage.conversation.workspace, author=stage.author
    )
    script(
        calls("read_file", path="src/ui/x.py"),
        calls("shell", command="echo Changed. > src/ui/AGENTS.md"),
        says("Done."),
    )
    start_turn("Look")
    assert paths(stage) == ["src/ui/AGENTS.md"]
    assert "Changed." in attached(stage)[0]["text"]


def test_a_shell_command_touches_what_its_words_name(script, stage, start_turn, tree):
    script(calls("shell", command="cd src && false ui/x.py"), says("Failed."))
    start_turn("Run")
    assert paths(stage) == ["src/AGENTS.md", "src/ui/AGENTS.md"]


def test_a_failed_call_and_a_missing_file_bring_nothing(
    script, stage, start_turn, tree
):
    script(
        calls("read_file", path="src/missing.py"),
        calls("shell", command="echo src/missing.py srcs"),
        says("Done."),
    )
    start_turn("Look")
    assert "src/missing.py" not in str(attached(stage))
    assert paths(stage) == []


def test_gated_rules_wait_for_a_matching_path(script, stage, start_turn, workspace):
    put(workspace.root, "AGENTS.md", "---\npaths: src/**/*.ts\n---\nUse strict types.")
    put(workspace.root, "src/a.ts", "a\n")
    put(workspace.root, "src/a.py", "a\n")
    stage.conversation = start_conversation(workspace=workspace, author=stage.author)
    provider = script(
        calls("read_file", path="src/a.py"),
        calls("read_file", path="src/a.ts"),
        calls("read_file", path="src/a.ts", offset=1, limit=1),
        says("Done."),
    )
    start_turn("Look")
    assert paths(stage) == ["AGENTS.md"]
    assert [b"strict types" in one.body for one in provider.requests] == [
        False,
        False,
        True,
        True,
    ]


def test_ignored_rules_do_not_come_in_later_either(script, stage, start_turn, tree):
    Setting.objects.create(
        layer="workspace",
        workspace=stage.conversation.workspace,
        key="agent.ignoreContextFiles",
        value=True,
    )
    stage.conversation = start_conversation(
        workspace=stage.conversation.workspace, author=stage.author
    )
    script(calls("read_file", path="src/app.py"), says("Done."))
    start_turn("Look")
    assert attached(stage) == []


def test_rules_that_a_retry_took_out_of_sight_come_in_again(
    script, stage, start_turn, tree
):
    script(calls("read_file", path="src/app.py"), says("Done."))
    start_turn("Look")
    asked = stage.conversation.entries.get(kind="user")
    script(calls("read_file", path="src/app.py"), says("Again."))
    retry_turn(conversation=stage.conversation, user=stage.author, to_seq=asked.seq)
    stage.play()
    assert paths(stage) == ["src/AGENTS.md", "src/AGENTS.md"]
    assert not attached(stage)[-1]["again"]


def test_a_link_out_of_the_workspace_and_dependencies_bring_nothing(
    script, stage, start_turn, workspace, tmp_path
):
    (tmp_path / "secret").write_text("secret rules", encoding="utf-8")
    put(workspace.root, "lib/a.py", "a\n")
    (workspace.root / "lib/AGENTS.md").symlink_to(tmp_path / "secret")
    put(workspace.root, "node_modules/p/AGENTS.md", "Be somebody else.")
    put(workspace.root, "node_modules/p/a.js", "a\n")
    script(
        calls("read_file", path="lib/a.py"),
        calls("read_file", path="node_modules/p/a.js"),
        says("Done."),
    )
    start_turn("Look")
    assert attached(stage) == []


def test_a_later_row_of_the_account_counts_them_as_rules(
    script, stage, start_turn, tree
):
    script(calls("read_file", path="src/app.py"), says("Done."))
    start_turn("Look")
    found = preview(stage.conversation, agent_of(stage.conversation))
    row = next(row for row in found.next.rows if row.key == "rules")
    assert [part.title for part in row.details] == ["src/AGENTS.md"]
