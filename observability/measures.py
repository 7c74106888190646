"""One way to sum model calls, for roll-ups and for what is not rolled up yet."""

from __future__ import annotations

from typing import Any

from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce

from agents.models import ModelCall
from observability.figures import FIRST_CLASSES, FIRST_TOKEN_BOUNDS, NAMES
from observability.models import Role

#: Triggers of runs that work for another run, and for nobody in particular.
CHILDREN = ("delegation",)
BACKGROUND = ("extraction", "consolidation", "memory", "background")

#: What figures can be split by, as each source spells it.
CALL_DIMENSIONS = {
    "agent": "run__agent_id",
    "model": "model_name",
    "mode": "mode",
    "role": "dim_role",
    "conversation": "run__conversation_id",
    "user": "run__started_by_id",
}
SUM_DIMENSIONS = {
    "agent": "agent_id",
    "model": "model_name",
    "mode": "mode",
    "role": "role",
    "conversation": "conversation_id",
    "user": "user_id",
}
AXES = ("input", "cache_read", "cache_write", "output", "reasoning")


def role_by(trigger: str) -> Case:
    """The role that a run has by what triggered it."""
    return Case(
        When(**{f"{trigger}__in": CHILDREN}, then=Value(Role.CHILD)),
        When(**{f"{trigger}__in": BACKGROUND}, then=Value(Role.BACKGROUND)),
        default=Value(Role.MAIN),
    )


def settled_calls() -> QuerySet[ModelCall]:
    """Model calls that have ended in one way or another, with their role.

    `is_first` marks the one with which its run began: a run counts as a turn there.
    """
    earlier = ModelCall.objects.filter(run=OuterRef("run"), pk__lt=OuterRef("pk"))
    calls = ModelCall.objects.exclude(state=ModelCall.State.SENT)
    return calls.annotate(dim_role=role_by("run__trigger"), is_first=~Exists(earlier))


def sums_of_calls() -> dict[str, Any]:
    """Aggregates over model calls, named `sum_…`."""
    reported = Q(input__isnull=False)
    timed = Q(first_token_ms__isnull=False, duration_ms__gt=F("first_token_ms"))
    answered = Q(state=ModelCall.State.COMPLETED)
    return {
        "sum_calls": Count("pk"),
        "sum_failed": Count(
            "pk", filter=Q(state__in=[ModelCall.State.FAILED, ModelCall.State.LOST])
        ),
        "sum_turns": Count("pk", filter=Q(is_first=True)),
        "sum_unreported": Count("pk", filter=answered & ~reported),
        **{f"sum_{axis}": Sum(axis) for axis in AXES},
        "sum_cost": Sum("cost"),
        "sum_unpriced": Count("pk", filter=reported & Q(cost=None)),
        "sum_generated": Sum(
            Coalesce(F("output"), 0) + Coalesce(F("reasoning"), 0),
            filter=timed & reported,
        ),
        "sum_generation_ms": Sum(
            F("duration_ms") - F("first_token_ms"), filter=timed & reported
        ),
        **_first_tokens(),
    }


def _first_tokens() -> dict[str, Count]:
    """How many calls fall into each class of time to the first token."""
    edges = (0, *FIRST_TOKEN_BOUNDS)
    counts = {}
    for place, name in enumerate(FIRST_CLASSES):
        inside = Q(first_token_ms__gte=edges[place])
        if place < len(FIRST_TOKEN_BOUNDS):
            inside &= Q(first_token_ms__lt=FIRST_TOKEN_BOUNDS[place])
        counts[f"sum_{name}"] = Count("pk", filter=inside)
    return counts


def sums_of_sums() -> dict[str, Sum]:
    """The same names over rows of a roll-up."""
    return {f"sum_{name}": Sum(name) for name in NAMES}
