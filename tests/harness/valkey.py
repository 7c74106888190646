"""A Valkey on a unix socket, for as long as a test session lasts.

It is tethered as the supervisor's children are: killed runs leave no server behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from agents.supervisor.broker import answers, valkey_command
from agents.supervisor.children import TETHER


class EmbeddedValkey:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "valkey.sock"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Returns once it answers."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tether = [sys.executable, str(TETHER), str(os.getpid())]
        self.process = subprocess.Popen(
            [*tether, *valkey_command(self.socket)], stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 10
        while not answers(self.socket):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("The test session's Valkey did not start.")
            time.sleep(0.01)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)
