"""What a child came to, as its parent reads it: read from rows, stored nowhere else."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db.models import Sum

from agents.children.family import descendants
from agents.models import Delegation, Run, ToolCall
from agents.tools.base import Failure, ToolResult
from workspace import transcript
from workspace.models import Entry

#: Characters of a report that comes as a notice.
LONGEST_NOTICE = 12_000
STARTED = (
    "Started in the background as task {}. Go on; its report comes as a notice. "
    "list_agents shows how far it is, task_stop ends it."
)
NO_REPORT = "(It ended without a report.)"


def notice(delegation: Delegation) -> dict[str, Any]:
    """What the parent is told when a task in the background has ended."""
    run = Run.objects.get(delegation=delegation)
    result = result_of(delegation, run)
    error = f"\n{result.error.message}" if result.error else ""
    said = f"{result.output}{error}"
    if len(said) > LONGEST_NOTICE:
        said = f"{said[:LONGEST_NOTICE]}\n…[cut; the rest stands in its conversation]"
    head = (
        f"[task {delegation.pk} of {delegation.agent.name} ended: {delegation.title}]"
    )
    return {
        "type": "child",
        "to_model": True,
        "text": f"{head}\n{said}",
        "child": result.meta["child"],
    }


def is_begun(call: ToolCall) -> bool:
    """Whether the call's child was made."""
    return Delegation.objects.filter(tool_call=call).exists()


def outcome_of(call: ToolCall) -> ToolResult | None:
    """The result of a delegating call; None until its child has ended."""
    found = Delegation.objects.filter(tool_call=call).select_related("run", "agent")
    delegation = found.first()
    if delegation is not None and delegation.background:
        return ToolResult(True, STARTED.format(delegation.pk))
    if delegation is None or delegation.run is None:
        return None
    run = delegation.run
    return None if run.state in Run.OPEN else result_of(delegation, run)


def result_of(delegation: Delegation, run: Run) -> ToolResult:
    """The report with what it took; a failed child is a failed call with its reason."""
    figures = figures_of(run)
    limit = _limit(run)
    text = "\n".join(
        (
            f"status: {run.state}",
            f"reason: {limit or run.message or 'the task is done'}",
            f"rounds used: {run.round} of {delegation.rounds}",
            f"tokens: {figures['tokens_in']} in ({figures['tokens_cached']} cached), "
            f"{figures['tokens_out']} out",
            f"cost: {_money(figures['cost'])}",
            "",
            _last_words(run) or NO_REPORT,
        )
    )
    meta = {"child": _card(delegation, run) | figures}
    if run.state == Run.State.FINISHED:
        return ToolResult(True, text, meta=meta)
    error = Failure(f"delegation_{run.state}", _why(delegation, run))
    return ToolResult(False, text, error, meta)


def _why(delegation: Delegation, run: Run) -> str:
    if run.state == Run.State.STOPPED:
        return f"The agent {delegation.agent.name} was stopped. {run.message}".strip()
    return f"The agent {delegation.agent.name} did not finish its task: {run.message}"


def _card(delegation: Delegation, run: Run) -> dict[str, Any]:
    """What the page shows of the child once it has ended."""
    return {
        "conversation": str(delegation.conversation_id),
        "run": str(run.pk),
        "agent": delegation.agent.name,
        "title": delegation.title,
        "state": run.state,
        "rounds": run.round,
        "limit": delegation.rounds,
        "model": run.model_name,
    }


def figures_of(run: Run) -> dict[str, Any]:
    """Tokens and cost of a run and all below it. Two queries."""
    below = descendants([run.pk]).aggregate(
        tokens_in=Sum("tokens_in"),
        tokens_cached=Sum("tokens_cached"),
        tokens_out=Sum("tokens_out"),
        cost=Sum("cost"),
    )
    costs = [one for one in (run.cost, below["cost"]) if one is not None]
    return {
        "tokens_in": run.tokens_in + (below["tokens_in"] or 0),
        "tokens_cached": run.tokens_cached + (below["tokens_cached"] or 0),
        "tokens_out": run.tokens_out + (below["tokens_out"] or 0),
        "cost": str(sum(costs, Decimal())) if costs else None,
    }


def _money(cost: str | None) -> str:
    return f"${cost}" if cost is not None else "unknown"


def _said(run: Run, kind: str) -> list[dict[str, Any]]:
    """The newest entries of this kind in the run, the last one first."""
    entries = Entry.objects.filter(turn=run.turn_id, kind=kind)
    return transcript.bodies(
        list(entries.select_related("stored").order_by("-seq")[:5])
    )


def _last_words(run: Run) -> str:
    said = (body.get("text", "") for body in _said(run, Entry.Kind.ASSISTANT))
    return next((text for text in said if text.strip()), "")


def _limit(run: Run) -> str:
    """Which limit ended it early, as the notice says it; "" if none did."""
    notices = _said(run, Entry.Kind.NOTICE)
    return next((str(one["reason"]) for one in notices if one.get("reason")), "")
