"""One worker process: the runs it holds, kept alive, stopped and handed back.

Threads beside the pool: the heartbeat renews leases and reads stop flags, the sweeper
finds work that nobody rang for, the listener hears stops at once.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from uuid import UUID, uuid4

from django.conf import settings
from django.db import close_old_connections

from agents import doorbell, sweeper
from agents.context import tokens
from agents.errors import RunReleased, RunStoppedByUser
from agents.mcp import tending
from agents.models import Run
from agents.runs import Hold, lease_end
from agents.tools.registry import present

logger = logging.getLogger(__name__)

#: Seconds between two looks at the stop flags: the fallback of the stop channel.
STOP_POLL_SECONDS = 0.5

#: Seconds between two looks for tool servers that are to be connected.
SERVER_LOOK_SECONDS = 3.0

_lock = threading.Lock()
_held: dict[UUID, Hold] = {}
_draining = threading.Event()
_ended = threading.Event()


@lru_cache(maxsize=1)
def name() -> str:
    """This process's name in the runs it holds."""
    unique = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    return settings.WORKER_NAME or unique


def draining() -> bool:
    return _draining.is_set()


@contextmanager
def holding(hold: Hold) -> Iterator[None]:
    """Keep a run's lease alive and let stops reach it, as long as the block lasts."""
    with _lock:
        earlier = _held.get(hold.run.pk)
        _held[hold.run.pk] = hold
    if earlier is not None:
        earlier.interrupt.stop(RunReleased())  # its lease ended; this one goes on
    try:
        yield
    finally:
        with _lock:
            if _held.get(hold.run.pk) is hold:
                del _held[hold.run.pk]


def holds() -> list[Hold]:
    with _lock:
        return list(_held.values())


def holds_run(run_id: UUID) -> bool:
    """Whether a thread of this process plays that run."""
    with _lock:
        return run_id in _held


def start() -> None:
    """Start the threads, once the worker takes tasks. They end with the process."""
    _repeat("heartbeat", beat, STOP_POLL_SECONDS)
    _repeat("sweeper", sweeper.sweep, settings.WORKER_SWEEP_SECONDS)
    _repeat("servers", tending.tend, SERVER_LOOK_SECONDS)
    threading.Thread(
        target=doorbell.listen_for_stops,
        args=(stop_run, _ended),
        name="stops",
        daemon=True,
    ).start()


def warm() -> None:
    """Do ahead of the first message what is done once per process."""
    tokens.count("warm")
    present()


def _repeat(label: str, work: Callable[[], object], seconds: float) -> None:
    threading.Thread(
        target=_work_on, args=(work, seconds), name=label, daemon=True
    ).start()


def _work_on(work: Callable[[], object], seconds: float) -> None:
    while not _ended.wait(seconds):
        close_old_connections()
        try:
            work()
        except Exception:
            logger.exception("A housekeeping step failed; the next one tries again")


_renewed_at = 0.0


def beat() -> None:
    """Stop what people stopped; renew the leases when it is time."""
    global _renewed_at
    held = holds()
    if not held:
        return
    asked = Run.objects.filter(
        pk__in=[hold.run.pk for hold in held], stop_requested_at__isnull=False
    )
    for run_id in asked.values_list("pk", flat=True):
        stop_run(run_id)
    if time.monotonic() - _renewed_at >= settings.RUN_LEASE_RENEW_SECONDS:
        renew(held)
        leave_lost(held)
        _renewed_at = time.monotonic()


def renew(held: list[Hold]) -> None:
    """One statement for all runs that make progress; a stuck one loses its lease."""
    now = time.monotonic()
    alive = [hold.run.pk for hold in held if hold.stuck_after > now]
    Run.objects.filter(pk__in=alive, worker=name(), state=Run.State.RUNNING).update(
        lease_until=lease_end()
    )


def leave_lost(held: list[Hold]) -> None:
    """Cut short what is still done here for runs that went on elsewhere."""
    wanted = Run.objects.filter(pk__in=[hold.run.pk for hold in held])
    fences = dict(wanted.values_list("pk", "fence"))
    for hold in held:
        if not hold.is_new and fences.get(hold.run.pk) != hold.fence:
            hold.interrupt.stop(RunReleased())


def stop_run(run_id: UUID) -> None:
    """Cut short what a run does right now, if this process holds it."""
    with _lock:
        hold = _held.get(run_id)
    if hold is not None:
        hold.interrupt.stop(RunStoppedByUser())


def drain() -> None:
    """Take no more runs and hand back the ones at work.

    They leave at their next round boundary; after DRAIN_SECONDS streams are closed and
    commands killed.
    """
    _draining.set()
    deadline = time.monotonic() + settings.DRAIN_SECONDS
    for hold in holds():
        hold.leave_at_boundary = True
    while holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    for hold in holds():
        hold.interrupt.stop(RunReleased())


def end() -> None:
    """Stop the threads."""
    _ended.set()
