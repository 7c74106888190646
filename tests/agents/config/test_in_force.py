"""Settings at work: what a conversation begins with, and what it keeps."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks

from agents.actions import start_conversation
from agents.config_actions import difference, save_settings
from agents.context.startup import (
    BASE,
    SAFETY,
    deferred_tools,
    startup_body,
    surface_body,
)
from agents.models import Setting
from agents.providers.scripted import calls, says
from agents.seeding import seed_workspace
from agents.tool_list import list_tools
from agents.tools.registry import present
from workspace import transcript
from workspace.models import Entry


@pytest.fixture
def start(workspace, owner):
    """Set values in the workspace, then begin a conversation: it and its surface."""
    workspace.root.mkdir(parents=True, exist_ok=True)

    def begin(**values):
        named = {name.replace("__", "."): value for name, value in values.items()}
        save_settings(by=owner, scope=workspace, values=named)
        made = start_conversation(workspace=workspace, author=owner)
        [entry] = transcript.entries(made.pk, limit=1)
        return made, transcript.body(entry)

    return begin


def names(body):
    return [tool["name"] for tool in body["tools"]]


def test_an_allow_list_keeps_what_it_names_and_the_exempt_family(start):
    conversation, surface = start(tools__eager=["read_file", "run_shell_command"])
    assert {"read_file", "shell", "ask_user", "tool_search"} <= set(names(surface))
    assert "write_file" not in names(surface)
    assert "write_file" in {tool.name for tool in deferred_tools(conversation)}


def test_the_example_of_the_document_declares_the_tools_it_means(start):
    example = ["read_file", "write_file", "edit", "glob", "grep_search", "skill"]
    _conversation, surface = start(tools__eager=[*example, "run_shell_command"])
    meant = {"read_file", "write_file", "edit_file", "glob", "grep", "shell"}
    assert meant <= set(names(surface))
    assert "execute_code" not in names(surface)


def test_an_additive_list_declares_more_and_holds_nothing_back(start):
    _conversation, surface = start(
        tools__eager=["git_log"], tools__eagerPolicy="additive"
    )
    assert {"git_log", "write_file"} <= set(names(surface))


def test_a_visible_tool_is_declared_and_a_disabled_group_is_gone(start):
    conversation, surface = start(
        tools__visible=["list_dir"], tools__disabled=["group:git"]
    )
    assert "list_dir" in names(surface)
    assert not any(tool.group == "git" for tool in deferred_tools(conversation))


def test_deferral_off_declares_everything_in_the_order_of_the_registry(start):
    conversation, surface = start(tools__deferred=False)
    bridge = {"tool_search", "tool_call", "list_my_tools"}
    tools, _absent = present()
    assert names(surface) == [one.name for one in tools if one.name not in bridge]
    assert "index" not in [part["id"] for part in startup_body(conversation)["parts"]]


def test_the_index_keeps_to_its_budget(start):
    long, _surface = start(tools__indexBudget=5_000)
    short, _surface = start(tools__indexBudget=0)

    def index(conversation):
        entry = transcript.entries(conversation.pk)[1]
        parts = {part["id"]: part["text"] for part in transcript.body(entry)["parts"]}
        return parts["index"]

    assert "git_status" in index(long)
    assert "git_status" not in index(short)
    assert "git (" in index(short)


def test_an_agents_layer_goes_before_the_workspaces(start, workspace, owner):
    agent = seed_workspace(workspace)
    save_settings(by=owner, scope=agent, values={"tools.deferred": True})
    _conversation, surface = start(tools__deferred=False)
    assert "tool_search" in names(surface)


def test_the_prompt_is_replaced_and_the_safety_part_stays(start):
    conversation, surface = start(agent__systemPrompt="Be a poet.")
    parts = {part["id"]: part["text"] for part in surface["system"]}
    assert parts["base"] == "Be a poet."
    assert parts["safety"] == SAFETY
    agent = seed_workspace(conversation.workspace)
    assert BASE not in str(surface_body(agent, conversation))


def test_a_prompt_that_contains_the_safety_part_carries_it_once(start):
    _conversation, surface = start(agent__systemPrompt=f"Be a poet.\n{SAFETY}")
    assert [part["id"] for part in surface["system"]] == ["base"]


def test_what_changes_later_does_not_reach_a_conversation_that_has_begun(
    stage, script, start_turn, workspace, owner
):
    values = {"tools.disabled": ["group:git"], "agent.systemPrompt": "Be a poet."}
    provider = script(calls("tool_search", query="git status"), says("Found."))
    save_settings(by=owner, scope=workspace, values=values)
    start_turn("How is the repository?")
    assert "git_status" in stage.last(Entry.Kind.TOOL_RESULT)["output"]
    assert len({request.declared_tools_digest for request in provider.requests}) == 1
    listed = {row.name: row for row in list_tools(conversation=stage.conversation)}
    assert listed["git_status"].state == "active"
    later = start_conversation(workspace=workspace, author=owner)
    assert "git" not in {tool.group for tool in deferred_tools(later)}


def test_a_conversation_from_before_settings_goes_by_those_of_now(
    start, workspace, owner
):
    conversation, surface = start()
    del surface["settings"]
    transcript.append(
        conversation.pk, transcript.Draft(kind=Entry.Kind.SURFACE, body=surface)
    )
    save_settings(by=owner, scope=workspace, values={"tools.disabled": ["group:git"]})
    assert "git" not in {tool.group for tool in deferred_tools(conversation)}


def test_the_effect_shown_is_what_a_new_conversation_then_has(start, workspace):
    _conversation, before = start()
    values = {"tools.eager": ["read_file", "shell"]}
    shown = difference(workspace, values)
    _conversation, after = start(tools__eager=values["tools.eager"])
    assert set(shown.on_demand) == set(names(before)) - set(names(after))
    assert shown.declared == ()
    assert shown.tokens < 0
    assert difference(workspace, {"tools.eager": None}).tokens == -shown.tokens


def test_the_server_lists_its_tools_under_its_own_layer(db):
    save_settings(by=None, scope=None, values={"tools.disabled": ["git_log"]})
    listed = {row.name: row for row in list_tools()}
    assert listed["git_log"].reason == "switched off by tools.disabled"


def test_the_check_names_what_the_environment_has_wrong(db, settings, tmp_path):
    def said():
        return [found.msg for found in run_checks() if found.id.startswith("agents.")]

    assert said() == []
    settings.SERVER_SETTINGS = '{"tools.defered": false}'
    assert said() == ["There is no setting tools.defered. Did you mean tools.deferred?"]
    settings.SERVER_SETTINGS = ""
    settings.SYSTEM_PROMPT_FILE = str(tmp_path / "gone")
    assert said() == ["The system prompt cannot be read."]


def test_the_check_names_overrides_of_instructions_that_have_changed(workspace, owner):
    save_settings(by=owner, scope=workspace, values={"agent.systemPrompt": "Short."})
    found = {one.id for one in run_checks()}
    assert "agents.W001" not in found
    Setting.objects.update(written_against="Others.")
    assert "agents.W001" in {one.id for one in run_checks()}
