"""Facts in the past tense, as plain values, told to whoever listens.

`emit` is called inside the transaction that makes the fact true. Listeners run there
too (each in a savepoint of its own, see `observability.recorder`), so a stored record
and its fact stand or fall together. Nothing breaks if nobody listens.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import Any, ClassVar
from uuid import UUID

from django.dispatch import Signal

logger = logging.getLogger(__name__)

#: Sent with `events: tuple[Event, ...]`.
emitted = Signal()


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a run."""

    kind: ClassVar[str]
    #: Stored as a record; False for what is only pushed to whoever looks on.
    stored: ClassVar[bool] = True

    run_id: UUID
    conversation_id: UUID

    @property
    def text(self) -> str:
        """The line the log viewer shows."""
        return self.kind

    @property
    def data(self) -> dict[str, Any]:
        """The event's own values, without the ids every event has."""
        values = asdict(self)
        del values["run_id"], values["conversation_id"]
        return values


def emit(*events: Event) -> None:
    """Tell the listeners, in order. A listener's failure is logged, never raised."""
    for receiver, outcome in emitted.send_robust(sender=Event, events=events):
        if isinstance(outcome, Exception):
            logger.error(
                "Listener %r failed on %s",
                receiver,
                [event.kind for event in events],
                exc_info=outcome,
            )
