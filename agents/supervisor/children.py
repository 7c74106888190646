"""One process of the installation: started, watched, restarted, stopped."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

logger = logging.getLogger(__name__)

TETHER = Path(__file__).with_name("tether.py")
#: Seconds before a restart: doubled each time, back to the first after a calm while.
FIRST_PAUSE, LONGEST_PAUSE, CALM = 0.1, 30.0, 60.0


@dataclass
class Child:
    """A command with its environment. `crashed` is called with the dead one's name."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: Sequence[int] = ()
    crashed: Callable[[str], None] = lambda name: None

    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float = 0.0
    pause: float = FIRST_PAUSE
    starts: int = 0

    @property
    def instance(self) -> str:
        """A name that no earlier or later start of this child has."""
        return f"{os.uname().nodename}:{self.name}:{os.getpid()}.{self.starts}"

    def start(self) -> None:
        """Start it in a session of its own: Ctrl-C is for the supervisor alone."""
        self.starts += 1
        self.started_at = time.monotonic()
        self.restart_at = 0.0
        self.process = subprocess.Popen(
            [sys.executable, "-IS", str(TETHER), str(os.getpid()), *self.command],
            env={**os.environ, **self.environment, "WORKER_NAME": self.instance},
            stdout=subprocess.DEVNULL,  # what they log goes to stderr
            pass_fds=self.descriptors,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def watch(self) -> None:
        """Notice a crash and, once its pause is over, start it again."""
        if self.running:
            return
        now = time.monotonic()
        if not self.restart_at:
            self._note_crash(now)
        elif now >= self.restart_at:
            self.start()

    def _note_crash(self, now: float) -> None:
        assert self.process is not None, "only a started child is watched"
        if now - self.started_at > CALM:
            self.pause = FIRST_PAUSE
        logger.error(
            "%s ended with %s; starting it again in %.1f s.",
            self.name,
            ending(self.process.returncode),
            self.pause,
        )
        self.restart_at = now + self.pause
        self.pause = min(self.pause * 2, LONGEST_PAUSE)
        self.crashed(self.instance)

    def ask_to_stop(self) -> None:
        if self.process is not None and self.running:
            self.process.send_signal(signal.SIGTERM)

    def stop(self, seconds: float) -> None:
        """Wait for it to end; kill it after so many seconds."""
        if self.process is None:
            return
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            logger.warning(
                "%s did not end in %.0f s and is killed.", self.name, seconds
            )
            self.process.kill()
            self.process.wait()


def ending(code: int) -> str:
    """How a process ended, for people."""
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"
