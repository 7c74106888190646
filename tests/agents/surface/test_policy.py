"""Where each tool belongs, by one pure function."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.surface.modes import MODES
from agents.surface.policy import (
    BRIDGE,
    DISCOVERY,
    Policy,
    Rules,
    ToolSettings,
    surface,
)
from agents.tools.base import Arguments, Tool
from agents.tools.registry import BUILTIN


def stand_in(name: str, **facts) -> Tool:
    facts = {"group": "stand_in", "description": name, "tag": "read"} | facts
    return Tool(name=name, arguments=Arguments, **facts)


GITHUB = tuple(
    stand_in(f"mcp__github__tool_{number}", source="mcp:github") for number in range(12)
)
TOOLS = (*BUILTIN, *GITHUB)


def of(**facts):
    return surface(TOOLS, Rules(**facts))


def test_the_default_declares_the_core_and_defers_the_rest():
    found = of()
    assert set(found.resident) == {
        "read_file",
        "view_image",
        "write_file",
        "edit_file",
        "shell",
        "execute_code",
        "grep",
        "glob",
        "ask_user",
        "delegate_task",
        "skill_view",
        "set_mode",
        *DISCOVERY,
    }
    assert {"git_status", "list_dir", "mcp__github__tool_0"} <= set(found.deferred)


def test_every_tool_has_a_place_and_a_reason():
    found = of(settings=ToolSettings(eager=(), search_enabled=False))
    everywhere = [
        *found.resident,
        *found.deferred,
        *found.withheld,
        *found.denied,
        *found.absent,
    ]
    assert sorted(everywhere) == sorted(tool.name for tool in TOOLS)
    assert all(found.reasons[name] for name in everywhere)


def test_an_empty_list_differs_from_no_list():
    assert "shell" in of(settings=ToolSettings(eager=None)).resident
    found = of(settings=ToolSettings(eager=()))
    assert set(found.resident) == {"ask_user", *DISCOVERY}
    assert "shell" in found.deferred


def test_eager_alone_never_makes_a_deferred_tool_resident():
    found = of(settings=ToolSettings(eager=("git_status", "shell")))
    assert "git_status" in found.deferred
    assert "shell" in found.resident


def test_eager_as_an_addition_declares_more_and_demotes_nothing():
    found = of(settings=ToolSettings(eager=("git_status",), eager_policy="additive"))
    assert {"git_status", "shell"} <= set(found.resident)


def test_visible_declares_a_deferred_tool_of_a_server_too():
    name = "mcp__github__tool_3"
    assert name in of(settings=ToolSettings(visible=(name,))).resident


@pytest.mark.parametrize("pattern", ["git_status", "group:git", "git_*"])
def test_disabled_takes_names_groups_and_globs(pattern):
    found = of(settings=ToolSettings(disabled=(pattern,)))
    assert "git_status" in found.absent


def test_a_denial_beats_visible_and_the_agent():
    found = of(
        denials={"shell": "shell"},
        settings=ToolSettings(visible=("shell",)),
        agent_tools=frozenset({"shell"}),
    )
    assert "shell" in found.denied


def test_an_empty_allow_list_holds_no_planning_tool_back():
    """PLAN-1: what ends planning is declared under any allow-list."""
    emptied = ToolSettings(eager=())
    assert "exit_plan_mode" in of(mode=MODES["plan"], settings=emptied).resident
    assert (
        not {"enter_plan_mode", "exit_plan_mode", "ask_user"}
        & of(settings=emptied).demoted
    )


def test_the_plan_mode_denies_what_changes_more_than_plans_or_runs_programs():
    found = of(mode=MODES["plan"])
    assert {"shell", "execute_code", "git_commit"} <= set(found.denied)
    assert {"write_file", "edit_file"} <= set(found.resident)
    assert {"write_file", "edit_file"} <= set(of(mode=MODES["review"]).denied)
    assert "todo_write" in found.resident
    assert "ask_user" in found.resident


def test_half_a_bridge_declares_ordinary_tools_and_withholds_demoted_ones():
    found = of(
        denials={"tool_call": "tool_call"},
        settings=ToolSettings(eager=("read_file",)),
    )
    assert "mcp__github__tool_0" in found.resident
    assert {"shell", "git_status"} <= set(found.withheld)
    assert found.deferred == ()


def test_the_off_switch_declares_everything_but_the_bridge():
    found = of(settings=ToolSettings(deferral=False, eager=()))
    assert set(found.resident) == {tool.name for tool in TOOLS} - set(DISCOVERY)
    assert found.deferred == ()


@given(
    st.lists(st.sampled_from([tool.name for tool in TOOLS]), max_size=8),
    st.lists(st.sampled_from([tool.name for tool in TOOLS]), max_size=8),
    st.booleans(),
)
def test_nothing_becomes_unreachable_without_a_reason(eager, denied, search_enabled):
    found = of(
        settings=ToolSettings(eager=tuple(eager), search_enabled=search_enabled),
        denials=dict.fromkeys(denied, "a rule"),
    )
    if set(BRIDGE) <= set(found.resident):
        assert found.withheld == ()
    assert all("rule" in found.reasons[name] for name in denied)


def test_a_modes_block_is_declared_in_that_mode_only():
    policy = Policy(modes={"review": ("git_diff",), "chat": ()})
    assert "git_diff" in of(mode=MODES["review"], policy=policy).resident
    assert "git_diff" in of(mode=MODES["chat"], policy=policy).deferred


def test_what_a_mode_requires_stays_when_its_block_is_emptied():
    policy = Policy(modes={"plan": (), "chat": ()})
    plan = of(mode=MODES["plan"], policy=policy)
    assert {"exit_plan_mode", "ask_user"} <= set(plan.resident)
    assert "todo_write" in plan.deferred
    assert "exit_plan_mode" not in of(mode=MODES["chat"], policy=policy).resident


@pytest.mark.parametrize("mode", [*MODES])
def test_every_mode_declares_fewer_than_forty_tools(mode):
    assert 10 < len(of(mode=MODES[mode]).resident) < 40
