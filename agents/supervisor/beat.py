"""The loop that looks after what nobody waits for; it needs only the database.

Any number of processes may run it: a lease decides which one works. If that one ends,
another takes over when the lease is up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from agents.calibration import calibrate
from agents.memory_schedule import remember
from agents.models import Lease
from agents.sweeper import sweep
from workspace.attachments import forget_unsent
from workspace.search import index_messages
from workspace.verification import sign_heads

logger = logging.getLogger(__name__)

LEASE = "beat"
#: How many rounds of the sweeper a silent holder keeps the lease.
PATIENCE = 3


@dataclass
class Chore:
    """Something to do every so many seconds."""

    name: str
    seconds: float
    work: Callable[[], object]
    due: float = 0.0

    def run_if_due(self) -> None:
        """Do it when it is time. A failure is logged; the next round tries again."""
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + self.seconds
        try:
            self.work()
        except Exception:  # noqa: BLE001 - one chore's fault must not stop the others
            logger.exception("The beat's chore %r failed.", self.name)


def chores() -> list[Chore]:
    return [
        Chore("sweep", settings.SWEEP_SECONDS, sweep),
        Chore("sign heads", 3600, sign_heads),
        Chore("index messages", 60, index_messages),
        Chore("calibrate", 600, calibrate),
        Chore("remember", 60, remember),
        Chore("forget unsent files", 3600, forget_unsent),
        *(
            Chore(name, seconds, import_string(path))
            for name, seconds, path in settings.UPPER_CHORES
        ),
    ]


def beat(holder: str, stop: threading.Event) -> None:
    """Do the chores while this process holds the lease, until `stop` is set."""
    todo = chores()
    pause = min(chore.seconds for chore in todo)
    while not stop.is_set():
        if hold_lease(holder, seconds=pause * PATIENCE):
            for chore in todo:
                chore.run_if_due()
        connection.close_if_unusable_or_obsolete()
        stop.wait(pause)
    release_lease(holder)
    connection.close()


def hold_lease(holder: str, *, seconds: float) -> bool:
    """Take, keep or be refused the lease: one conditional update, or the first insert."""
    now = timezone.now()
    until = now + timedelta(seconds=seconds)
    mine_or_free = Lease.objects.filter(name=LEASE, until__lt=now) | (
        Lease.objects.filter(name=LEASE, holder=holder)
    )
    try:
        if mine_or_free.update(holder=holder, until=until):
            return True
        if Lease.objects.filter(name=LEASE).exists():
            return False
        with transaction.atomic():
            Lease.objects.create(name=LEASE, holder=holder, until=until)
    except IntegrityError:
        return False  # another process was first
    except Exception:  # noqa: BLE001 - the database may be away; it will come back
        logger.exception("The beat cannot reach the database.")
        return False
    return True


def release_lease(holder: str) -> None:
    """Let another process take over at once."""
    Lease.objects.filter(name=LEASE, holder=holder).update(until=timezone.now())
