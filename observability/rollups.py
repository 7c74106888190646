"""Keeps the roll-ups: hours that have ended, summed once, and again for late answers.

All of it can be deleted and is then made anew from model calls and records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.models import ModelCall, Run
from observability.breaks import breaks_between
from observability.figures import NAMES
from observability.idle import record_idle_costs
from observability.measures import CALL_DIMENSIONS, role_by, settled_calls
from observability.measures import sums_of_calls as sums
from observability.models import (
    CacheBreak,
    ConversationSums,
    HourSums,
    Record,
    ToolSums,
    Watermark,
)

HOUR = timedelta(hours=1)
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
WATERMARK = "rollups"
#: A call is settled within an hour of its dispatch (see `agents.receive`), so hours
#: this far back may still change.
UNSETTLED = 2 * HOUR
PORTION = 500  # rows that one short transaction deletes
TOOL_KINDS = ("tool.finished", "tool.loaded")


def hour_of(moment: datetime) -> datetime:
    """The begin of its hour, UTC."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def rolled_until() -> datetime | None:
    """Hours before this one are to be read from the roll-ups; None: there are none."""
    rows = Watermark.objects.filter(name=WATERMARK)
    return rows.values_list("until", flat=True).first()


def forget_old_records() -> int:
    """Delete records older than their retention; returns how many. 0 days: keep all."""
    days = settings.RECORD_DAYS
    if not days:
        return 0
    old = Record.objects.filter(at__lt=timezone.now() - timedelta(days=days))
    deleted = 0
    while keys := list(old.order_by("pk").values_list("pk", flat=True)[:PORTION]):
        deleted += Record.objects.filter(pk__in=keys).delete()[0]
    return deleted


def keep() -> None:
    """The beat's chore: what a new conversation carries, and the hours that ended."""
    record_idle_costs()
    roll_up()


def roll_up(now: datetime | None = None) -> int:
    """Sum the hours that have ended; returns how many had something to sum.

    An hour is one short transaction, so whatever kills this leaves whole hours.
    """
    end = hour_of(now or timezone.now())
    until = rolled_until()
    hour = _busy_hour(until - UNSETTLED if until else EPOCH)
    if until is None and hour is None:
        return 0
    written = 0
    while hour is not None and hour < end:
        written += _write_hour(hour)
        hour = _busy_hour(hour + HOUR)
    with transaction.atomic():
        _advance(end)
    return written


def rebuild() -> int:
    """Make the roll-ups anew from what is stored; returns how many hours they have."""
    with transaction.atomic():
        for kind in (HourSums, ConversationSums):
            kind.objects.all().delete()
        Watermark.objects.filter(name=WATERMARK).delete()
    record_idle_costs(everything=True)
    return roll_up()


def _busy_hour(start: datetime) -> datetime | None:
    """The first hour from there on in which something was called; None: there is none."""
    calls = ModelCall.objects.filter(at__gte=start).order_by("at")
    records = Record.objects.filter(at__gte=start, kind__in=TOOL_KINDS).order_by("at")
    first = [rows.values_list("at", flat=True).first() for rows in (calls, records)]
    return min((hour_of(at) for at in first if at), default=None)


def _write_hour(hour: datetime) -> bool:
    """Replace the sums of one hour; False when nothing happened in it.

    Two writers wait for each other at the watermark.
    """
    talks, tools = list(_talks(hour)), _tools(hour)
    broken = breaks_between(hour, hour + HOUR) if talks else []
    if not talks and not tools:
        return False
    with transaction.atomic():
        _advance(hour + HOUR)
        for kind in (HourSums, ConversationSums):
            kind.objects.filter(hour=hour).delete()
        CacheBreak.objects.filter(at__gte=hour, at__lt=hour + HOUR).delete()
        CacheBreak.objects.bulk_create(broken)
        ConversationSums.objects.bulk_create(talks)
        HourSums.objects.bulk_create(_merged(talks))
        if tools:  # records may be gone by now: what was summed from them stays
            ToolSums.objects.filter(hour=hour).delete()
            ToolSums.objects.bulk_create(tools)
    return True


def _advance(until: datetime) -> None:
    """Move the watermark there, unless it is further. Inside a transaction."""
    mark, _ = Watermark.objects.select_for_update().get_or_create(name=WATERMARK)
    if mark.until is None or mark.until < until:
        mark.until = until
        mark.save(update_fields=["until"])


def _talks(hour: datetime) -> Iterable[ConversationSums]:
    """The hour's calls by everything that they can be split by."""
    calls = settled_calls().filter(at__gte=hour, at__lt=hour + HOUR)
    names = ("run__workspace_id", *CALL_DIMENSIONS.values())
    for row in calls.values(*names).annotate(**sums()).order_by():
        yield ConversationSums(
            hour=hour,
            workspace_id=row["run__workspace_id"],
            agent_id=row["run__agent_id"],
            model_name=row["model_name"],
            mode=row["mode"],
            role=row["dim_role"],
            conversation_id=row["run__conversation_id"],
            user_id=row["run__started_by_id"],
            **{name: row[f"sum_{name}"] or 0 for name in NAMES},
        )


def _key(row: Any) -> tuple[Any, ...]:
    return row.workspace_id, row.agent_id, row.model_name, row.mode, row.role


def _merged(talks: Iterable[ConversationSums]) -> list[HourSums]:
    """The same sums without conversations and people."""
    merged: dict[tuple[Any, ...], HourSums] = {}
    for talk in talks:
        workspace, agent, model_name, mode, role = key = _key(talk)
        row = merged.setdefault(
            key,
            HourSums(
                hour=talk.hour,
                workspace_id=workspace,
                agent_id=agent,
                model_name=model_name,
                mode=mode,
                role=role,
            ),
        )
        for name in NAMES:
            setattr(row, name, getattr(row, name) + getattr(talk, name))
    return list(merged.values())


def tool_figures(start: datetime, end: datetime) -> dict[tuple[Any, ...], list[int]]:
    """(workspace, agent, model, mode, role, tool) -> calls, errors, loads, searched, ms."""
    records = Record.objects.filter(kind__in=TOOL_KINDS, at__gte=start, at__lt=end)
    rows = list(records.values_list("run_id", "kind", "data"))
    places = _places({row[0] for row in rows})
    found: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * 5)
    for run_id, kind, data in rows:
        if place := places.get(run_id):
            _count(found, place, kind, data)
    return found


def _places(run_ids: set[Any]) -> dict[Any, tuple[Any, ...]]:
    runs = Run.objects.filter(pk__in=run_ids).annotate(role=role_by("trigger"))
    names = ("pk", "workspace_id", "agent_id", "model_name", "conversation__mode")
    return {row[0]: row[1:] for row in runs.values_list(*names, "role")}


def _count(
    found: dict[tuple[Any, ...], list[int]],
    place: tuple[Any, ...],
    kind: str,
    data: dict[str, Any],
) -> None:
    """Add one record. One whose values were erased or cut counts for no tool."""
    if kind == "tool.loaded":
        names = data.get("names")
        for name in names if isinstance(names, list) else ():
            figures = found[*place, str(name)[:200]]
            figures[2] += 1
            figures[3] += data.get("cause") == "search"
    elif name := data.get("tool"):
        figures = found[*place, str(name)[:200]]
        figures[0] += 1
        figures[1] += data.get("ok") is False
        milliseconds = data.get("duration_ms")
        figures[4] += milliseconds if isinstance(milliseconds, int) else 0


def _tools(hour: datetime) -> list[ToolSums]:
    return [
        ToolSums(
            hour=hour,
            workspace_id=key[0],
            agent_id=key[1],
            model_name=key[2],
            mode=key[3],
            role=key[4],
            tool=key[5],
            calls=calls,
            errors=errors,
            loads=loads,
            searched=searched,
            milliseconds=milliseconds,
        )
        for key, (calls, errors, loads, searched, milliseconds) in tool_figures(
            hour, hour + HOUR
        ).items()
    ]
