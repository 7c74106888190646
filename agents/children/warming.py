"""The first of several like children warms the service's prompt cache for the others.

They begin alike, byte for byte. The others wait for the first byte of its answer, at
most WARM_SECONDS: a slow first one costs cache hits, never the work of all.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from agents.children.family import delegation_of
from agents.models import Delegation, Run
from agents.runs import Hold

WARM_SECONDS = 8
#: Seconds between two looks at whether the first one has begun to answer.
LOOK_SECONDS = 0.1


def wait_for_first(hold: Hold) -> None:
    """Rest until the first sibling of the same beginning has warmed the cache.

    Nothing for people's runs, for that sibling itself, and after the first round.
    Raises the interrupt's reason when the run is stopped meanwhile.
    """
    mine = delegation_of(hold.run) if hold.run.round == 0 else None
    if mine is None or (first := _first_of(mine)) is None:
        return
    assert hold.run.started_at, "a claimed run has started"
    until = hold.run.started_at + timedelta(seconds=WARM_SECONDS)
    while timezone.now() < until and not _is_warm(first):
        hold.interrupt.sleep(LOOK_SECONDS)


def _first_of(mine: Delegation) -> int | None:
    """The sibling that begins first with the same bytes; None if it is this one."""
    alike = Delegation.objects.filter(
        parent_run=mine.parent_run_id, prefix_digest=mine.prefix_digest, pk__lt=mine.pk
    )
    return alike.order_by("pk").values_list("pk", flat=True).first()


def _is_warm(first: int) -> bool:
    """Whether it answers, or never will."""
    warmed_at, state = (
        Delegation.objects.filter(pk=first).values_list("warmed_at", "run__state").get()
    )
    return warmed_at is not None or state in (*Run.ENDED, Run.State.WAITING)


def answered(run: Run) -> None:
    """Note that the first byte of the run's first answer has come."""
    Delegation.objects.filter(run=run.pk, warmed_at=None).update(
        warmed_at=timezone.now()
    )
