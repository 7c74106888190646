"""set_mode, enter_plan_mode, exit_plan_mode: how far the agent goes, with people's leave.

Who asks waits in `agents.planning`; here is only what is declared.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from agents.tools.base import Arguments, Tool, ToolContext, ToolResult

LONGEST_PLAN, LONGEST_REASON = 50_000, 2_000  # characters


class SetMode(Arguments):
    also_called: ClassVar[dict[str, str]] = {"level": "mode", "name": "mode"}

    mode: str
    reason: str = Field(default_factory=str)


class EnterPlanMode(Arguments):
    pass


class ExitPlanMode(Arguments):
    plan: str = Field(min_length=1, max_length=LONGEST_PLAN, description="Markdown")


def settled(ctx: ToolContext, args: Arguments) -> ToolResult:
    """What people, or the loop, have made of the call by now."""
    return ctx.settle(args)


SET_MODE = Tool(
    name="set_mode",
    group="plan",
    description=(
        "Ask people for an approval level (plan, accept, auto: at once) or a mode (chat, "
        "review, orchestrate: next turn)."
    ),
    tag="read",
    arguments=SetMode,
    run=settled,
    waits_for="plan",
    idempotent=True,
    alone=True,
    main_argument="mode",
    hints=("approval level", "permission", "switch", "모드", "승인 수준", "전환"),
)
ENTER_PLAN_MODE = Tool(
    name="enter_plan_mode",
    group="plan",
    description=(
        "Begin to plan: from now on nothing is changed until people approve a plan with "
        "exit_plan_mode. For work whose way is not obvious."
    ),
    tag="read",
    arguments=EnterPlanMode,
    run=settled,
    tier="deferred",
    idempotent=True,
    alone=True,
    hints=("think first", "design", "read only", "계획", "설계", "계획 모드"),
)
EXIT_PLAN_MODE = Tool(
    name="exit_plan_mode",
    group="plan",
    description=(
        "Show people the finished plan and wait: approved, planning ends and the approval "
        "level is what it was before."
    ),
    tag="read",
    arguments=ExitPlanMode,
    run=settled,
    waits_for="plan",
    tier="deferred",
    idempotent=True,
    alone=True,
    main_argument="plan",
    hints=("present plan", "approve", "ready", "계획 승인", "계획 제출"),
    aliases=("submit_plan",),
)
TOOLS = (SET_MODE, ENTER_PLAN_MODE, EXIT_PLAN_MODE)
