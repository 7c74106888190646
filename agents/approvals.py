"""Whom a call must wait for: approvals by people, and answers to its questions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agents import permissions, sandbox
from agents.children.family import of_people
from agents.context.assemble import declaring
from agents.context.startup import mode_in
from agents.errors import ToolError
from agents.models import ToolCall, Wait
from agents.runs import Hold, open_wait
from agents.surface.modes import MODES, PLAN_WRITERS, PLANS, Mode
from agents.tools.base import Arguments, Tool, ToolResult


class Pending(Exception):
    """The call must wait for somebody; its wait is open."""


def permit(hold: Hold, call: ToolCall, tool: Tool, arguments: Arguments) -> None:
    """Let the call pass, refuse it, or open an approval and wait."""
    values = arguments.model_dump()
    run = hold.run
    mode = MODES[mode_in(run.conversation, declaring(hold.items)[0])]
    if mode.plan_files and tool.name in PLAN_WRITERS:
        _refuse_but_plans(tool, values, mode)
    decision = permissions.decide(
        tool,
        values,
        level=run.conversation.approval_level,
        rules=run.conversation.workspace.permission_rules,
        confined=not sandbox.is_off() and not run.conversation.workspace.network,
        granted=granted_rules(run.conversation.people_id),
    )
    call.decision = decision.as_json()
    if decision.answer == "deny":
        raise ToolError(
            f"This call is not allowed. {decision.why} Do not try it again in another "
            "form; find another way or ask.",
            code="denied",
        )
    if decision.answer == "ask":
        _ask(hold, call, tool, arguments, decision)


def _refuse_but_plans(tool: Tool, values: dict[str, Any], mode: Mode) -> None:
    if not permissions.writes_plan(tool, values):
        raise ToolError(
            f"In the mode {mode.name} only plan files can be written: {PLANS}NAME.md.",
            code="denied",
        )


def granted_rules(conversation_id: UUID) -> list[str]:
    """Allow rules that people gave for this conversation of theirs and its children."""
    answers = Wait.objects.filter(
        of_people(conversation_id),
        kind=Wait.Kind.APPROVAL,
        answer__decision="conversation",
    ).values_list("answer__rule", flat=True)
    return [rule for rule in answers if rule]


def _ask(
    hold: Hold,
    call: ToolCall,
    tool: Tool,
    arguments: Arguments,
    decision: permissions.Decision,
) -> None:
    """Pass if a person allowed exactly this call; ToolError if not; else wait."""
    wait = open_wait(
        hold,
        call,
        Wait.Kind.APPROVAL,
        {
            "tool": tool.name,
            "tag": tool.tag,
            "arguments": arguments.model_dump_json(exclude_unset=True),
            "why": decision.why,
            "rule": decision.rule,
        },
    )
    if not wait.outcome:
        raise Pending
    answer = wait.answer or {}
    if answer.get("decision") in ("once", "conversation", "always"):
        call.decision = decision.as_json() | {"approved": str(wait.answered_by)}
        return
    if wait.outcome == Wait.Outcome.EXPIRED:
        raise ToolError("Nobody approved this call in time.", code="approval_expired")
    reason = answer.get("reason") or "no reason was given"
    raise ToolError(f"A person denied this call: {reason}", code="denied")


def answer_of_people(hold: Hold, call: ToolCall, arguments: Arguments) -> ToolResult:
    """What people answered; opens the question and raises Pending until they did."""
    wait = open_wait(hold, call, Wait.Kind.QUESTION, arguments.model_dump(mode="json"))
    if not wait.outcome:
        raise Pending
    if wait.outcome != Wait.Outcome.ANSWERED:
        raise ToolError("Nobody answered in time.", code="not_answered")
    return ToolResult(True, question_text(wait), meta={"wait": str(wait.pk)})


def question_text(wait: Wait) -> str:
    """What the model reads of the answers: each question with what was said."""
    lines = []
    answers = (wait.answer or {}).get("answers", [])
    for question, answer in zip(wait.payload["questions"], answers, strict=False):
        said = [*answer.get("chosen", ()), answer.get("text", "")]
        text = "; ".join(part for part in said if part) or "(no answer)"
        lines.append(f"{question['question']}\n-> {text}")
    return "\n".join(lines)
