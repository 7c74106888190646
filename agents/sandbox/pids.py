"""How many processes a pid namespace can hold, where the kernel can be told.

The kernel's limit on a user's processes (RLIMIT_NPROC) does not hold for root, and the
workspace's files belong to whoever runs the server, so commands of a server that runs
as root are root's to the kernel. Since Linux 6.14 each pid namespace has a `pid_max`
of its own; elsewhere the watcher alone ends a fork bomb.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess

_FIRST_KERNEL = (6, 14)  # before it, the one pid_max is the whole machine's
_RESERVED = 300  # numbers that the kernel gives out only once
_WRITE = 'echo "$0" > /proc/sys/kernel/pid_max'


def can_bound() -> bool:
    """Whether it is necessary and possible here."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    version = tuple(map(int, found.groups())) if found else (0, 0)
    needed = os.geteuid() == 0 and version >= _FIRST_KERNEL
    return needed and shutil.which("nsenter") is not None


def bound(pid: int, processes: int) -> None:
    """Let the pid namespace of `pid` hold that many, and a fixed number more.

    Does nothing where that is not possible, nor ever to the server's own namespace.
    """
    if not can_bound():
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        namespace = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not os.path.samestat(os.fstat(namespace), os.stat("/proc/self/ns/pid")):
                _write(namespace, _RESERVED + processes)
        finally:
            os.close(namespace)


def _write(namespace: int, most: int) -> None:
    subprocess.run(
        ["nsenter", f"--pid=/proc/self/fd/{namespace}", "sh", "-c", _WRITE, str(most)],
        pass_fds=(namespace,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=5,
    )
