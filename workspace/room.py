"""How much the disk and a workspace's folder hold, and whether more may be stored."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from workspace.errors import TooMuch

MEGABYTE = 1_048_576


def free_space(folder: Path) -> int:
    """Bytes that this user may still write on the folder's disk."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def folder_size(
    folder: Path, give_up: Callable[[], bool] = lambda: False, limit: int = 1 << 62
) -> int:
    """Bytes on disk below a folder; stops early when told to or past `limit`.

    Entries that vanish or cannot be read count as nothing.
    """
    total = 0
    waiting = [os.fspath(folder)]
    while waiting and total <= limit and not give_up():
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += _entry_size(entry, waiting)
        except OSError:
            continue
    return total


def _entry_size(entry: os.DirEntry[str], waiting: list[str]) -> int:
    try:
        if entry.is_dir(follow_symlinks=False):
            waiting.append(entry.path)
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:
        return 0


def no_room(folder: Path, size: int, quota: int, floor: int) -> str:
    """Why `size` more bytes must not be stored below a folder; "" if they may."""
    free = free_space(folder)
    if free - size < floor:
        return low_disk(free, floor)
    # What the whole disk holds bounds what the folder can: most need no measuring.
    if used_space(folder) + size <= quota:
        return ""
    if folder_size(folder, limit=quota) + size > quota:
        return over_quota(quota)
    return ""


def used_space(folder: Path) -> int:
    """Bytes that all files of the folder's disk take together."""
    status = os.statvfs(folder)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def over_quota(quota: int) -> str:
    return _(
        "The workspace's files are over the quota of %(quota)s. Delete what is not "
        "needed, then try again."
    ) % {"quota": megabytes(quota)}


def low_disk(free: int, floor: int) -> str:
    return _(
        "The server's disk has only %(free)s left (%(floor)s are kept free). Ask the "
        "operator for space."
    ) % {"free": megabytes(free), "floor": megabytes(floor)}


def megabytes(count: int) -> str:
    """A size for a sentence, in megabytes of 1,048,576 bytes."""
    return f"{count / MEGABYTE:,.0f} MB"


def require(folder: Path, size: int) -> None:
    """Raise TooMuch if people may not store `size` more bytes below a folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sentence = no_room(
        folder,
        size,
        settings.WORKSPACE_QUOTA_MB * MEGABYTE,
        settings.FREE_SPACE_MB * MEGABYTE,
    )
    if sentence:
        raise TooMuch(sentence)
