"""What the simulator was sent, how far it got with the answer, and who hung up."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

MAX_BYTES = 32 * 1024 * 1024  # of bodies that are kept
MAX_RECORDS = 5_000

State = Literal["answering", "finished", "aborted", "refused"]


@dataclass(slots=True, eq=False)
class Recorded:
    """One request. Times are seconds since the epoch; the key itself is not kept."""

    id: int
    path: str
    body: bytes
    at: float
    state: State = "answering"
    status: int = 0
    fault: str = ""
    deltas: int = 0
    ended_at: float | None = None

    def end(self, state: State) -> None:
        self.state = state
        self.ended_at = time.time()

    def plain(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "path": self.path,
            "at": self.at,
            "state": self.state,
            "status": self.status,
            "fault": self.fault,
            "deltas": self.deltas,
            "ended_at": self.ended_at,
            "body": self.body.decode("utf-8", "replace"),
        }


@dataclass(slots=True)
class Recorder:
    """The latest requests, bounded in number and bytes."""

    _kept: deque[Recorded] = field(default_factory=deque)
    _bytes: int = 0
    _last_id: int = 0

    def open(self, path: str, body: bytes) -> Recorded:
        self._last_id += 1
        record = Recorded(self._last_id, path, body, time.time())
        self._kept.append(record)
        self._bytes += len(body)
        while self._bytes > MAX_BYTES or len(self._kept) > MAX_RECORDS:
            self._bytes -= len(self._kept.popleft().body)
        return record

    def since(self, record_id: int = 0) -> list[dict[str, Any]]:
        """Requests with a higher id, oldest first, as plain values."""
        return [record.plain() for record in self._kept if record.id > record_id]
