"""Names for static files that change with their content, without a build step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import django


def static_digest(folders: Iterable[Path]) -> str:
    """One short digest over every file, so that every replica finds the same one."""
    digest = hashlib.sha256(django.__version__.encode())
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                digest.update(str(path.relative_to(folder)).encode() + b"\0")
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]
