"""Calls that change how far the agent goes: a person decides, never the call alone.

The change itself is made with the answer, in its transaction: whatever becomes of the
worker, it happens once. The call only tells what was decided.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from agents import runs
from agents.approvals import Pending
from agents.context.assemble import declaring
from agents.context.startup import mode_in
from agents.errors import ToolError
from agents.levels import PLAN, shift_level
from agents.models import ToolCall, Wait
from agents.runs import Hold, open_wait
from agents.surface.modes import MODES
from agents.tools.base import Arguments, Tool, ToolResult
from agents.tools.planning import (
    ENTER_PLAN_MODE,
    LONGEST_REASON,
    ExitPlanMode,
    SetMode,
)
from workspace.models import ApprovalLevel, Conversation, Entry
from workspace.transcript import Draft


def change_of(conversation: Conversation, name: str) -> dict[str, str]:
    """What a name asks for: a level goes before a mode. Empty when it is so already.

    Raises ToolError with the names that there are.
    """
    plain = name.strip().lower()
    if plain in ApprovalLevel.values:
        return {} if plain == conversation.approval_level else {"level": plain}
    if plain in MODES:
        return {} if plain == conversation.mode else {"mode": plain}
    levels = ", ".join(ApprovalLevel.values)
    modes = ", ".join(one for one in MODES if one not in ApprovalLevel.values)
    raise ToolError(
        f"There is no mode or level {name!r}. Levels: {levels}. Modes: {modes}.",
        code="bad_arguments",
    )


def ask_people(hold: Hold, call: ToolCall, arguments: Arguments) -> None:
    """Pass when people have agreed, or nothing would change; else refuse, or wait.

    Raises Pending while nobody has answered and ToolError when they do not agree.
    """
    wait = asked(call)
    if wait is None:
        payload = payload_of(hold, arguments)
        if payload is None:
            return
        wait = open_wait(hold, call, Wait.Kind.PLAN, payload)
    if not wait.outcome:
        raise Pending
    if wait.outcome == Wait.Outcome.ANSWERED and _agreed(wait):
        return
    if wait.outcome == Wait.Outcome.EXPIRED:
        raise ToolError("Nobody decided about this in time.", code="approval_expired")
    reason = (wait.answer or {}).get("reason") or "no reason was given"
    if isinstance(arguments, ExitPlanMode):
        raise ToolError(
            f"People want the plan changed: {reason} Go on planning, then show it again.",
            code="denied",
        )
    raise ToolError(f"A person declined this change: {reason}", code="denied")


def asked(call: ToolCall) -> Wait | None:
    """The wait in which people decide about the call, if it was opened."""
    waits = Wait.objects.filter(tool_call=call, kind=Wait.Kind.PLAN)
    return waits.filter(argument_hash=call.argument_hash).first()


def _agreed(wait: Wait) -> bool:
    return bool((wait.answer or {}).get("decision") == "once")


def payload_of(hold: Hold, arguments: Arguments) -> dict[str, Any] | None:
    """What people are shown and what happens if they agree; None: nothing to decide."""
    conversation = fresh(hold)
    if isinstance(arguments, ExitPlanMode):
        return {"plan": arguments.plan, "change": leaving(hold, conversation)}
    assert isinstance(arguments, SetMode), "no other call asks people in this way"
    change = change_of(conversation, arguments.mode)
    if not change:
        return None
    return {"change": change, "reason": arguments.reason[:LONGEST_REASON]}


def fresh(hold: Hold) -> Conversation:
    """The conversation with the mode and level of now. One query."""
    conversation = hold.run.conversation
    conversation.refresh_from_db(fields=["approval_level"])
    chosen = Conversation.objects.values_list("mode", flat=True).get(pk=conversation.pk)
    return Conversation(
        pk=conversation.pk, mode=chosen, approval_level=conversation.approval_level
    )


def leaving(hold: Hold, conversation: Conversation) -> dict[str, str]:
    """The level that an approved plan brings back. ToolError outside of planning."""
    if conversation.approval_level == PLAN:
        return {"level": level_before(hold)}
    if mode_in(hold.run.conversation, declaring(hold.items)[0]) == "plan":
        return {}
    raise ToolError(
        "There is no planning to end: neither the approval level nor the mode is plan. "
        "Just go on.",
        code="not_planning",
    )


def level_before(hold: Hold) -> str:
    """The level that held when planning began last; the default when nobody noted it."""
    notices = (row.body for row in reversed(hold.items) if row.kind == "notice")
    began = (
        one for one in notices if one.get("type") == "level" and one["level"] == PLAN
    )
    return str(next(began, {"old": ApprovalLevel.ACCEPT.value})["old"])


def settle(hold: Hold, call: ToolCall, tool: Tool, arguments: Arguments) -> ToolResult:
    """The result of a call that people have agreed to, or that needs nobody."""
    if tool.name == ENTER_PLAN_MODE.name:
        return enter(hold)
    wait = asked(call)
    if wait is None:
        return ToolResult(True, "That is so already: nothing has changed.")
    change = wait.payload["change"]
    if isinstance(arguments, ExitPlanMode):
        return ToolResult(True, _after_approval(change))
    if "level" in change:
        return ToolResult(True, f"The approval level is {change['level']} now.")
    return ToolResult(
        True,
        f"The mode is {change['mode']} from the next turn on. End this turn with what "
        "is left to say.",
    )


def _after_approval(change: dict[str, str]) -> str:
    if "level" in change:
        return (
            f"People approved the plan. The approval level is {change['level']} again: "
            "carry it out."
        )
    return (
        "People approved the plan. This mode changes nothing itself: end the turn; "
        "they choose the mode in which it is carried out."
    )


def enter(hold: Hold) -> ToolResult:
    """Begin to plan: less may happen from now on, so nobody is asked."""
    conversation = hold.run.conversation
    with transaction.atomic():
        old = runs.lock(conversation.pk).approval_level
        if old != PLAN:
            body = shift_level(conversation, old, PLAN, hold.run.agent.title)
            assert body, "planning that begins is always told"
            hold.append(Draft(kind=Entry.Kind.NOTICE, body=body, turn=hold.run.turn))
    return ToolResult(
        True,
        "Planning has begun: nothing can be changed until people approve a plan. Look "
        "until you understand, then call exit_plan_mode with the plan.",
    )
