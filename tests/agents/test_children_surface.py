"""What a child is declared, what it finds, and what it begins with."""

from __future__ import annotations

from typing import Any

import pytest

from agents.actions import start_conversation
from agents.children import warming
from agents.config_actions import save_settings
from agents.mcp.calling import calls_go_to
from agents.models import Delegation, Memory, Run
from agents.providers.scripted import calls, says
from agents.surface.limits import NEVER
from agents.surface.policy import BRIDGE
from tests.agents.servers import Ledger, serve, tool, tools
from tests.agents.test_children import begin, child, declared, start, sum_of
from workspace import transcript
from workspace.models import Entry

pytestmark = pytest.mark.django_db

READS = {"readOnlyHint": True}


@pytest.fixture
def restart(stage, workspace, owner):
    """A new conversation, of things as they are by then."""

    def make() -> None:
        stage.conversation = start_conversation(workspace=workspace, author=owner)

    return make


def results_of(delegation: Delegation) -> list[dict[str, Any]]:
    """What the calls of a child were answered."""
    found = transcript.entries(delegation.conversation_id)
    wanted = [entry for entry in found if entry.kind == Entry.Kind.TOOL_RESULT]
    return transcript.bodies(wanted)


def test_566_tools_of_a_server_are_found_by_a_child_and_none_is_declared(
    stage, script, workspace, restart
):
    serve(workspace, "hub", tools(566))
    restart()
    name = "mcp__hub__job_565"
    provider = script(
        calls("delegate_task", task="Run job 565."),
        calls("tool_search", query=f"select:{name}"),
        calls("tool_call", name=name, arguments={}),
        says("It ran."),
        says("Done."),
    )
    with calls_go_to(Ledger()) as ledger:
        assert start(stage).state == Run.State.FINISHED
    names = declared(provider.requests[1])
    assert not any(one.startswith("mcp__") for one in names)
    assert {*BRIDGE} <= {*names}
    assert ledger.calls == [("job_565", {})]


def test_server_tools_and_deferred_ones_that_a_task_names_are_declared(
    stage, script, workspace, owner, restart
):
    serve(workspace, "hub", [tool("a", hints=READS), tool("b", hints=READS)])
    save_settings(by=owner, scope=workspace, values={"tools.eager": ["read_file"]})
    restart()
    named = ["mcp__hub__a", "mcp__hub__b", "grep", "list_dir"]
    provider = script(
        calls("delegate_task", task="Look.", tools=named), says("Seen."), says(".")
    )
    start(stage)
    assert "grep" not in declared(provider.requests[0])
    assert {*named} <= {*declared(provider.requests[1])}
    assert child().warnings == []


def test_a_child_of_the_first_round_works_with_the_model_of_its_parent(stage, script):
    script(calls("delegate_task", task="Look."), says("Seen."), says("."))
    run = start(stage)
    assert child().conversation.model_name == run.model_name == "simulator"
    assert child().warnings == []


def test_a_child_finds_nothing_that_belongs_to_people(stage, script):
    script(
        calls("delegate_task", task="Look."),
        calls("tool_search", query=f"select:{','.join(NEVER)}", max_results=20),
        calls("exit_plan_mode", plan="I am done."),
        says("Nothing."),
        says("."),
    )
    start(stage)
    searched, called = results_of(child())
    assert "loaded" not in searched["meta"] or searched["meta"]["loaded"] == {}
    assert "<function>" not in str(searched)
    assert called["error"]["code"] in ("denied", "absent", "unknown_tool")


def test_what_its_parent_searched_arms_no_child(stage, script):
    script(
        calls("tool_search", query="select:list_dir"),
        calls("delegate_task", task="List."),
        calls("tool_call", name="list_dir", arguments={"path": "."}),
        says("I was refused."),
        says("."),
    )
    start(stage)
    [refused] = results_of(child())
    assert "select:list_dir" in refused["error"]["message"]
    assert refused["error"]["message"].startswith("[tool_call bridge refused]")


def test_a_lean_child_begins_without_notes_and_skills_and_reads_one_by_name(
    stage, script, workspace, restart
):
    folder = workspace.root / ".tallyroom" / "skills" / "sums"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: sums\ndescription: Adds up columns.\n---\nCarry the one."
    )
    Memory.objects.create(
        workspace=workspace, scope=Memory.Scope.WORKSPACE, text="Totals are in euros."
    )
    restart()
    provider = script(
        calls("delegate_task", task="Add.", agent="explore"),
        calls("skill_view", name="sums"),
        says("Five."),
        says("."),
    )
    start(stage)
    above, below = (one.prompt.messages[0].text for one in provider.requests[:2])
    assert "Adds up columns." in above
    assert "Totals are in euros." in above
    assert "Adds up columns." not in below
    assert "Totals are in euros." not in below
    assert "skill_view" not in declared(provider.requests[1])
    [viewed] = results_of(child())
    assert "Carry the one." in viewed["output"]


def test_rules_that_a_child_came_upon_are_sent_ever_after(
    stage, script, workspace, owner, restart
):
    (workspace.root / "src" / "ui").mkdir(parents=True)
    (workspace.root / "src" / "AGENTS.md").write_text("Outer rules.")
    (workspace.root / "src" / "ui" / "AGENTS.md").write_text("Inner rules.")
    (workspace.root / "src" / "app.py").write_text("app = 1\n" * 80)
    (workspace.root / "src" / "ui" / "x.py").write_text("x = 1\n")
    for number in range(10):
        (workspace.root / f"{number}.txt").write_text(f"line {number}\n" * 80)
    save_settings(by=owner, scope=workspace, values={"agent.pruneBatchRounds": 1})
    restart()
    provider = script(
        calls("delegate_task", task="Read."),
        calls("read_file", path="src/app.py"),
        *[calls("read_file", path=f"{number}.txt") for number in range(10)],
        calls("read_file", path="src/ui/x.py"),
        says("Read."),
        says("."),
    )
    start(stage)
    first, last = provider.requests[1], provider.requests[-2]
    assert b"Outer rules." not in first.body
    texts = [one.text for one in last.prompt.messages]
    assert any(text.startswith("[earlier read_file output pruned") for text in texts)
    assert last.body.count(b"Outer rules.") == 1
    assert last.body.count(b"Inner rules.") == 1
    assert last.body.index(b"Outer rules.") < last.body.index(b"Inner rules.")


def test_a_first_sibling_that_fails_holds_nobody_up(stage, script):
    script(sum_of(calls("delegate_task", task=f"Part {n}") for n in range(4)))
    begin(stage)
    first, *others = Delegation.objects.exclude(run=None).order_by("pk")
    assert len({one.prefix_digest for one in [first, *others]}) == 1
    Run.objects.filter(pk=first.run_id).update(state=Run.State.FAILED)
    assert warming._is_warm(first.pk)
    assert first.warmed_at is None
