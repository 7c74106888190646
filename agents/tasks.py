"""What a worker does when the doorbell rings."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any
from uuid import UUID

from celery import shared_task
from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    close_old_connections,
)

from agents import memory_agents, runs, worker
from agents.children.warming import wait_for_first
from agents.endpoints import Choice, choose
from agents.errors import (
    ProviderError,
    RightLost,
    RunReleased,
    RunStoppedByUser,
)
from agents.loop import execute
from agents.runs import Hold
from workspace.errors import LeaseLost

logger = logging.getLogger(__name__)

BROKEN = (
    "Something in the server failed; nothing that was stored is lost. The operator's "
    "log names the cause under run {}. Press Retry to try again."
)


@shared_task(name="agents.play", ignore_result=True)
def play(run_id: str) -> None:
    """Play a queued run as far as it goes. A second ring finds it taken and does nothing."""
    if worker.draining():
        return
    hold = runs.take(UUID(run_id), worker.name())
    if hold is not None and not (hold.is_new and worker.holds_run(hold.run.pk)):
        with worker.holding(hold):
            play_held(hold)


@shared_task(name="agents.remember", ignore_result=True)
def remember(memory_run_id: str) -> None:
    """Let a memory agent work, unless another worker has begun it."""
    if not worker.draining():
        memory_agents.play(UUID(memory_run_id))


def play_held(hold: Hold, choice: Choice | None = None) -> None:
    """Execute a claimed run and store how it ends, whatever happens.

    `choice` is given by tests; else the conversation's model answers.
    """
    try:
        run = hold.run
        wait_for_first(hold)
        execute(hold, choice or choose(run.conversation, run.agent))
    except RunStoppedByUser:
        _close(hold, runs.stop)
    except RunReleased:
        _close(hold, runs.release)
    except (ProviderError, RightLost) as error:
        _close(hold, runs.fail, error.message)
    except LeaseLost:
        logger.warning("Run %s went on elsewhere", hold.run.pk)
    except (OperationalError, InterfaceError):
        logger.exception(
            "Run %s lost the database and is left to a sweeper", hold.run.pk
        )
        _leave(hold)
    except Exception:
        logger.exception("Run %s failed", hold.run.pk)
        _close(hold, runs.fail, BROKEN.format(hold.run.pk))


def _leave(hold: Hold) -> None:
    """Hand the run to a sweeper at once if the database is back, else in one lease."""
    close_old_connections()
    with suppress(DatabaseError, InterfaceError):
        _close(hold, runs.abandon)


def _close(hold: Hold, end: Any, *arguments: Any) -> None:
    """Store the end, unless another worker has taken the run in the meantime."""
    try:
        end(hold, *arguments)
    except LeaseLost:
        logger.warning("Run %s was taken over before it ended here", hold.run.pk)
