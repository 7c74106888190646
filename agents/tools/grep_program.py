"""A search through files, as a program of its own that knows nothing of the server.

It runs in the sandbox: a regular expression may take for ever, and a process can be
stopped where a thread cannot. Reads its task as JSON from standard input and writes
one JSON line per match, then one with the totals. Only the standard library.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

LONGEST_FILE = 20_000_000  # bytes; larger ones are named, not searched
LONGEST_LINE = 300  # characters shown of a line
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_below(top: int, parts: list[str], flags: int) -> int:
    """Open a path one component at a time, links not followed."""
    descriptor = os.dup(top)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        try:
            below = os.open(part, flags if last else _FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def walk(top: int, start: list[str], task: dict[str, Any]) -> Iterator[list[str]]:
    """Paths of files below the start, by name; folders to ignore are not entered."""
    ignored = set(task["ignored"])
    waiting = [start]
    while waiting:
        folder = waiting.pop()
        try:
            descriptor = open_below(top, folder, _FOLDER)
        except OSError:
            continue
        try:
            with os.scandir(descriptor) as entries:
                found = sorted(
                    (e.name, e.is_dir(follow_symlinks=False)) for e in entries
                )
        finally:
            os.close(descriptor)
        inner = []
        for name, is_folder in found:
            if not is_folder:
                yield [*folder, name]
            elif name not in ignored and len(folder) - len(start) < task["depth"]:
                inner.append([*folder, name])
        waiting.extend(reversed(inner))


def read(top: int, parts: list[str]) -> bytes | None:
    """A regular file's bytes; None if it is binary, too large or not readable."""
    try:
        descriptor = open_below(top, parts, _FILE)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LONGEST_FILE:
            return None
        data = file.read(LONGEST_FILE)
    return None if b"\0" in data[:8192] else data


def show(line: str, at: int) -> str:
    """A line as it is shown: cut around the match when it is long."""
    if len(line) <= LONGEST_LINE:
        return line
    begin = max(0, min(at - LONGEST_LINE // 3, len(line) - LONGEST_LINE))
    piece = line[begin : begin + LONGEST_LINE]
    return (
        ("…" if begin else "") + piece + ("…" if begin + len(piece) < len(line) else "")
    )


def search(task: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
    """Tell every match, in order of path and line, up to the task's limit."""
    expression = re.compile(
        task["pattern"], re.IGNORECASE if task["ignore_case"] else 0
    )
    names = re.compile(task["names"]) if task["names"] else None
    top = os.open(".", _FOLDER)
    start = list(task["start"])
    paths = [start] if task["is_file"] else walk(top, start, task)
    found = searched = 0
    for parts in paths:
        if names and not names.match(parts[-1]):
            continue
        data = read(top, parts)
        if data is None:
            continue
        searched += 1
        path = "/".join(parts)
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            match = expression.search(line.removesuffix("\r"))
            if match is None:
                continue
            if found == task["limit"]:
                tell({"found": found, "searched": searched, "more": True})
                return
            found += 1
            text = show(line.removesuffix("\r"), match.start())
            tell({"path": path, "line": number, "text": text})
    tell({"found": found, "searched": searched, "more": False})


def main() -> None:
    def tell(row: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(row) + "\n")

    search(json.loads(sys.stdin.read()), tell)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
