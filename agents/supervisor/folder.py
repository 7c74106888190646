"""The folder var/: made, kept private, locked, and given its keys."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from cryptography.fernet import Fernet

from workspace import signing
from workspace.errors import TranscriptError


class CannotStart(Exception):
    """Why an installation does not start, and what to do: one sentence."""


def prepare(var: Path) -> int:
    """Make the folder and lock it; returns the descriptor that holds the lock."""
    try:
        var.mkdir(mode=0o700, parents=True, exist_ok=True)
        if var.stat().st_mode & 0o077:
            var.chmod(0o700)
        descriptor = os.open(var / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
        lock(descriptor, var)
        write_keys(var)
    except (OSError, TranscriptError) as error:
        raise CannotStart(
            f"The folder {str(var)!r} cannot be used: {getattr(error, 'strerror', None) or error}. "
            "Choose one that you may write to with --var DIR."
        ) from None
    return descriptor


def lock(descriptor: int, var: Path) -> None:
    """Hold the folder until this process ends, however it ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 20).decode().strip() or "unknown"
        raise CannotStart(
            f"Another `manage.py up` (process {owner}) runs on {str(var)!r}. Stop it "
            "first, or give this one a folder of its own with --var DIR."
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def write_keys(var: Path) -> None:
    """The keys that are missing, each readable by this user alone."""
    write_once(var / "secret_key", lambda: secrets.token_urlsafe(50).encode())
    write_once(var / "fernet.key", Fernet.generate_key)
    signing.public_key()


def write_once(path: Path, make: Callable[[], bytes]) -> None:
    if path.exists():
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(make() + b"\n")
