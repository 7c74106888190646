"""What never changes the list of declared tools, and that nothing falls between lists."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest
from django.urls import reverse

from agents.actions import start_conversation
from agents.answer_actions import answer_wait
from agents.config_actions import save_settings
from agents.context.preview import preview
from agents.mcp.calling import calls_go_to
from agents.mode_actions import set_mode
from agents.models import LoadedTool, Run, ToolCall, Wait
from agents.providers.scripted import ScriptedProvider, calls, says
from agents.seeding import seed_workspace
from agents.settings_actions import save_permissions
from agents.tools.registry import BUILTIN, catalogue
from observability.models import Record
from tests.agents.conftest import Stage
from tests.agents.servers import Ledger, serve, tool, tools

pytestmark = pytest.mark.django_db

READS = {"readOnlyHint": True}


def fresh(stage: Stage) -> Stage:
    """A new conversation of the same people."""
    made = start_conversation(
        workspace=stage.conversation.workspace, author=stage.author
    )
    return Stage(made, stage.author)


def tools_of(request: Any) -> bytes:
    pieces = request.request.pieces
    return b"".join(one.data for one in pieces if one.owner.kind == "tools")


def begins_with(request: Any) -> str:
    kinds = ("tools", "system", "startup")
    parts = [one.data for one in request.request.pieces if one.owner.kind in kinds]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def declared(request: Any) -> list[str]:
    return [one.name for one in request.prompt.tools]


def test_each_tool_is_declared_or_deferred_once_and_only_the_declared_have_a_schema(
    stage, script, start_turn, workspace
):
    serve(workspace, "hub", tools(60))
    stage.conversation = start_conversation(workspace=workspace, author=stage.author)
    provider = script(says("Hi."))
    start_turn("Hi")
    [surface] = stage.entries("surface")
    names = [one["name"] for one in surface["tools"]]
    assert names == declared(provider.requests[0])
    rows = preview(stage.conversation, seed_workspace(workspace)).on_demand
    hidden = [row.name for row in rows]
    known = {one.name for one in catalogue(workspace.pk).tools}
    assert len(names) == len({*names})
    assert not {*names} & {*hidden}
    assert {"mcp__hub__job_059", "git_diff"} <= {*hidden}
    assert {*names, *hidden} <= known
    for row in rows:
        assert json.dumps(row.schema)[1:-1].encode() not in provider.requests[0].body


def test_an_allow_rule_skips_the_question_and_declares_nothing_else(
    stage, workspace, owner
):
    """An allow-list once became a list of what exists, and editing vanished."""
    plain = fresh(stage)
    save_permissions(by=owner, workspace=workspace, allow=["shell"])
    allowing = fresh(stage)
    (workspace.root / "a.txt").write_text("one\n")
    edit = calls("edit_file", path="a.txt", old_string="one", new_string="two")
    read = calls("read_file", path="a.txt")
    for one, steps in ((plain, [says("Hi.")]), (allowing, [read, edit, says("Hi.")])):
        one.provider = ScriptedProvider(*steps)
        one.post("Hi")
        assert one.play().state == Run.State.FINISHED
    before, after = plain.provider.requests[0], allowing.provider.requests[0]
    assert tools_of(before) == tools_of(after)
    assert allowing.last("tool_result")["ok"]
    assert (workspace.root / "a.txt").read_text() == "two\n"


def test_the_first_use_of_anything_late_moves_no_byte_of_the_beginning(
    stage, script, start_turn, workspace
):
    serve(workspace, "hub", [tool("a", hints=READS)])
    folder = workspace.root / ".tallyroom" / "skills" / "sums"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: sums\ndescription: Adds up.\n---\nCarry the one."
    )
    stage.conversation = start_conversation(workspace=workspace, author=stage.author)
    items = [{"content": "Add", "status": "in_progress"}]
    provider = script(
        calls("tool_search", query="git history"),
        calls("todo_write", todos=items),
        calls("skill_view", name="sums"),
        calls("mcp__hub__a"),
        calls("list_dir", path="."),
        says("Done."),
    )
    with calls_go_to(Ledger()) as ledger:
        assert start_turn("Use everything").state == Run.State.FINISHED
    assert ledger.calls == [("a", {})]
    assert len({begins_with(one) for one in provider.requests}) == 1


def test_a_search_or_a_call_in_review_gives_nothing_that_the_mode_denies(
    stage, script, workspace
):
    set_mode(conversation=stage.conversation, user=stage.author, mode="review")
    provider = script(
        calls("tool_search", query="select:shell,write_file"),
        calls("write_file", path="x.txt", content="x"),
        calls("tool_call", name="write_file", arguments={"path": "x", "content": "x"}),
        says("I may not."),
    )
    stage.post("Load the shell")
    assert stage.play().state == Run.State.FINISHED
    results = stage.entries("tool_result")
    assert "Not found" in str(results[0])
    assert results[1]["error"]["code"] == "denied"
    assert not results[2]["ok"]
    assert not LoadedTool.objects.exists()
    assert not (workspace.root / "x.txt").exists()
    assert len({tools_of(one) for one in provider.requests}) == 1


@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_a_hidden_tool_called_by_name_is_asked_about_like_any_other(
    stage, script, workspace, owner, decision
):
    save_permissions(by=owner, workspace=workspace, ask=["list_dir"])
    provider = script(calls("list_dir", path="."), says("So be it."))
    stage.post("Look")
    assert stage.play().state == Run.State.WAITING
    wait = Wait.objects.get()
    assert wait.payload["tool"] == "list_dir"
    answer = {"decision": "once" if decision == "allow" else "deny", "reason": "no"}
    answer_wait(wait=wait, user=owner, answer=answer)
    assert stage.play().state == Run.State.FINISHED
    result = stage.last("tool_result")
    assert result["ok"] is (decision == "allow")
    said = provider.requests[1].prompt.messages[-1].text
    note = said.endswith("loaded list_dir for this session")
    assert note is (decision == "allow")
    wait.refresh_from_db()
    assert wait.answered_by == owner
    assert tools_of(provider.requests[0]) == tools_of(provider.requests[1])


def test_a_tool_that_is_denied_is_denied_through_the_bridge_too(
    stage, script, start_turn, workspace, owner
):
    save_permissions(by=owner, workspace=workspace, deny=["list_dir(secret/**)"])
    script(
        calls("tool_search", query="select:list_dir"),
        calls("tool_call", name="list_dir", arguments={"path": "secret/a"}),
        says("I may not."),
    )
    start_turn("Look")
    assert stage.last("tool_result")["error"]["code"] == "denied"


def test_two_bridged_calls_of_one_answer_have_their_results_in_order(
    stage, script, start_turn, workspace
):
    for name in ("a", "b"):
        (workspace.root / name).mkdir()
        (workspace.root / name / f"in_{name}.txt").write_text("x")
    script(
        calls("tool_search", query="select:list_dir"),
        calls("tool_call", name="list_dir", arguments={"path": "b"})
        + calls("tool_call", name="list_dir", arguments={"path": "a"}),
        says("Done."),
    )
    start_turn("Look at both")
    _, first, second = (row["output"] for row in stage.entries("tool_result"))
    assert "in_b.txt" in first
    assert "in_a.txt" in second
    names = ToolCall.objects.order_by("pk").values_list("name", flat=True)
    assert [*names] == ["tool_search", "tool_call", "tool_call"]


def test_a_bridged_call_without_a_required_argument_names_it_and_runs_nothing(
    stage, script, workspace
):
    serve(workspace, "hub", [tool("at", city="string", required=["city"], hints=READS)])
    stage.conversation = start_conversation(workspace=workspace, author=stage.author)
    name = "mcp__hub__at"
    script(
        calls("tool_search", query=f"select:{name}"),
        calls("tool_call", name=name, arguments={}),
        calls("tool_call", name=name, arguments={"city": "Oslo"}),
        says("Done."),
    )
    stage.post("Where?")
    with calls_go_to(Ledger()) as ledger:
        stage.play()
    _, refused, done = stage.entries("tool_result")
    assert "city" in refused["error"]["message"]
    assert done["ok"]
    assert ledger.calls == [("at", {"city": "Oslo"})]


def test_an_envelope_that_is_wrong_again_and_again_ends_the_run(
    stage, script, start_turn
):
    wrong = calls("tool_call", name="list_dir")
    provider = script(*[wrong] * 9)
    run = start_turn("Look")
    assert run.state == Run.State.FAILED
    assert len(provider.requests) == 3
    first, *_ = stage.entries("tool_result")
    assert "exact tool name" in first["error"]["message"]
    assert not ToolCall.objects.filter(ok=True).exists()


def test_a_search_without_a_hit_is_recorded_and_loads_nothing(
    stage, script, start_turn
):
    provider = script(calls("tool_search", query="zebra crossing"), says("None."))
    start_turn("Find a zebra")
    [event] = Record.objects.filter(kind="tool.searched")
    assert (event.data["query"], event.data["hits"]) == ("zebra crossing", [])
    assert not LoadedTool.objects.exists()
    assert not Record.objects.filter(kind="tool.loaded").exists()
    assert tools_of(provider.requests[0]) == tools_of(provider.requests[1])


def test_an_unknown_name_is_answered_briefly_and_lists_tools_only_without_a_search(
    stage, script, start_turn, settings
):
    script(calls("zzz"), says("No."))
    start_turn("Call it")
    message = stage.last("tool_result")["error"]["message"]
    assert "tool_search" in message
    assert len(message) < 300
    settings.TOOL_DEFERRAL = False
    plain = fresh(stage)
    plain.provider = ScriptedProvider(calls("zzz"), says("No."))
    plain.post("Call it")
    plain.play()
    listed = plain.last("tool_result")["error"]["message"]
    assert all(name in listed for name in declared(plain.provider.requests[0]))


def test_two_loads_of_one_search_are_one_line_that_its_filter_shows(
    stage, script, start_turn, client, owner, workspace
):
    script(calls("tool_search", query="select:git_diff,list_dir"), says("Found."))
    run = start_turn("Load two")
    line = Record.objects.get(kind="tool.loaded").text
    assert line.startswith("[harness] loaded 2 deferred tool(s) via tool_search ")
    assert {"git_diff", "list_dir"} <= {*re.findall(r"\w+", line)}
    client.force_login(owner)
    address = reverse("observability:run", args=[workspace.slug, run.pk])
    page = client.get(address, {"group": "loads"}).content.decode()
    assert "[harness] loaded 2 deferred tool(s)" in page
    assert "tool.finished" not in page.split('id="records"')[-1].split("</ol>")[0]


def test_what_a_tool_would_cost_if_loaded_is_what_it_costs_when_declared(
    stage, workspace, owner
):
    agent = seed_workspace(workspace)
    hidden = preview(stage.conversation, agent)
    [row] = [one for one in hidden.on_demand if one.name == "git_diff"]
    save_settings(by=owner, scope=workspace, values={"tools.visible": ["git_diff"]})
    shown = preview(fresh(stage).conversation, agent)
    [part] = [one for one in shown.assembled.segments if one.id == "tool:git_diff"]
    # A declared schema stands in a list: its comma is the difference.
    assert abs(part.tokens - row.load_tokens) <= 1
    assert all(one.name != "git_diff" for one in shown.on_demand)


@pytest.mark.parametrize("eager", [None, ["read_file"], []])
def test_the_words_of_the_prompt_name_no_tool_that_cannot_be_reached(
    stage, workspace, owner, eager
):
    values = {"tools.disabled": ["group:git", "todo_write"]}
    if eager is not None:
        values["tools.eager"] = eager
    save_settings(by=owner, scope=workspace, values=values)
    found = preview(fresh(stage).conversation, seed_workspace(workspace))
    reachable = {one.name for one in found.on_demand}
    prompt = b""
    for part in found.assembled.segments:
        if part.kind == "tools":
            reachable.add(part.id.removeprefix("tool:"))
        elif part.kind in ("system", "startup"):
            prompt += part.data
    named = {*re.findall(r"[a-z]+_[a-z_]+", prompt.decode())}
    unreachable = {one.name for one in BUILTIN} - reachable
    assert "git_diff" in unreachable
    assert not named & unreachable


def test_a_search_of_eight_hits_returns_five_unless_it_asks_for_more(
    stage, script, start_turn, workspace
):
    serve(workspace, "hub", tools(8, "zigzag"))
    stage.conversation = start_conversation(workspace=workspace, author=stage.author)
    script(
        calls("tool_search", query="zigzag"),
        calls("tool_search", query="zigzag", max_results=20),
        says("Found."),
    )
    start_turn("Find them")
    few, all_of_them = (row["output"] for row in stage.entries("tool_result"))
    assert few.count("mcp__hub__zigzag_") == 5
    assert all_of_them.count("mcp__hub__zigzag_") == 8
