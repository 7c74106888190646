"""What a server's tools are called here: `mcp__server__tool`.

A server's name has no `__` and does not end in `_`, so that a full name can be read in
one way only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

PREFIX = "mcp__"
LONGEST = 64  # characters: what model services take as a tool's name
LONGEST_SERVER = 30

_SERVER = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")


def is_server_name(name: str) -> bool:
    return len(name) <= LONGEST_SERVER and bool(_SERVER.fullmatch(name))


def server_of(full_name: str) -> str:
    """The server in a full name; "" for the name of another tool."""
    if not full_name.startswith(PREFIX):
        return ""
    return full_name.removeprefix(PREFIX).partition("__")[0]


def full_names(server: str, own_names: Iterable[str]) -> dict[str, str]:
    """The server's own names to full ones. In whatever order they come, the same.

    A name that had to be changed, and would be that of another tool then, ends in a
    hash of what it was; one that needs no change always keeps its place.
    """
    candidates = {own: _candidate(server, own) for own in sorted(set(own_names))}
    kept = {own: full for own, full in candidates.items() if full.endswith(f"__{own}")}
    taken = set(kept.values())
    changed = [own for own in candidates if own not in kept]
    wanted = [candidates[own] for own in changed]
    for own in changed:
        full = candidates[own]
        if full in taken or wanted.count(full) > 1 or len(full) > LONGEST:
            full = _with_hash(full, own, taken)
        taken.add(full)
        kept[own] = full
    return kept


def _candidate(server: str, own: str) -> str:
    full = f"{PREFIX}{server}__{_STRANGE.sub('_', own)}"
    return full if len(full) <= LONGEST else f"{full}_"  # so that it counts as changed


def _with_hash(full: str, own: str, taken: set[str]) -> str:
    digest = hashlib.sha256(own.encode("utf-8", "replace")).hexdigest()
    for length in range(6, len(digest)):
        name = f"{full[: LONGEST - length - 1]}_{digest[:length]}"
        if name not in taken:
            return name
    raise AssertionError("two names with one SHA-256")
