"""What a tree of processes and a folder use right now, read from /proc and the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from workspace import room

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SLACK = 1 << 20  # what a command that frees space may need on the way


@dataclass(frozen=True, slots=True)
class Usage:
    """`memory` is resident bytes; pages that processes share count for each of them."""

    processes: int
    memory: int


def _read_stat(pid: str) -> tuple[int, int] | None:
    """Parent pid and resident bytes; None if the process is gone."""
    try:
        text = Path("/proc", pid, "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), int(fields[21]) * _PAGE


def tree(root: int) -> dict[int, int]:
    """Resident bytes of `root` and all its descendants, by pid."""
    children: dict[int, list[int]] = {}
    memory: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _read_stat(name)) is not None:
            children.setdefault(stat[0], []).append(int(name))
            memory[int(name)] = stat[1]
    found: dict[int, int] = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid in memory and pid not in found:
            found[pid] = memory[pid]
            waiting.extend(children.get(pid, ()))
    return found


def usage(root: int) -> Usage:
    """What `root` and all its descendants use."""
    found = tree(root)
    return Usage(len(found), sum(found.values()))


def tasks_on_machine() -> int:
    """All processes and threads there are: one cheap read, whatever their number."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


@dataclass(slots=True)
class DiskWatch:
    """Says when a folder outgrows its quota or its disk runs low.

    The disk's free space is cheap to ask and bounds what a command can have written;
    the folder itself is measured only when that bound comes near the quota.
    """

    folder: Path
    quota: int
    floor: int
    give_up: Callable[[], bool] = lambda: False
    _size: int = field(default=0, init=False)
    _at_start: int = field(default=0, init=False)
    _free: int = field(default=0, init=False)
    _measured_at: float = field(default=0.0, init=False)
    _pause: float = field(default=0.0, init=False)

    def start(self) -> str:
        """Measure; a sentence if the command should not even begin.

        A folder over its quota may still run commands: deleting needs one.
        """
        self._measure()
        self._at_start = self._size
        return self._low_disk(room.free_space(self.folder))

    def complaint(self) -> str:
        """What is wrong by now, as a sentence; "" if nothing is."""
        free = room.free_space(self.folder)
        if low := self._low_disk(free):
            return low
        may_have_written = self._free - free
        if self._size + may_have_written > self.quota or self._stale():
            self._measure()
        if self._size > self.quota and self._size > self._at_start + _SLACK:
            return room.over_quota(self.quota)
        return ""

    def _low_disk(self, free: int) -> str:
        return "" if free >= self.floor else room.low_disk(free, self.floor)

    def _stale(self) -> bool:
        """Somebody else may free as much as the command writes: look now and then."""
        return time.monotonic() - self._measured_at > max(10.0, self._pause)

    def _measure(self) -> None:
        started = time.monotonic()
        if self._measured_at and started - self._measured_at < self._pause:
            return
        self._free = room.free_space(self.folder)
        self._size = room.folder_size(self.folder, self.give_up, 2 * self.quota)
        self._measured_at = time.monotonic()
        self._pause = max(0.5, 10 * (self._measured_at - started))
