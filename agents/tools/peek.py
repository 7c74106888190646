"""The state of a file before a tool runs: for checks that cost no call."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from agents.errors import ToolError
from agents.interrupts import Interrupt
from agents.tools.paths import Root

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileNow:
    """A file as it is on disk now: its resolved path and the hash of all of it."""

    path: str
    sha256: str


def peek(root: Path, path: str, interrupt: Interrupt) -> FileNow | None:
    """The resolved path and hash of a file; None for what cannot be read as one.

    The reason is then the tool's to tell.
    """
    digest = hashlib.sha256()
    try:
        with Root(root).open(path) as opened:
            while data := os.read(opened.descriptor, _CHUNK):
                interrupt.check()
                digest.update(data)
            return FileNow(opened.path, digest.hexdigest())
    except (ToolError, OSError):
        return None
