"""Stopping whatever a run is doing right now, from another thread.

Each step that blocks registers how it is cut short: the stream's socket is shut, the
shell's process group killed. Stopping is an exception that leaves the loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agents.errors import RunStopped


class Interrupt:
    """One run's stop switch; `stop` may be called from any thread, any number of times."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._reason: RunStopped | None = None
        self._callbacks: list[Callable[[], None]] = []

    def stop(self, reason: RunStopped) -> None:
        """Cut the current step short; `check` raises `reason` from now on."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks = list(self._callbacks)
            self._event.set()
        for callback in callbacks:
            callback()

    @property
    def stopped(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raise the reason if the run was stopped."""
        if self._reason is not None:
            raise self._reason

    def sleep(self, seconds: float) -> None:
        """Wait; raises the reason as soon as the run is stopped."""
        self._event.wait(seconds)
        self.check()

    @contextmanager
    def on_stop(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` (from the stopping thread) if a stop comes inside the block.

        The callback must be quick, must not raise and may run while the block ends.
        Raises the reason at entry if the run was stopped already.
        """
        with self._lock:
            if self._reason is None:
                self._callbacks.append(callback)
        self.check()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)
