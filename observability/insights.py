"""Insights: what a workspace's model calls cost and whether the cache works.

The read side of the page. Everything is computed for one viewer: private
conversations of others are summed, never named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from agents.models import Agent, ModelCall
from observability.breaks import FAULTS, title_of
from observability.figures import Figures, total
from observability.idle import Change, changes_in
from observability.measures import SUM_DIMENSIONS
from observability.models import CacheBreak, HourSums, IdleCost, Role
from observability.selection import (
    Selection,
    ToolFigures,
    broken,
    measure,
    measure_tools,
)
from workspace.models import Conversation, User, Workspace

#: Rows of a table; the rest is summed in one more row.
MOST_ROWS = 50
#: Conversations that are named one by one.
MOST_TALKS = 25
#: Conversations that the idle trend reads, newest first.
MOST_IDLE = 2_000


@dataclass(frozen=True)
class Point:
    """One point of time on a chart."""

    at: datetime
    figures: Figures
    by_model: dict[str, Figures]
    breaks: int = 0


@dataclass(frozen=True)
class Line:
    """A row of a table. Without `value` it stands for what may not be named."""

    value: str
    title: str
    figures: Figures
    facet: str = ""
    conversation: Any = None
    agent: str = ""


@dataclass(frozen=True)
class Tool:
    """A row of the table of tools."""

    name: str
    figures: ToolFigures
    flag: str = ""


@dataclass(frozen=True)
class IdlePoint:
    """New conversations of one point of time; tokens are their mean."""

    at: datetime
    tokens: int | None
    count: int


@dataclass(frozen=True)
class Idle:
    """The idle cost of the period. `latest` is what a conversation carries now."""

    points: list[IdlePoint]
    changes: list[Change]
    latest: int | None
    mean: float | None
    before: float | None


@dataclass(frozen=True)
class Cause:
    """Why cached prefixes were lost, summed over the period."""

    name: str
    title: str
    breaks: int
    lost: int
    cost: Decimal | None
    share: float
    is_fault: bool


@dataclass(frozen=True)
class Break:
    """One break. `conversation` is None where the viewer may not know it."""

    row: CacheBreak
    title: str
    agent: str
    conversation: Conversation | None


@dataclass(frozen=True)
class Overview:
    """All that the page shows."""

    now: Figures
    before: Figures | None
    points: list[Point]
    tables: dict[str, list[Line]]
    tools: list[Tool]
    idle: Idle
    causes: list[Cause]
    breaks: list[Break]


def first_call(workspace: Workspace) -> datetime | None:
    """When the workspace's first model call was made; two indexed queries at most."""
    rolled = HourSums.objects.filter(workspace=workspace).order_by("hour")
    if hour := rolled.values_list("hour", flat=True).first():
        return hour
    calls = ModelCall.objects.filter(run__workspace=workspace).order_by("at")
    return calls.values_list("at", flat=True).first()


def overview(chosen: Selection, viewer: User, *, compare: bool = True) -> Overview:
    """The whole page; `compare` also sums the period before."""
    lost = broken(chosen)
    points = series(chosen, lost)
    before = measure(chosen.before).get(()) if compare else None
    return Overview(
        now=total(point.figures for point in points),
        before=before if before and before.calls else None,
        points=points,
        tables=tables(chosen, viewer, points),
        tools=tools(chosen),
        idle=idle(chosen),
        causes=causes(lost),
        breaks=named_breaks(lost, viewer),
    )


def causes(lost: Iterable[CacheBreak]) -> list[Cause]:
    """What took most of the cached tokens first."""
    by_cause: dict[str, list[CacheBreak]] = defaultdict(list)
    for one in lost:
        by_cause[one.cause].append(one)
    everything = sum(one.lost_tokens for rows in by_cause.values() for one in rows)
    found = []
    for name, rows in by_cause.items():
        tokens = sum(one.lost_tokens for one in rows)
        prices = [one.cost for one in rows if one.cost is not None]
        cost = sum(prices, Decimal()) if prices else None
        title, share = title_of(name), tokens / everything if everything else 0
        found.append(Cause(name, title, len(rows), tokens, cost, share, name in FAULTS))
    return sorted(found, key=lambda cause: (-cause.lost, cause.name))


def named_breaks(lost: list[CacheBreak], viewer: User) -> list[Break]:
    """The newest ones, with links where the viewer may follow them."""
    rows = lost[::-1][:MOST_ROWS]
    visible = Conversation.objects.visible_to(viewer)
    talks = visible.in_bulk({row.conversation_id for row in rows})
    agents = Agent.objects.in_bulk({row.agent_id for row in rows})
    return [
        Break(
            row,
            title_of(row.cause),
            agents[row.agent_id].title if row.agent_id in agents else "",
            talks.get(row.conversation_id),
        )
        for row in rows
    ]


def series(chosen: Selection, lost: Iterable[CacheBreak] = ()) -> list[Point]:
    """Figures over time, a point for every step of the period."""
    period = chosen.period
    breaks = Counter(period.bucket(one.at) for one in lost)
    sums: dict[datetime, dict[str, Figures]] = {at: {} for at in period.buckets()}
    for (hour, model), figures in measure(chosen, "hour", "model").items():
        models = sums.setdefault(period.bucket(hour), {})
        models[model] = models.get(model, Figures()) + figures
    return [
        Point(at, total(models.values()), models, breaks[at])
        for at, models in sorted(sums.items())
    ]


def tables(
    chosen: Selection, viewer: User, points: list[Point]
) -> dict[str, list[Line]]:
    """Lines by agent, model, mode, role, conversation and user; most input first."""
    models: dict[Any, Figures] = defaultdict(Figures)
    for point in points:
        for model, figures in point.by_model.items():
            models[model] += figures
    agents, modes, roles = _each(chosen, "agent", "mode", "role")
    conversations, people = _each(chosen, "conversation", "user")
    return {
        "agent": _agents(agents),
        "model": _plain("model", models),
        "mode": _plain("mode", modes),
        "role": _roles(roles),
        "conversation": _conversations(conversations, viewer),
        "user": _users(people),
    }


def _each(chosen: Selection, *dimensions: str) -> list[dict[Any, Figures]]:
    """Figures by each of the dimensions, out of one pass over the sums."""
    found: list[dict[Any, Figures]] = [defaultdict(Figures) for _one in dimensions]
    for key, figures in measure(chosen, *dimensions).items():
        for sums, value in zip(found, key, strict=True):
            sums[value] += figures
    return found


def _ranked(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (-line.figures.total_input, line.title))


def _plain(facet: str, found: dict[Any, Figures]) -> list[Line]:
    return _ranked(
        Line(value, value, figures, facet) for value, figures in found.items()
    )


def _roles(found: dict[Any, Figures]) -> list[Line]:
    titles = {
        Role.MAIN: _("Conversations"),
        Role.CHILD: _("Children"),
        Role.BACKGROUND: _("Background"),
    }
    return _ranked(
        Line(value, titles[value], figures, "role") for value, figures in found.items()
    )


def _agents(found: dict[Any, Figures]) -> list[Line]:
    rows = Agent.objects.in_bulk(list(found))
    return _ranked(
        Line(rows[key].name, rows[key].title, figures, "agent", agent=rows[key].name)
        for key, figures in found.items()
        if key in rows
    )


def _users(found: dict[Any, Figures]) -> list[Line]:
    rows = User.objects.in_bulk([key for key in found if key is not None])
    return _ranked(
        Line(str(key), str(rows[key]), figures, "user")
        if key in rows
        else Line("", _("Nobody in particular"), figures)
        for key, figures in found.items()
    )


def _conversations(found: dict[Any, Figures], viewer: User) -> list[Line]:
    """Those that the viewer may see; the others as one line without a name."""
    visible = Conversation.objects.visible_to(viewer).filter(pk__in=_largest(found))
    rows = visible.select_related("workspace").in_bulk()
    named = _ranked(
        Line(str(key), str(rows[key]), found[key], "conversation", rows[key])
        for key in found
        if key in rows
    )
    shown = named[:MOST_TALKS]
    kept = {line.conversation.pk for line in shown}
    rest = total(figures for key, figures in found.items() if key not in kept)
    if rest.calls:
        shown.append(Line("", _("Others, and private ones of other people"), rest))
    return shown


def _largest(found: dict[Any, Figures]) -> list[Any]:
    """Keys with the most input: enough to fill the table though some are hidden."""
    ranked = sorted(found, key=lambda key: -found[key].total_input)
    return ranked[: MOST_TALKS * 8]


def tools(chosen: Selection) -> list[Tool]:
    """Tools by calls, with what stands out about them."""
    found = measure_tools(chosen)
    lines = [Tool(name, figures, _flag(figures)) for name, figures in found.items()]
    lines.sort(key=lambda tool: (-tool.figures.calls, -tool.figures.loads, tool.name))
    return lines[:MOST_ROWS]


def _flag(figures: ToolFigures) -> str:
    if figures.loads and not figures.calls:
        return "unused"
    if figures.calls >= 5 and figures.errors * 2 >= figures.calls:
        return "failing"
    return ""


def idle(chosen: Selection) -> Idle:
    """The idle cost of conversations that began in the period."""
    rows = _idle_rows(chosen)
    sums: dict[datetime, list[int]] = {at: [] for at in chosen.period.buckets()}
    for row in rows:
        sums.setdefault(chosen.period.bucket(row.at), []).append(row.tokens)
    before = [row.tokens for row in _idle_rows(chosen.before)]
    return Idle(
        points=[
            IdlePoint(at, round(sum(found) / len(found)) if found else None, len(found))
            for at, found in sorted(sums.items())
        ],
        changes=changes_in(rows)[::-1],
        latest=rows[-1].tokens if rows else None,
        mean=_mean(row.tokens for row in rows),
        before=_mean(before),
    )


def _idle_rows(chosen: Selection) -> list[IdleCost]:
    """In order of time. People and conversations do not change what is carried."""
    names = {name: SUM_DIMENSIONS[name] for name in ("agent", "model", "mode")}
    rows = IdleCost.objects.filter(
        chosen.condition(names),
        workspace=chosen.workspace,
        at__gte=chosen.period.start,
        at__lt=chosen.period.end,
    )
    return list(rows.order_by("-at")[:MOST_IDLE])[::-1]


def _mean(values: Iterable[int]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None
