"""A whole installation for chaos and bench: `manage.py up`, and a simulator beside it.

Everything lies in one temporary folder and listens on loopback. Only processes that
were started here are ever killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).resolve().parent.parent.parent
WEB, WORKER, BROKER = "supervisor.web", "supervisor.worker", "valkey-server"
#: Seconds that a start may take on a busy machine.
PATIENCE = 90
DROPPED = (
    "DATABASE_URL",
    "REDIS_URL",
    "VAR_DIR",
    "SECRET_KEY",
    "SIMULATOR_URL",
    "DJANGO_SETTINGS_MODULE",
)
LINK = re.compile(r"http://\S+")


class GaveUp(AssertionError):
    """Something did not happen within its time."""


def wait_until(
    condition: Callable[[], Any], seconds: float, what: str, pause: float = 0.05
) -> Any:
    """The condition's first true value. Raises GaveUp."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise GaveUp(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)
    return value


def clean_environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    kept["POSTS_PER_MINUTE"] = "100000"  # these people are faster than any person
    return {**kept, "PYTHONUNBUFFERED": "1", **changes}


class Server:
    """A command of manage.py that runs until it is stopped; its output is in `log`."""

    def __init__(self, log: Path, *arguments: str, **changes: str) -> None:
        self.log, self.arguments, self.changes = log, arguments, changes
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, ready: str) -> str:
        """Returns the line's address once the output says `ready`."""
        with self.log.open("ab") as output:
            before = output.tell()
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", *self.arguments],
                cwd=ROOT,
                env=clean_environment(**self.changes),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

        def announced() -> str | None:
            if self.process is not None and self.process.poll() is not None:
                raise GaveUp(f"{self.arguments[0]} ended:\n{self.printed[-3000:]}")
            text = self.log.read_bytes()[before:].decode("utf-8", "replace")
            _, said, rest = text.partition(ready)
            match = LINK.search(rest) if said else None
            return match[0] if match else None

        return str(wait_until(announced, PATIENCE, f"{self.arguments[0]} starts"))

    @property
    def printed(self) -> str:
        return self.log.read_text("utf-8", "replace")

    @property
    def pid(self) -> int:
        assert self.process is not None, "it was started"
        return self.process.pid

    def stop(self) -> int:
        """SIGTERM, then wait; kills the whole family if that takes too long."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            return -1

    def kill(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        self.process.kill()
        self.process.wait()


class Installation:
    """`manage.py up` on a folder of its own, answered by a simulator of its own."""

    def __init__(self, folder: Path, **changes: str) -> None:
        self.folder = folder
        self.var = folder / "var"
        self.simulator = Server(folder / "simulator.log", "simulator", "--port", "0")
        self.changes = changes
        self.up: Server | None = None
        self.origin = ""
        self.simulator_url = ""
        self.simulator_client = httpx.Client(timeout=30)
        self.started_in = 0.0  # seconds

    def start(self) -> None:
        """Start what does not run; the port stays the same over restarts."""
        if not self.simulator_url:
            address = self.simulator.start("Simulator ready at ")
            self.simulator_url = address.removesuffix("/v1")
        port = self.origin.rsplit(":", 1)[1] if self.origin else "0"
        self.up = Server(
            self.folder / "up.log",
            *("up", "--var", str(self.var), "--port", port),
            **{"SIMULATOR_URL": self.simulator_url, **self.changes},
        )
        begun = time.monotonic()
        link = self.up.start(" is ready")
        self.started_in = time.monotonic() - begun
        self.origin = "/".join(link.split("/")[:3])
        self.setup_link = link

    def stop(self) -> int:
        return self.up.stop() if self.up else 0

    def close(self) -> None:
        """End everything; nothing that was started here survives."""
        if self.up is not None:
            self.up.kill()
        self.simulator.kill()
        self.simulator_client.close()

    def processes(self, marker: str = "") -> list[psutil.Process]:
        """The living children of `up` whose command line holds the marker."""
        assert self.up is not None, "it was started"
        found = []
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self.up.pid).children():
                with contextlib.suppress(psutil.Error):
                    line = " ".join(process.cmdline())
                    if marker in line and process.status() != psutil.STATUS_ZOMBIE:
                        found.append(process)
        return found

    def family(self) -> list[psutil.Process]:
        """`up` and everything below it."""
        assert self.up is not None, "it was started"
        head = psutil.Process(self.up.pid)
        return [head, *head.children(recursive=True)]

    def kill_child(self, marker: str) -> int:
        """SIGKILL one child of `up`; waits for it to be there first. Returns its pid."""
        [victim] = wait_until(
            lambda: self.processes(marker), PATIENCE, f"{marker} runs"
        )
        victim.kill()
        victim.wait(10)
        return victim.pid

    def healthy(self) -> bool:
        try:
            return httpx.get(f"{self.origin}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def wait_healthy(self) -> None:
        wait_until(self.healthy, PATIENCE, "the installation answers")

    def asked(self, since: int = 0) -> list[dict[str, Any]]:
        """What the simulator was sent after that request."""
        address = f"{self.simulator_url}/requests?since={since}"
        answer = self.simulator_client.get(address)
        requests: list[dict[str, Any]] = answer.json()["requests"]
        return requests

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command of manage.py on the same folder."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=clean_environment(VAR_DIR=str(self.var)),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def set_up_django(var: Path) -> None:
    """Let this process read the installation's rows; once, and for one folder only."""
    for name in DROPPED:
        os.environ.pop(name, None)
    os.environ["VAR_DIR"] = str(var)
    os.environ["DJANGO_SETTINGS_MODULE"] = "workspace.settings"
    os.environ["LOG_LEVEL"] = "warning"
    import django

    django.setup()


@contextmanager
def running(**changes: str) -> Iterator[Installation]:
    """A fresh installation with this process's Django on it; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tallyroom-live-"))
    installation = Installation(folder, **changes)
    try:
        installation.start()
        set_up_django(installation.var)
        yield installation
    finally:
        installation.close()
        keep = os.environ.get("KEEP_INSTALLATION")
        if keep:
            sys.stderr.write(f"Kept {folder}\n")
        else:
            shutil.rmtree(folder, ignore_errors=True)
