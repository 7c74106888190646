"""grep: what is in the files, searched by a program that can be stopped."""

from __future__ import annotations

import json
import re
import stat
import sys
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from agents import sandbox
from agents.errors import ToolError
from agents.sandbox import Limits, Outcome, Sandbox
from agents.tools import grep_program
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult
from agents.tools.listing import MOST_DEPTH, compile_glob, printable
from agents.tools.paths import IGNORED_FOLDERS, NotThere, Root, parse

_TIMEOUT = 30.0  # seconds
_LIMITS = Limits(memory=512 << 20, processes=8)
_PROGRAM = Path(grep_program.__file__).read_text(encoding="utf-8")


class Grep(Arguments):
    also_called: ClassVar[dict[str, str]] = {
        "max_results": "limit",
        "head_limit": "limit",
        "include": "glob",
        "regex": "pattern",
        "query": "pattern",
        "ignoreCase": "ignore_case",
        "case_insensitive": "ignore_case",
    }

    pattern: str = Field(description="regular expression")
    path: str = "."
    glob: str = Field("", description="file names, e.g. *.py")
    ignore_case: bool = False
    limit: int = Field(200, ge=1, le=2000)


def grep(ctx: ToolContext, args: Grep) -> ToolResult:
    task = _task(ctx, args)
    outcome = _run(ctx, json.dumps(task).encode())
    if outcome.cut_short == "timeout":
        raise ToolError(
            f"The search took over {_TIMEOUT:g} s. Give a path or glob, or a simpler "
            f"pattern.",
            code="timeout",
        )
    if outcome.cut_short:
        return ToolResult.failed(outcome.cut_short, outcome.reason)
    rows = [json.loads(line) for line in outcome.stdout.splitlines()]
    if not rows or "found" not in rows[-1]:
        said = outcome.stderr.decode(errors="replace").strip().splitlines()
        raise ToolError(
            f"The search failed: {said[-1] if said else 'no reason given'}.",
            code="search_failed",
        )
    return _result(args, rows[:-1], rows[-1])


def _task(ctx: ToolContext, args: Grep) -> dict[str, Any]:
    """What the program is told; raises `ToolError` for what cannot work."""
    if not args.pattern:
        raise ToolError("pattern is empty.", code="bad_pattern")
    try:
        re.compile(args.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(
            f"pattern is not a regular expression: {error}. Escape ( ) [ ] {{ }} . * + ? "
            f"with \\ to search for them.",
            code="bad_pattern",
        ) from error
    parts = parse(args.path)
    status = Root(ctx.root).stat(args.path)
    if status is None:
        raise NotThere(args.path)
    return {
        "pattern": args.pattern,
        "ignore_case": args.ignore_case,
        "names": _names(args.glob),
        "start": parts,
        "is_file": not stat.S_ISDIR(status.st_mode),
        "ignored": sorted(IGNORED_FOLDERS),
        "depth": MOST_DEPTH,
        "limit": args.limit,
    }


def _names(glob: str) -> str:
    """The expression for file names; a glob's folders belong into `path`."""
    segments = [s for s in compile_glob(glob) if not isinstance(s, str)]
    if len(segments) > 1:
        raise ToolError(
            f"glob {glob!r} names folders; put them into path and give a file name.",
            code="bad_pattern",
        )
    return segments[0].pattern if segments else ""


def _run(ctx: ToolContext, task: bytes) -> Outcome:
    """Confined where possible; elsewhere a process of its own all the same."""
    python = sandbox.find_python()
    confined = not sandbox.available() and bool(python)
    box = Sandbox(
        ctx.root,
        ctx.interrupt,
        read_only=True,
        limits=_LIMITS,
        unconfined=not confined,
    )
    program = python if confined else sys.executable
    argv = [program, "-I", "-S", "-X", "utf8", "-c", _PROGRAM]
    return box.run(argv, timeout=_TIMEOUT, stdin=task)


def _result(
    args: Grep, rows: list[dict[str, Any]], totals: dict[str, Any]
) -> ToolResult:
    """Matches by file: its path once, then its lines."""
    lines: list[str] = []
    path = None
    for row in rows:
        if row["path"] != path:
            path = row["path"]
            lines.append(printable(path))
        lines.append(f"{row['line']}\t{row['text']}")
    if not rows:
        lines.append(f"no match in {totals['searched']:,} files")
    if totals["more"]:
        lines.append(f"[stopped at {args.limit}; narrow the search or raise limit]")
    meta = {"matches": totals["found"], "truncated": totals["more"]}
    return ToolResult(True, "\n".join(lines), meta=meta)


GREP = Tool(
    name="grep",
    group="files",
    description=(
        "Search file contents; prints each path, then its lines as number, tab, text. "
        "Skips .git, dependencies, build output, binaries."
    ),
    tag="read",
    arguments=Grep,
    run=grep,
    idempotent=True,
    scan=True,
    path_arguments=("path",),
    main_argument="pattern",
    hints=("search text", "find in files", "rg", "검색", "찾기", "내용 검색"),
    aliases=("grep_search", "search_files", "search_file_content", "ripgrep"),
)
TOOLS = (GREP,)
