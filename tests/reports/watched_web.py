"""The web process with every callback of its event loop timed.

What took over 50 ms is written to the file that `LATE_FILE` names, with the seconds
that the thread itself computed: few of them mean that the callback waited.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from asyncio import events
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
#: Seconds, as asyncio's own slow_callback_duration would have it.
SLOW = 0.05
NOTE_EVERY = 200


class Watch:
    """Runs callbacks in place of asyncio's handles, and writes down the late ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = events.Handle._run
        self.count = 0

    def note(self, **facts: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(facts) + "\n")

    def __call__(self, handle: events.Handle) -> None:
        begun, computed = time.monotonic(), time.thread_time()
        self.run(handle)
        took = time.monotonic() - begun
        self.count += 1
        if took > SLOW:
            self.note(
                took=round(took, 4),
                computed=round(time.thread_time() - computed, 4),
                callback=repr(handle)[:400],
            )
        if self.count % NOTE_EVERY == 0:
            self.note(callbacks=self.count)


def main() -> None:
    sys.path.insert(0, str(ROOT))
    watch = Watch(Path(os.environ["LATE_FILE"]))
    events.Handle._run = lambda handle: watch(handle)  # type: ignore[method-assign]
    assert asyncio.events.Handle is events.Handle, "timers are handles as well"
    from agents.supervisor.web import main as serve

    serve()


if __name__ == "__main__":
    main()
