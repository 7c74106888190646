"""What pages show of agents at work; values, few queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from uuid import UUID

from django.db.models import Q, QuerySet

from agents.children.family import of_people
from agents.models import ModelCall, Run, ToolCall, Wait
from workspace.models import Conversation


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """Sums over all attempts at a turn; tokens as the services reported them."""

    run_id: UUID
    rounds: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost: Decimal | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True)
class ContextGauge:
    """Input tokens of the last model call, of the model's window."""

    tokens: int
    window: int
    model_name: str
    reported: bool

    @property
    def percent(self) -> int:
        return round(100 * self.tokens / self.window) if self.window else 0


def waits_of(conversation: Conversation) -> QuerySet[Wait]:
    """The waits of a conversation and of all that work for it."""
    return Wait.objects.filter(
        of_people(conversation.pk) | Q(run__conversation__parent=conversation)
    )


def open_waits(conversation: Conversation) -> list[Wait]:
    """What people are asked now, oldest first. One query."""
    waits = waits_of(conversation).filter(
        outcome="",
        kind__in=(Wait.Kind.QUESTION, Wait.Kind.APPROVAL, Wait.Kind.PLAN),
    )
    whole = waits.select_related("run__turn", "run__conversation", "tool_call")
    return list(whole.order_by("opened_at"))


def running_calls(conversation: Conversation) -> list[ToolCall]:
    """Calls that are being carried out at the moment. One query."""
    calls = ToolCall.objects.filter(
        run__conversation=conversation,
        run__state=Run.State.RUNNING,
        state=ToolCall.State.STARTED,
    )
    return list(calls.order_by("entry_id", "index"))


def turn_figures(turn_ids: Iterable[UUID]) -> dict[UUID, TurnFigures]:
    """What each turn used so far, its children included. Two queries."""
    ids = list(turn_ids)
    figures: dict[UUID, TurnFigures] = {}
    for run in Run.objects.filter(turn__in=ids).order_by("created_at"):
        figures[run.turn_id] = _add(figures.get(run.turn_id), run)
    below = Run.objects.filter(delegation__turn__in=ids)
    for run in below.select_related("delegation"):
        turn = run.delegation.turn_id
        figures[turn] = _with_child(figures[turn], run)
    return figures


def _with_child(before: TurnFigures, run: Run) -> TurnFigures:
    """Tokens and cost of a child count; its rounds and time are its own."""
    costs = [cost for cost in (before.cost, run.cost) if cost is not None]
    return replace(
        before,
        tokens_in=before.tokens_in + run.tokens_in,
        tokens_cached=before.tokens_cached + run.tokens_cached,
        tokens_out=before.tokens_out + run.tokens_out,
        cost=sum(costs, Decimal()) if costs else None,
    )


def _add(before: TurnFigures | None, run: Run) -> TurnFigures:
    took = None
    if run.started_at and run.ended_at:
        took = int((run.ended_at - run.started_at).total_seconds() * 1000)
    old = before or TurnFigures(run.pk, 0, 0, 0, 0, None, None)
    costs = [cost for cost in (old.cost, run.cost) if cost is not None]
    times = [time for time in (old.duration_ms, took) if time is not None]
    return TurnFigures(
        run.pk,
        old.rounds + run.round,
        old.tokens_in + run.tokens_in,
        old.tokens_cached + run.tokens_cached,
        old.tokens_out + run.tokens_out,
        sum(costs, Decimal()) if costs else None,
        sum(times) if times else None,
    )


def context_gauge(conversation: Conversation, window: int) -> ContextGauge | None:
    """How full the window was at the last call; None before the first. One query."""
    call = (
        ModelCall.objects.filter(run__conversation=conversation)
        .exclude(state__in=(ModelCall.State.FAILED, ModelCall.State.LOST))
        .order_by("-id")
        .first()
    )
    if call is None:
        return None
    reported = call.input is not None
    total = (call.input or 0) + (call.cache_read or 0) + (call.cache_write or 0)
    return ContextGauge(
        total if reported else call.estimated_tokens, window, call.model_name, reported
    )
