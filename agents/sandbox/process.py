"""One command from start to end: its output kept in bounds, its use watched."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import resource
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agents.sandbox import watch
from agents.sandbox.limits import Limits, Outcome
from workspace import room

_TICK = 0.25  # seconds between looks at memory, processes, disk and clock
_GLANCE = 0.02  # seconds between glances at how many tasks there are
_NICE = 19  # the server goes first, its watcher too
_PROGRESS_EVERY = 0.1  # seconds; output in between is told together
_PROGRESS_SIZE = 16_000  # bytes told at once; older ones are only in the result
_START_TIMEOUT = 20.0  # seconds until bubblewrap has built the view
_DRAIN = 1.0  # seconds to read on after the end, when something holds the pipe open
_READ = 65_536


class SandboxFailed(Exception):
    """The confined command could not be started; the message says why."""


@dataclass(slots=True)
class Progress:
    """Tells output as it comes, many small pieces together."""

    tell: Callable[[str], None]
    _decoders: dict[str, codecs.IncrementalDecoder] = field(default_factory=dict)
    _waiting: str = ""
    _told_at: float = 0.0

    def add(self, stream: str, data: bytes) -> None:
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        text = self._waiting + self._decoders[stream].decode(data)
        self._waiting = text[-_PROGRESS_SIZE:]
        self.tick()

    def tick(self) -> None:
        """Tell what waits, unless something was told just now."""
        if time.monotonic() - self._told_at >= _PROGRESS_EVERY:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self.tell(self._waiting)
            self._waiting, self._told_at = "", time.monotonic()


@dataclass(slots=True)
class Captured:
    """What a command wrote, up to a limit for both streams together."""

    limit: int
    dropped: int = 0
    _parts: dict[str, list[bytes]] = field(default_factory=dict)
    _size: int = 0

    def add(self, stream: str, data: bytes) -> None:
        kept = data[: self.limit - self._size]
        self._size += len(kept)
        self.dropped += len(data) - len(kept)
        if kept:
            self._parts.setdefault(stream, []).append(kept)

    def text(self, stream: str) -> bytes:
        return b"".join(self._parts.get(stream, ()))


class Command:
    """A started command. `kill` may come from any thread, at any time."""

    def __init__(
        self, process: subprocess.Popen[bytes], limits: Limits, timeout: float
    ) -> None:
        self.process = process
        self.limits = limits
        self.timeout = timeout
        self.started = time.monotonic()
        self.reason = ("", "")
        self.watched = process.pid
        self._handle = -1
        self._checked_at = self.started
        self._tasks = watch.tasks_on_machine()

    def watch_over(self, pid: int) -> None:
        """Limit a process that has not begun yet, and everything it will start."""
        self.watched = pid
        with contextlib.suppress(ProcessLookupError):
            self._handle = os.pidfd_open(pid)
            os.setpriority(os.PRIO_PROCESS, pid, _NICE)
            for kind, value in self.limits.of_process(self.timeout).items():
                _lower(pid, kind, value)
        with contextlib.suppress(OSError):  # so that memory runs out here first
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")

    def kill(self) -> None:
        """End everything: the first process of a pid namespace takes all with it."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        if self.process.poll() is None:
            family = watch.tree(self.process.pid)
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            for pid in family:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def cut_short(self, word: str, sentence: str) -> None:
        """End the command for a reason; the first reason counts."""
        if not self.reason[0]:
            self.reason = (word, sentence)
        self.kill()

    def stop(self) -> None:
        """End the command because somebody pressed Stop or the worker drains."""
        self.cut_short("stopped", "Stopped by a person or a shutdown of the server.")

    def complaint(self) -> str:
        """The last thing a process said that failed to start."""
        self.kill()
        _, said = self.process.communicate()
        lines = said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it gave no reason."

    def close(self) -> None:
        """Leave nothing behind, however the block ended."""
        self.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def glance(self, disk: watch.DiskWatch) -> None:
        """Check when it is time, and at once when the machine fills with processes.

        The kernel's limit on processes does not hold for a server that runs as root,
        and a fork bomb leaves no time to be counted a quarter of a second later.
        """
        tasks = watch.tasks_on_machine()
        due = time.monotonic() - self._checked_at >= _TICK
        if due or tasks > self._tasks + self.limits.processes:
            self._tasks = tasks
            self.check(disk)
            self._checked_at = time.monotonic()

    def check(self, disk: watch.DiskWatch) -> None:
        """Cut the command short if it is over a limit."""
        if time.monotonic() - self.started > self.timeout:
            self.cut_short("timeout", f"Timed out after {self.timeout:g} s.")
            return
        used = watch.usage(self.watched)
        if used.memory > self.limits.memory:
            most = room.megabytes(self.limits.memory)
            self.cut_short("memory", f"Used more than {most} of memory; stopped.")
        elif used.processes > self.limits.processes:
            most = str(self.limits.processes)
            self.cut_short("processes", f"Started more than {most} processes; stopped.")
        elif sentence := disk.complaint():
            self.cut_short("disk", f"Stopped. {sentence}")

    def follow(self, disk: watch.DiskWatch, progress: Progress) -> Captured:
        """Read the output until the command is over."""
        captured = Captured(self.limits.output)
        ended_at = 0.0
        with selectors.DefaultSelector() as selector:
            for name in ("stdout", "stderr"):
                stream = getattr(self.process, name)
                selector.register(stream, selectors.EVENT_READ, name)
            while selector.get_map():
                for key, _ in selector.select(_GLANCE):
                    if data := os.read(key.fd, _READ):
                        captured.add(key.data, data)
                        progress.add(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
                progress.tick()
                if self.process.poll() is None:
                    self.glance(disk)
                else:
                    ended_at = ended_at or time.monotonic()
                    if time.monotonic() - ended_at > _DRAIN:
                        break
        progress.flush()
        return captured

    def wait(self, disk: watch.DiskWatch) -> int:
        """The exit code; a command may close its output long before it ends."""
        while True:
            try:
                return self.process.wait(_GLANCE)
            except subprocess.TimeoutExpired:
                self.glance(disk)

    def outcome(self, captured: Captured, exit_code: int | None) -> Outcome:
        return Outcome(
            exit=None if self.reason[0] else exit_code,
            stdout=captured.text("stdout"),
            stderr=captured.text("stderr"),
            dropped=captured.dropped,
            cut_short=self.reason[0],
            reason=self.reason[1],
            seconds=time.monotonic() - self.started,
        )


def _lower(pid: int, kind: int, value: int) -> None:
    """Set both limits, never above what the server itself has."""
    _, hard = resource.prlimit(pid, kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.prlimit(pid, kind, (value, value))


def read_status(descriptor: int, deadline: float = _START_TIMEOUT) -> dict[str, int]:
    """bubblewrap's first status line; {} if it gave up before it wrote one."""
    line = b""
    end = time.monotonic() + deadline
    while b"\n" not in line:
        ready, _, _ = select.select(
            [descriptor], [], [], max(0, end - time.monotonic())
        )
        data = os.read(descriptor, 4096) if ready else b""
        if not data:
            return {}
        line += data
    status: dict[str, int] = json.loads(line.splitlines()[0])
    return status
