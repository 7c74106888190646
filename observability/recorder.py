"""Stores events as records, inside the transaction of the fact that they tell of.

A record and its fact stand or fall together; only the notice to whoever looks on waits
for the commit. What fails here is logged by `emit` and changes nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from observability.models import Record
from observability.values import fit_data, fit_text
from workspace import live
from workspace.events import Event
from workspace.prepared import Select, given, insert

logger = logging.getLogger(__name__)

#: Each try that fails means that somebody else's record came in between.
TRIES = 64
#: What a record says once its turn was shredded.
ERASED = "[erased]"
FAILURES = frozenset(
    {
        "run.failed",
        "wait.expired",
        "loop.suspected",
        "provider.retried",
        "budget.exceeded",
    }
)


def record(*, events: Sequence[Event], **_signal: Any) -> None:
    """Store the events that are to be kept, by run, and announce them on commit."""
    by_run: dict[UUID, list[Event]] = {}
    for event in events:
        if event.stored:
            by_run.setdefault(event.run_id, []).append(event)
    # One order for everybody: two emitters never wait for each other crosswise.
    for run_id in sorted(by_run):
        seq = store(run_id, [describe(event) for event in by_run[run_id]])
        notice = {"type": "record.appended", "run": str(run_id), "seq": seq}
        live.push_on_commit(live.run_group(run_id), notice)


def blank(*, turns: set[UUID], **_signal: Any) -> None:
    """Take what was said out of the records of shredded turns; kinds and times stay."""
    Record.objects.filter(run__turn__in=turns).update(text=ERASED, data={})


def describe(event: Event) -> Record:
    """The event as a row that has no seq yet. Never raises for what an event holds."""
    try:
        text, data = fit_text(event.text), fit_data(event.data)
    except Exception:
        logger.exception("The event %r cannot be described", event.kind)
        text, data = event.kind, {"unreadable": True}
    return Record(
        run_id=event.run_id,
        conversation_id=event.conversation_id,
        kind=event.kind,
        failed=event.kind in FAILURES
        or data.get("ok") is False
        or bool(data.get("error")),
        text=text,
        data=data,
        at=timezone.now(),
    )


def store(run_id: UUID, rows: list[Record]) -> int:
    """Insert the rows after the run's last one; returns the last row's seq.

    Whoever inserts a seq first holds it until commit: on PostgreSQL the others wait at
    the unique index, then read again. So the numbers have no gap, and nobody ever sees
    a seq before the one below it.
    """
    for _ in range(TRIES - 1):
        try:
            return _insert(run_id, rows)
        except IntegrityError:
            continue
    return _insert(run_id, rows)


def _insert(run_id: UUID, rows: list[Record]) -> int:
    with transaction.atomic():
        last, round_number = last_place(run_id)
        for seq, row in enumerate(rows, start=last + 1):
            round_number = _round(row, round_number)
            row.pk, row.seq, row.round = None, seq, round_number
        insert(*rows)
    return last + len(rows)


_LAST = Select[tuple[int, int]](
    lambda: (
        Record.objects.filter(run=given("run", Record, "run"))
        .order_by("-seq")
        .values_list("seq", "round")[:1]
    )
)


def last_place(run_id: UUID) -> tuple[int, int]:
    """Seq and round of the run's last record; (0, 0) before the first."""
    return _LAST.first(run=run_id) or (0, 0)


def _round(row: Record, current: int) -> int:
    """Most events happen in the round that was last named; 0 names none."""
    named = row.data.get("round")
    return named if isinstance(named, int) and named > 0 else current
