"""Finding work that nobody rang for. It uses only the database.

Run by beat and by each worker; every step is a conditional update, so that any number
of sweepers may work at once and a lost broker loses no turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TypeVar

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from agents import doorbell, events, runs
from agents.children import family
from agents.models import Run, Wait
from workspace.events import emit

logger = logging.getLogger(__name__)
Row = TypeVar("Row", Run, Wait)

#: Times that a worker may be lost in one round before its run fails.
MAX_RESTARTS = 3
#: Seconds before a queued run is rung for again; doubles with each ring.
FIRST_RING, LONGEST_RING = 3, 60
#: How far the clocks of two healthy machines are apart, at most.
LATEST_CLOCK = timedelta(minutes=1)

WORKER_LOST = (
    "The worker was lost several times in the same round, so the run was ended. What "
    "was done so far is kept. Press Retry to try again."
)


def sweep() -> None:
    """One pass: lost workers, expired waits, waits already met, runs nobody took."""
    now = timezone.now()
    open_runs = Run.objects.filter(state__in=Run.OPEN)
    limit_leases(now)
    each(open_runs.filter(state=Run.State.RUNNING, lease_until__lt=now), recover, now)
    unanswered = Wait.objects.filter(outcome="", deadline__lt=now)
    each(unanswered.select_related("run__conversation"), expire, now)
    each(open_runs.filter(state=Run.State.WAITING), wake_if_met, now)
    each(open_runs.filter(state=Run.State.QUEUED), ring_again, now)


def each(
    rows: Iterable[Row], step: Callable[[Row, datetime], None], now: datetime
) -> None:
    """Take the step for every row; one that fails does not keep the others."""
    for row in list(rows):
        try:
            step(row, now)
        except Exception:
            logger.exception("%s could not be swept; the next pass tries again", row)


def limit_leases(now: datetime) -> None:
    """Bring back leases that a clock which was ahead has set; their workers renew."""
    longest = runs.lease_end(now)
    slack = timedelta(seconds=settings.RUN_LEASE_SECONDS)
    Run.objects.filter(state=Run.State.RUNNING, lease_until__gt=longest + slack).update(
        lease_until=longest
    )


def wake_if_met(run: Run, now: datetime) -> None:
    """Queue a waiting run whose waits all have an outcome, or one of whose children ended."""
    if ended := list(family.all_ended(run)):
        _meet(run, ended, now)
    if not run.waits.filter(outcome="").exists():
        with transaction.atomic():
            runs.wake(run)


@transaction.atomic
def _meet(run: Run, waits: list[Wait], now: datetime) -> None:
    """Close waits for children whose end did not close them, and wake the parent."""
    runs.lock_row(run.conversation_id)
    for wait in waits:
        Wait.objects.filter(pk=wait.pk, outcome="").update(
            outcome=Wait.Outcome.ANSWERED, answered_at=now
        )
    runs.admit(run)
    runs.wake(run)


def recover(run: Run, now: datetime) -> None:
    """Free a run whose worker is gone; fail it if that happened too often."""
    if run.restarts >= MAX_RESTARTS:
        _give_up(run)
        return
    freed = Run.objects.filter(
        pk=run.pk, state=Run.State.RUNNING, fence=run.fence, lease_until__lt=now
    ).update(
        state=Run.State.QUEUED,
        fence=F("fence") + 1,
        worker="",
        lease_until=None,
        restarts=F("restarts") + 1,
        rung_at=now,
        rings=0,
    )
    if freed:
        logger.warning("Run %s lost its worker %r", run.pk, run.worker)
        doorbell.ring(run.pk, run.trigger)


@transaction.atomic
def _give_up(run: Run) -> None:
    runs.lock_line(run)
    still = Run.objects.filter(
        pk=run.pk, state=Run.State.RUNNING, fence=run.fence, lease_until=run.lease_until
    )
    if still.exists() and (hold := runs.take_over(run)):
        runs.fail(hold, WORKER_LOST)


def free_worker(name: str) -> int:
    """Expire the leases of a worker that is known to be dead; returns how many."""
    gone = timezone.now() - timedelta(seconds=1)
    freed = Run.objects.filter(worker=name, state=Run.State.RUNNING)
    count = freed.update(lease_until=gone)
    if count:
        sweep()
    return count


@transaction.atomic
def expire(wait: Wait, now: datetime) -> None:
    """Close a wait that nobody answered in time; its run goes on with that."""
    runs.lock_row(wait.run.conversation_id)
    closed = Wait.objects.filter(pk=wait.pk, outcome="").update(
        outcome=Wait.Outcome.EXPIRED, answered_at=now
    )
    if not closed:
        return
    emit(
        events.WaitExpired(
            **runs.ids_of(wait.run), wait_id=wait.pk, wait_kind=wait.kind
        )
    )
    runs.push_wait(wait, wait.run.conversation, "wait.closed")
    runs.wake(wait.run)


def ring_again(run: Run, now: datetime) -> None:
    """Ring for a queued run, ever more rarely; one sweeper wins."""
    pause = min(FIRST_RING * 2**run.rings, LONGEST_RING)
    due = now - timedelta(seconds=pause * settings.RUN_LEASE_SECONDS / 30)
    # A time to come was written by a clock that was ahead.
    is_due = Q(rung_at=None) | Q(rung_at__lt=due) | Q(rung_at__gt=now + LATEST_CLOCK)
    rung = Run.objects.filter(is_due, pk=run.pk, state=Run.State.QUEUED).update(
        rung_at=now, rings=F("rings") + 1
    )
    if rung:
        doorbell.ring(run.pk, run.trigger)
