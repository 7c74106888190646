"""Where commands and code run: a view of the machine that holds only the workspace.

`Sandbox.run` blocks until a command ends, is stopped or reaches a limit. Confinement is
bubblewrap's; the operator's explicit `SANDBOX=off` runs commands as the server itself.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from django.conf import settings

from agents.interrupts import Interrupt
from agents.sandbox import bwrap, pids, watch
from agents.sandbox.bwrap import HOME, find_program, find_python
from agents.sandbox.egress import Egress, Rules
from agents.sandbox.limits import Limits, Outcome
from agents.sandbox.process import Command, Progress, SandboxFailed, read_status
from workspace import room

__all__ = [
    "HOME",
    "Limits",
    "Outcome",
    "Rules",
    "Sandbox",
    "SandboxFailed",
    "available",
    "find_program",
    "find_python",
    "is_off",
    "no_room",
    "why_no_network",
]


#: Seconds that a program may serve before it has to be started anew.
LONGEST_SERVICE = 24 * 3600.0


def is_off() -> bool:
    """Whether the operator has turned confinement off."""
    return str(getattr(settings, "SANDBOX", "auto")).lower() == "off"


def available() -> str:
    """ "" if commands can run here, else the reason why the tools for it are absent."""
    return "" if is_off() else bwrap.why_unavailable()


def why_no_network() -> str:
    """ "" if commands can have network where a workspace grants it, else the reason."""
    return "" if is_off() else bwrap.why_no_network()


def no_room(root: Path, size: int) -> str:
    """Why `size` more bytes exceed what commands may store, too; "" if they do not."""
    limits = Limits.from_settings()
    return room.no_room(root, size, limits.quota, limits.free_space)


def _silent(text: str) -> None:
    return None


@dataclass(frozen=True)
class Sandbox:
    """Runs commands on the files of one conversation."""

    root: Path
    interrupt: Interrupt
    read_only: bool = False
    progress: Callable[[str], None] = _silent
    environment: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    #: Where the command may go through the proxy; None: it has no network.
    network: Rules | None = None
    #: For the server's own programs that only need to be stoppable, never for others'.
    unconfined: bool = False

    def run(
        self, argv: list[str], *, timeout: float, cwd: str = "", stdin: bytes = b""
    ) -> Outcome:
        """Run a command in `cwd` (relative to the root) for at most `timeout` seconds.

        Raises the interrupt's reason if the run was stopped before the start, and
        `SandboxFailed` if the command could not be started.
        """
        self.interrupt.check()
        disk = watch.DiskWatch(
            self.root,
            self.limits.quota,
            self.limits.free_space,
            lambda: self.interrupt.stopped,
        )
        if sentence := disk.start():
            raise SandboxFailed(sentence)
        start = (
            self._start_open if is_off() or self.unconfined else self._start_confined
        )
        with ExitStack() as stack:
            egress = self._way_out(stack)
            command = start(stack, argv, cwd, stdin, timeout, egress)
            stack.enter_context(self.interrupt.on_stop(command.stop))
            captured = command.follow(disk, Progress(self.progress))
            outcome = command.outcome(captured, command.wait(disk))
            if egress is None:
                return outcome
            return replace(outcome, visits=tuple(egress.visits), asked=egress.asked)

    def serve(
        self, stack: ExitStack, argv: list[str]
    ) -> tuple[Command, watch.DiskWatch]:
        """Start a program that is talked to by its stdin and stdout.

        It ends with the stack. Whoever holds it must look at its limits: `Command.check`.
        Raises `SandboxFailed` if it could not be started.
        """
        disk = watch.DiskWatch(
            self.root, self.limits.quota, self.limits.free_space, lambda: False
        )
        if sentence := disk.start():
            raise SandboxFailed(sentence)
        start = self._start_open if is_off() else self._start_confined
        egress = self._way_out(stack)
        return start(stack, argv, "", None, LONGEST_SERVICE, egress), disk

    def _way_out(self, stack: ExitStack) -> Egress | None:
        """A proxy for the command, if it is granted one and can be led to it."""
        if self.network is None or is_off() or bwrap.why_no_network():
            return None
        try:
            return stack.enter_context(Egress(self.network))
        except OSError as error:
            raise SandboxFailed(f"The way to the network failed: {error}") from error

    def _start_confined(
        self,
        stack: ExitStack,
        argv: list[str],
        cwd: str,
        stdin: bytes | None,
        timeout: float,
        egress: Egress | None,
    ) -> Command:
        """Start bubblewrap, which waits until the command's limits are set."""
        if egress is not None:
            argv = bwrap.behind_proxy(argv)
        program = bwrap.find_bwrap()
        if not program:
            raise SandboxFailed(f"Commands cannot run: {bwrap.why_unavailable()}.")
        status, status_end = os.pipe()
        stack.callback(os.close, status)
        gate_end, gate = os.pipe()
        stack.callback(os.close, gate)
        with ExitStack() as passed:
            passed.callback(os.close, status_end)
            passed.callback(os.close, gate_end)
            line, descriptors = bwrap.arguments(
                passed,
                program,
                bwrap.Mount(self.root, self.read_only),
                cwd=f"{HOME}/{cwd}".rstrip("/"),
                environment={**bwrap.ENVIRONMENT, **self.environment},
                limits=self.limits,
                proxy=egress.path if egress else None,
            )
            line += ["--json-status-fd", str(status_end), "--block-fd", str(gate_end)]
            command = self._spawn(
                stack,
                [*line, "--", *argv],
                stdin,
                timeout,
                descriptors=(*descriptors, status_end, gate_end),
            )
        pid = read_status(status).get("child-pid")
        if pid is None:
            raise SandboxFailed(f"The sandbox did not start: {command.complaint()}")
        command.watch_over(pid)
        pids.bound(pid, self.limits.processes)
        os.write(gate, b"\n")
        return command

    def _start_open(
        self,
        stack: ExitStack,
        argv: list[str],
        cwd: str,
        stdin: bytes | None,
        timeout: float,
        egress: Egress | None,
    ) -> Command:
        """Start the command as the server itself: the operator has asked for that."""
        command = self._spawn(
            stack,
            argv,
            stdin,
            timeout,
            folder=self.root / cwd,
            environment={**bwrap.ENVIRONMENT, **self.environment},
        )
        command.watch_over(command.process.pid)
        return command

    def _spawn(
        self,
        stack: ExitStack,
        line: list[str],
        stdin: bytes | None,
        timeout: float,
        *,
        descriptors: tuple[int, ...] = (),
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> Command:
        """Start a process whose end is the stack's duty. No stdin: a pipe is opened."""
        entry = subprocess.PIPE
        if stdin is not None:
            entry = bwrap.memory_file(stack, "stdin", stdin)
        try:
            process = subprocess.Popen(
                line,
                stdin=entry,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=environment or {},
                pass_fds=descriptors,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxFailed(f"The command could not be started: {error}") from error
        command = Command(process, self.limits, timeout)
        stack.callback(command.close)
        return command
