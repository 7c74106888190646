"""What a reader of Insights has chosen, and the sums over it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import TruncHour

from observability import rollups
from observability.breaks import breaks_between
from observability.figures import Figures
from observability.measures import (
    CALL_DIMENSIONS,
    SUM_DIMENSIONS,
    settled_calls,
    sums_of_calls,
    sums_of_sums,
)
from observability.models import CacheBreak, ConversationSums, HourSums, ToolSums
from observability.periods import Period
from workspace.models import Workspace

#: What only the roll-up by conversation knows.
FINE = frozenset({"conversation", "user"})
#: What the figures of tools know.
OF_TOOLS = ("agent", "model", "mode", "role")
#: Breaks that one page reads, newest first.
MOST_BREAKS = 5_000
#: One key of the result: a value per dimension that was asked for.
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Selection:
    """A workspace, a period, and the values of each facet; none chosen means all."""

    workspace: Workspace
    period: Period
    facets: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def before(self) -> Selection:
        return replace(self, period=self.period.before)

    def condition(self, names: dict[str, str]) -> Q:
        """AND across facets, OR within; `names` says how the source spells them."""
        found = Q()
        for facet, values in self.facets.items():
            if values and facet in names:
                found &= Q(**{f"{names[facet]}__in": values})
        return found


def measure(chosen: Selection, *dimensions: str) -> dict[Key, Figures]:
    """Figures by the dimensions, e.g. "hour", "agent": closed hours from the roll-ups,
    what is not rolled up yet from the model calls themselves.
    """
    found: dict[Key, Figures] = defaultdict(Figures)
    until = rollups.rolled_until()
    if until and chosen.period.start < until:
        for key, figures in _from_sums(chosen, dimensions, until):
            found[key] += figures
    start = max(until, chosen.period.start) if until else chosen.period.start
    if start < chosen.period.end:
        for key, figures in _from_calls(chosen, dimensions, start):
            found[key] += figures
    return dict(found)


def _from_sums(
    chosen: Selection, dimensions: tuple[str, ...], until: datetime
) -> Iterable[tuple[Key, Figures]]:
    asked = {*dimensions, *(name for name, any_ in chosen.facets.items() if any_)}
    kind = ConversationSums if asked & FINE else HourSums
    end = min(until, chosen.period.end)
    rows: QuerySet[Any] = kind._default_manager.filter(
        chosen.condition(SUM_DIMENSIONS),
        workspace=chosen.workspace,
        hour__gte=chosen.period.start,
        hour__lt=end,
    )
    names = [SUM_DIMENSIONS.get(name, name) for name in dimensions]
    return _figures(rows, names, sums_of_sums())


def _from_calls(
    chosen: Selection, dimensions: tuple[str, ...], start: datetime
) -> Iterable[tuple[Key, Figures]]:
    calls = settled_calls().filter(
        chosen.condition(CALL_DIMENSIONS),
        run__workspace=chosen.workspace,
        at__gte=start,
        at__lt=chosen.period.end,
    )
    if "hour" in dimensions:
        calls = calls.annotate(hour=TruncHour("at", tzinfo=UTC))
    names = [CALL_DIMENSIONS.get(name, name) for name in dimensions]
    return _figures(calls, names, sums_of_calls())


def _figures(
    rows: QuerySet[Any], names: list[str], sums: dict[str, Any]
) -> Iterable[tuple[Key, Figures]]:
    if not names:
        whole = rows.aggregate(**sums)
        yield (), Figures.of(whole)
        return
    for row in rows.values(*names).annotate(**sums).order_by():
        yield tuple(row[name] for name in names), Figures.of(row)


def broken(chosen: Selection) -> list[CacheBreak]:
    """The cache breaks of the period, oldest first."""
    until, period = rollups.rolled_until(), chosen.period
    found: list[CacheBreak] = []
    if until and period.start < until:
        rows = CacheBreak.objects.filter(
            chosen.condition(SUM_DIMENSIONS),
            workspace=chosen.workspace,
            at__gte=period.start,
            at__lt=min(until, period.end),
        )
        found += rows.order_by("-at")[:MOST_BREAKS][::-1]
    start = max(until, period.start) if until else period.start
    if start < period.end:
        only = chosen.condition(CALL_DIMENSIONS) & Q(run__workspace=chosen.workspace)
        found += breaks_between(start, period.end, only)
    return found


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """What one tool did in the period."""

    calls: int = 0
    errors: int = 0
    loads: int = 0
    searched: int = 0
    milliseconds: int = 0

    def __add__(self, other: ToolFigures) -> ToolFigures:
        return ToolFigures(
            self.calls + other.calls,
            self.errors + other.errors,
            self.loads + other.loads,
            self.searched + other.searched,
            self.milliseconds + other.milliseconds,
        )

    @property
    def error_rate(self) -> float | None:
        return self.errors / self.calls if self.calls else None

    @property
    def seconds(self) -> float | None:
        """Mean time of a call."""
        return self.milliseconds / self.calls / 1000 if self.calls else None


TOOL_SUMS = ("calls", "errors", "loads", "searched", "milliseconds")


def measure_tools(chosen: Selection) -> dict[str, ToolFigures]:
    """Figures by tool. Conversations and people are not told apart here."""
    found: dict[str, ToolFigures] = defaultdict(ToolFigures)
    until = rollups.rolled_until()
    period = chosen.period
    if until and period.start < until:
        rows = ToolSums.objects.filter(
            chosen.condition({name: SUM_DIMENSIONS[name] for name in OF_TOOLS}),
            workspace=chosen.workspace,
            hour__gte=period.start,
            hour__lt=min(until, period.end),
        )
        sums = [Sum(name) for name in TOOL_SUMS]
        for name, *values in rows.values_list("tool").annotate(*sums).order_by():
            found[name] += ToolFigures(*values)
    start = max(until, period.start) if until else period.start
    if start < period.end:
        for key, values in rollups.tool_figures(start, period.end).items():
            if _chosen(chosen, key):
                found[key[-1]] += ToolFigures(*values)
    return dict(found)


def _chosen(chosen: Selection, key: Key) -> bool:
    """Whether a key of `rollups.tool_figures` is within the workspace and facets."""
    if key[0] != chosen.workspace.pk:
        return False
    return all(
        not chosen.facets.get(name) or value in chosen.facets[name]
        for name, value in zip(OF_TOOLS, key[1:-1], strict=True)
    )
