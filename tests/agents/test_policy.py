"""The tool policy: what is refused, what it costs, who may change it, and when it holds."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import Client

from agents.actions import start_conversation
from agents.config_actions import save_settings
from agents.context.startup import kept_settings, tools_and_surface
from agents.models import ModeToolPolicy
from agents.policies import BLOCKS, block_names, policy_of
from agents.policy_actions import (
    TOO_MANY,
    BlockValues,
    reset_block,
    resident_names,
    save_block,
)
from agents.policy_page import current, effects, used
from agents.providers.scripted import calls, says
from agents.surface.modes import MODES
from agents.surface.policy import DISCOVERY, Policy
from agents.tools import registry
from agents.tools.base import Arguments, Tool, ToolResult
from workspace import transcript
from workspace.actions.people import create_workspace
from workspace.errors import BadInput, Conflict, NotAllowed
from workspace.models import Change, Entry

BUILTINS, DISCOVER, MCP = "resident_builtins", "resident_discovery", "resident_mcp"


def version(workspace: Any, block: str) -> int:
    return current(workspace, block)[1]


def save(by: Any, workspace: Any, block: str, *names: str, **more: Any) -> list[str]:
    """Saves with the version that holds; returns the warnings."""
    values = BlockValues(names, **more)
    seen = version(workspace, block)
    return save_block(
        by=by, workspace=workspace, block=block, values=values, seen=seen
    )[1]


def declared(conversation: Any) -> set[str]:
    entry = conversation.entries.filter(kind=Entry.Kind.SURFACE).latest("seq")
    return {tool["name"] for tool in transcript.body(entry)["tools"]}


def start(workspace: Any, owner: Any, mode: str = "chat") -> Any:
    conversation = start_conversation(workspace=workspace, author=owner)
    conversation.mode = mode
    return conversation


def test_the_stored_defaults_are_those_of_the_code(db):
    assert policy_of() == Policy()
    assert set(BLOCKS) == {*ModeToolPolicy.objects.values_list("block", flat=True)}


def test_a_block_decides_what_new_conversations_declare(workspace, owner):
    before = start(workspace, owner)
    save(owner, workspace, BUILTINS, "read_file", "list_dir")
    after = start(workspace, owner)
    assert declared(after) == {"read_file", "list_dir", "ask_user", *DISCOVERY}
    assert "write_file" in declared(before)


def test_a_workspaces_block_replaces_the_servers_and_the_rest_stays(workspace, owner):
    save(owner, None, "mode:chat", "git_log")
    save(owner, workspace, BUILTINS, "read_file")
    policy = policy_of(workspace.pk)
    assert policy.builtins == ("read_file",)
    assert policy.modes["chat"] == ("git_log",)
    assert policy_of().builtins == Policy().builtins
    reset_block(
        by=owner, workspace=workspace, block=BUILTINS, seen=version(workspace, BUILTINS)
    )
    assert policy_of(workspace.pk).builtins == Policy().builtins


@pytest.mark.parametrize("name", DISCOVERY)
def test_none_of_the_tools_that_find_others_can_be_removed(workspace, owner, name):
    rest = [one for one in DISCOVERY if one != name]
    with pytest.raises(BadInput, match=f"{name} must stay"):
        save(owner, workspace, DISCOVER, *rest)
    with pytest.raises(BadInput, match="three tools"):
        save(owner, workspace, DISCOVER, *DISCOVERY, "shell")


def test_an_unknown_name_is_refused_with_the_nearest(workspace, owner):
    with pytest.raises(BadInput, match=r"'file_read'.*read_file"):
        save(owner, workspace, BUILTINS, "file_read")
    assert not workspace.tool_policies.exists()


def test_a_tool_of_a_server_that_is_away_is_taken_with_a_warning(workspace, owner):
    [warning] = save(owner, workspace, MCP, "mcp__github__create_issue")
    assert "not connected" in warning
    assert policy_of(workspace.pk).mcp == ("mcp__github__create_issue",)


def test_an_alias_is_stored_as_the_tools_own_name_and_once(workspace, owner):
    save(owner, workspace, BUILTINS, "run_shell_command", "shell", "grep")
    assert policy_of(workspace.pk).builtins == ("shell", "grep")


@pytest.fixture
def many_tools(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fifty more built-in tools."""
    made = [
        Tool(
            name=f"crane_{number}",
            group="crane",
            description="Lifts. " * (number + 1),
            arguments=Arguments,
            tag="read",
            tier="core",
            run=lambda context, arguments: ToolResult(True, ""),
        )
        for number in range(50)
    ]
    by_name = {**registry._BY_NAME, **{tool.name: tool for tool in made}}
    monkeypatch.setattr(registry, "_BY_NAME", by_name)
    return [tool.name for tool in made]


def room(workspace: Any) -> int:
    """How many names the block of mode plan may have, beside its pinned ones."""
    counts = len(resident_names(policy_of(workspace.pk), "plan", workspace))
    return TOO_MANY - 1 - (counts - len(policy_of(workspace.pk).modes["plan"]))


def test_the_fortieth_tool_is_refused_with_the_heaviest(workspace, owner, many_tools):
    most = room(workspace)
    save(owner, workspace, "mode:plan", *many_tools[:most])
    with pytest.raises(BadInput, match="declare 40 tools") as refusal:
        save(owner, workspace, "mode:plan", *many_tools[: most + 1])
    heaviest = many_tools[most]
    assert f"{heaviest} (" in refusal.value.message


def test_visible_and_pinned_tools_count_toward_the_limit(workspace, owner, many_tools):
    most = room(workspace)
    save_settings(by=owner, scope=workspace, values={"tools.visible": [many_tools[-1]]})
    with pytest.raises(BadInput, match="40 tools"):
        save(owner, workspace, "mode:plan", *many_tools[:most])
    pinned = set(MODES["plan"].pinned)
    assert pinned <= set(resident_names(policy_of(workspace.pk), "plan", workspace))


def test_the_server_may_not_crowd_a_workspace(workspace, owner, many_tools):
    save(owner, workspace, "mode:chat", *many_tools[:20])
    with pytest.raises(BadInput, match=f"workspace {workspace.name}"):
        save(owner, None, BUILTINS, *Policy().builtins, *many_tools[20:36])


def test_of_two_who_edit_at_once_the_second_is_told(workspace, owner, admin):
    seen = version(workspace, BUILTINS)
    first, second = BlockValues(("grep",)), BlockValues(("glob",))
    save_block(by=owner, workspace=workspace, block=BUILTINS, values=first, seen=seen)
    with pytest.raises(Conflict, match="Somebody else"):
        save_block(
            by=admin, workspace=workspace, block=BUILTINS, values=second, seen=seen
        )
    assert policy_of(workspace.pk).builtins == ("grep",)


def test_every_change_is_audited_with_old_and_new_lists(workspace, owner):
    save(owner, workspace, BUILTINS, "grep")
    save(owner, workspace, BUILTINS, "glob")
    change = Change.objects.filter(action="policy.tools").latest("pk")
    assert (change.subject, change.by) == (BUILTINS, owner)
    assert (change.old, change.new) == ({"tools": ["grep"]}, {"tools": ["glob"]})


def test_only_admins_change_a_workspace_and_only_staff_the_server(
    workspace, owner, admin, member
):
    with pytest.raises(NotAllowed):
        save(member, workspace, BUILTINS, "grep")
    save(admin, workspace, BUILTINS, "grep")
    with pytest.raises(NotAllowed):
        save(admin, None, BUILTINS, "grep")


def test_a_ceiling_and_an_allow_list_deny_and_pinned_tools_beat_them(workspace, owner):
    save(owner, workspace, "mode:chat", ceiling="read", allowed=("read_file", "shell"))
    conversation = start(workspace, owner)
    chosen = current(workspace, "mode:chat")[0]
    assert chosen.allowed == ("read_file", "shell")
    _tools, surface = tools_and_surface(conversation, kept_settings(conversation))
    assert {"shell", "grep"} <= set(surface.denied)
    assert {"read_file", "ask_user", *DISCOVERY} == set(surface.resident)
    assert "ceiling" in surface.reasons["shell"]
    assert "allow-list" in surface.reasons["grep"]


def test_a_name_that_a_release_removed_is_reported_and_runs_go_on(
    script, stage, workspace, owner
):
    ModeToolPolicy.objects.create(
        workspace=workspace, block=BUILTINS, names=["read_file", "old_tool"]
    )
    found = [check for check in run_checks() if check.id == "agents.W002"]
    assert [("old_tool" in check.msg) for check in found] == [True]
    conversation = start(workspace, owner)
    assert "read_file" in declared(conversation)
    page = as_(owner).get(address(workspace))
    assert "old_tool" in page.content.decode()


def test_the_effect_is_the_difference_of_real_prefixes(workspace, owner):
    now = effects(workspace, BUILTINS, current(workspace, BUILTINS)[0])[0]
    assert (now.idle_change, now.count_change) == (0, 0)
    leaner = BlockValues(("read_file",))
    chat = effects(workspace, BUILTINS, leaner)[0]
    assert chat.idle_change < -300
    save(owner, workspace, BUILTINS, "read_file")
    after = effects(workspace, BUILTINS, leaner)[0]
    assert after.idle_tokens == now.idle_tokens + chat.idle_change


def test_runs_that_called_a_tool_are_counted_also_through_the_bridge(
    script, stage, workspace
):
    script(
        calls("tool_search", query="select:list_dir"),
        calls("tool_call", name="list_dir", arguments={"path": "."}),
        calls("list_dir", path="."),
        says("Done."),
    )
    stage.post("List")
    stage.play()
    use = used(workspace)
    assert (use.runs, use.by_tool["list_dir"]) == (1, 1)
    assert used(workspace, "plan").runs == 0


def as_(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def address(workspace: Any, block: str = BUILTINS, part: str = "") -> str:
    return f"/w/{workspace.slug}/settings/policy/{part}?block={block}"


def test_an_admin_saves_on_the_page(workspace, admin):
    browser = as_(admin)
    page = browser.get(address(workspace))
    assert page.status_code == 200
    form = {"seen": page.context["version"], "tool": ["grep", "glob"]}
    assert browser.post(address(workspace), form).status_code == 302
    assert policy_of(workspace.pk).builtins == ("grep", "glob")
    again = browser.post(address(workspace), form | {"tool": ["shell"]})
    assert again.status_code == 409
    text = again.content.decode()
    assert "Somebody else" in text
    assert 'value="shell" checked' in text
    assert "grep, glob" in text


def test_the_page_says_what_a_choice_would_cost_and_saves_nothing(workspace, admin):
    browser = as_(admin)
    answer = browser.post(address(workspace, part="effect"), {"tool": ["grep"]})
    assert "is-less" in answer.content.decode()
    refused = browser.post(address(workspace, part="effect"), {"tool": ["grepp"]})
    assert "No tool is called" in refused.content.decode()
    assert not workspace.tool_policies.exists()


def test_members_read_and_cannot_save(workspace, member, outsider):
    assert as_(member).get(address(workspace)).status_code == 200
    assert as_(member).post(address(workspace), {"seen": 0}).status_code == 403
    assert as_(outsider).get(address(workspace)).status_code == 404
    assert as_(member).get("/server/policy/").status_code == 404


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_has_a_page_on_the_server_too(owner, block):
    browser = as_(owner)
    page = browser.get(f"/server/policy/?block={block}")
    assert page.status_code == 200
    chosen = [row.name for row in page.context["rows"] if row.chosen]
    form = {"seen": page.context["version"], "tool": chosen}
    assert browser.post(f"/server/policy/?block={block}", form).status_code == 302
    kept, shipped = policy_of(), Policy()
    assert [set(block_names(kept, one)) for one in BLOCKS] == [
        set(block_names(shipped, one)) for one in BLOCKS
    ]


def test_two_workspaces_have_policies_of_their_own(workspace, owner):
    other = create_workspace(name="Other", by=owner)
    save(owner, workspace, BUILTINS, "grep")
    assert policy_of(other.pk).builtins == Policy().builtins
