"""list_dir and glob: what is there, without version control and dependencies."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from agents.errors import ToolError
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult
from agents.tools.paths import IGNORED_FOLDERS, Root, parse

MOST_DEPTH = 40  # folders below the starting point
_MOST_VISITED = 200_000  # entries that one call looks at
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIMIT_NAMES = {"max_results": "limit", "head_limit": "limit", "dir_path": "path"}


class ListDir(Arguments):
    also_called: ClassVar[dict[str, str]] = {**_LIMIT_NAMES, "directory": "path"}

    path: str = "."
    limit: int = Field(500, ge=1, le=5000)


class Glob(Arguments):
    also_called: ClassVar[dict[str, str]] = {**_LIMIT_NAMES, "directory": "path"}

    pattern: str
    path: str = "."
    limit: int = Field(500, ge=1, le=5000)


@dataclass(slots=True)
class Walk:
    """The files below a folder, links not followed; remembers if it had to stop."""

    ctx: ToolContext
    start: tuple[str, ...]
    stopped: str = ""
    visited: int = 0

    def files(self) -> Iterator[tuple[str, ...]]:
        """Components relative to the start, folder by folder in order of name."""
        with Root(self.ctx.root).enter(self.start) as top:
            waiting: list[tuple[str, ...]] = [()]
            while waiting and not self.stopped:
                folder = waiting.pop()
                inner: list[tuple[str, ...]] = []
                for name, is_folder in self._entries(top, folder):
                    if not is_folder:
                        yield (*folder, name)
                    elif name not in IGNORED_FOLDERS:
                        inner.append((*folder, name))
                if inner and len(folder) >= MOST_DEPTH:
                    self.stopped = f"folders deeper than {MOST_DEPTH} levels left out"
                waiting.extend(reversed(inner))

    def _entries(self, top: int, folder: tuple[str, ...]) -> list[tuple[str, bool]]:
        """Names in a folder and whether they are folders; [] if it cannot be read."""
        self.ctx.interrupt.check()
        descriptor = os.dup(top)
        try:
            for part in folder:
                below = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            with os.scandir(descriptor) as entries:
                found = [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]
        except OSError:
            return []
        finally:
            os.close(descriptor)
        self.visited += len(found)
        if self.visited > _MOST_VISITED:
            self.stopped = f"stopped after {_MOST_VISITED:,} entries; give a path"
        return sorted(found)


def list_dir(ctx: ToolContext, args: ListDir) -> ToolResult:
    parts = parse(args.path)
    rows = []
    with Root(ctx.root).enter(parts) as folder:
        names = sorted(os.listdir(folder))
        for name in names[: args.limit]:
            rows.append(_row(folder, name))
    if len(names) > args.limit:
        rows.append(f"[{len(names) - args.limit} more; raise limit]")
    shown = "/".join(parts) or "."
    meta = {"path": shown, "matches": len(names), "truncated": len(names) > args.limit}
    return ToolResult(True, "\n".join(rows) or f"({shown} is empty)", meta=meta)


def _row(folder: int, name: str) -> str:
    """A name as the model sees it: folders end in /, links show their target."""
    shown = printable(name)
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return shown + "/"
        if stat.S_ISLNK(status.st_mode):
            return f"{shown} -> {printable(os.readlink(name, dir_fd=folder))}"
    except OSError:
        return shown
    return shown


def printable(name: str) -> str:
    """A file name on one line: control and undecodable characters are escaped."""
    if name.isprintable():
        return name
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in name
    )


def compile_glob(pattern: str) -> list[str | re.Pattern[str]]:
    """The pattern's segments: "**" or a regular expression for one name."""
    segments: list[str | re.Pattern[str]] = []
    for segment in parse(pattern):
        if segment == "**":
            if not segments or segments[-1] != "**":
                segments.append("**")
        else:
            segments.append(re.compile(_alternatives(segment)))
    return segments


def _alternatives(segment: str) -> str:
    """One name's expression; {a,b} stands for either, not nested."""
    pieces = re.split(r"\{([^{}]*,[^{}]*)\}", segment)
    choices = [""]
    for index, piece in enumerate(pieces):
        options = piece.split(",") if index % 2 else [piece]
        choices = [before + option for before in choices for option in options]
        if len(choices) > 100:
            raise ToolError(
                "The pattern has too many {alternatives}; use several calls.",
                code="bad_pattern",
            )
    return "|".join(fnmatch.translate(choice) for choice in choices)


def matches(segments: list[str | re.Pattern[str]], parts: tuple[str, ...]) -> bool:
    """Whether a path matches; time grows with the product of both lengths only."""
    reachable = {0}
    for part in parts:
        following: set[int] = set()
        for at in _closed(segments, reachable):
            if at == len(segments):
                continue
            segment = segments[at]
            if isinstance(segment, str):
                following.add(at)
            elif segment.match(part):
                following.add(at + 1)
        reachable = following
    return len(segments) in _closed(segments, reachable)


def _closed(segments: list[str | re.Pattern[str]], states: set[int]) -> set[int]:
    """The states, and those behind a "**" that stands for nothing."""
    return states | {
        at + 1 for at in states if at < len(segments) and segments[at] == "**"
    }


def glob(ctx: ToolContext, args: Glob) -> ToolResult:
    pattern = args.pattern if "/" in args.pattern else f"**/{args.pattern}"
    segments = compile_glob(pattern)
    if not parse(args.pattern):
        raise ToolError("pattern is empty; e.g. **/*.py", code="bad_pattern")
    start = parse(args.path)
    walk = Walk(ctx, start)
    found: list[str] = []
    more = False
    for parts in walk.files():
        if matches(segments, parts):
            if len(found) == args.limit:
                more = True
                break
            found.append(printable("/".join((*start, *parts))))
    lines = found or [f"no file matches {args.pattern!r}"]
    if more:
        lines.append(f"[stopped at {args.limit}; narrow the pattern or raise limit]")
    if walk.stopped:
        lines.append(f"[{walk.stopped}]")
    meta = {"matches": len(found), "truncated": more or bool(walk.stopped)}
    return ToolResult(True, "\n".join(lines), meta=meta)


LIST_DIR = Tool(
    name="list_dir",
    group="files",
    description="List the names in a folder; folders end with /.",
    tag="read",
    arguments=ListDir,
    run=list_dir,
    tier="deferred",
    idempotent=True,
    scan=True,
    path_arguments=("path",),
    main_argument="path",
    hints=("ls", "folder", "directory", "files", "목록", "폴더", "디렉터리"),
    aliases=("ls", "list_directory"),
)
GLOB = Tool(
    name="glob",
    group="files",
    description=(
        "Find files by name, e.g. src/**/*.py; a pattern without / matches at any "
        "depth. Skips .git, dependencies, build output."
    ),
    tag="read",
    arguments=Glob,
    run=glob,
    idempotent=True,
    scan=True,
    path_arguments=("path",),
    main_argument="pattern",
    hints=("find files", "search by name", "파일 찾기", "이름 검색"),
    aliases=("find_files", "glob_search", "file_search"),
)
TOOLS = (LIST_DIR, GLOB)
