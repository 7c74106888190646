"""git_status, git_diff, git_log, git_commit: git in the sandbox, nothing of its own run.

A repository's configuration is as untrusted as its files: hooks, file monitors, pagers,
external diffs and text conversions are off.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from agents import sandbox
from agents.errors import ToolError
from agents.sandbox import Outcome
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult
from agents.tools.execution import run_command
from agents.tools.paths import Root, parse

_TIMEOUT = 60.0  # seconds
_SAFE = [
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.pager=cat",
    "-c",
    "core.attributesFile=/dev/null",
    "-c",
    "core.quotePath=false",  # names in Korean stay readable
    "-c",
    "diff.external=",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "safe.directory=*",
    "-c",
    "color.ui=never",
    "-c",
    "gc.auto=0",
]
_PLAIN_DIFF = ["--no-ext-diff", "--no-textconv"]


class GitStatus(Arguments):
    path: str = Field(".", description="folder of the repository")


class GitDiff(Arguments):
    also_called: ClassVar[dict[str, str]] = {"cached": "staged", "file": "path"}

    path: str = Field(".", description="file or folder")
    staged: bool = False
    commit: str = Field("", description="compare with this commit or range a..b")


class GitLog(Arguments):
    also_called: ClassVar[dict[str, str]] = {
        "max_results": "limit",
        "max_count": "limit",
    }

    path: str = Field(".", description="file or folder")
    limit: int = Field(20, ge=1, le=500)
    commit: str = Field("", description="show this commit with its diff instead")


class GitCommit(Arguments):
    message: str
    paths: list[str] = Field(
        default_factory=list, description="what to add first; default: what is staged"
    )
    path: str = Field(".", description="folder of the repository")


def _git(ctx: ToolContext, folder: str, arguments: list[str]) -> Outcome:
    """Run git in a folder; raises `ToolError` with git's own words if it fails."""
    program = sandbox.find_program("git")
    outcome = run_command(
        ctx, [program, *_SAFE, *arguments], timeout=_TIMEOUT, cwd=folder
    )
    if outcome.cut_short or outcome.exit:
        said = outcome.stderr or outcome.stdout
        words = said.decode(errors="replace").strip() or outcome.reason
        raise ToolError(f"git: {words}", code=outcome.cut_short or "git_failed")
    return outcome


def _place(ctx: ToolContext, path: str) -> tuple[str, str]:
    """The folder to run git in and the path in it: a file is named from its folder."""
    parts = parse(path)
    if Root(ctx.root).stat(path) is None or not _is_folder(ctx, parts):
        return "/".join(parts[:-1]), parts[-1] if parts else "."
    return "/".join(parts), "."


def _is_folder(ctx: ToolContext, parts: tuple[str, ...]) -> bool:
    try:
        with Root(ctx.root).enter(parts):
            return True
    except ToolError:
        return False


def _folder(ctx: ToolContext, path: str) -> str:
    parts = parse(path)
    with Root(ctx.root).enter(parts):
        return "/".join(parts)


def _revision(name: str) -> str:
    """A commit or range that git cannot take for an option."""
    if name.startswith("-") or any(char.isspace() or char == "\0" for char in name):
        raise ToolError(
            f"{name!r} is not a commit. Give a hash, a branch or a range a..b.",
            code="bad_input",
        )
    return name


def _text(outcome: Outcome, nothing: str) -> ToolResult:
    output = outcome.stdout.decode("utf-8", "replace").rstrip("\n")
    return ToolResult(True, output or nothing)


def git_status(ctx: ToolContext, args: GitStatus) -> ToolResult:
    folder = _folder(ctx, args.path)
    outcome = _git(ctx, folder, ["status", "--short", "--branch", "--", "."])
    return _text(outcome, "nothing to commit, working tree clean")


def git_diff(ctx: ToolContext, args: GitDiff) -> ToolResult:
    folder, path = _place(ctx, args.path)
    line = ["diff", *_PLAIN_DIFF]
    if args.staged:
        line.append("--cached")
    if args.commit:
        line.append(_revision(args.commit))
    return _text(_git(ctx, folder, [*line, "--", path]), "no differences")


def git_log(ctx: ToolContext, args: GitLog) -> ToolResult:
    folder, path = _place(ctx, args.path)
    if args.commit:
        line = ["show", *_PLAIN_DIFF, "--stat", "--patch", _revision(args.commit)]
    else:
        form = "--format=%h %ad %an: %s"
        line = ["log", f"--max-count={args.limit}", "--date=short", form]
    return _text(_git(ctx, folder, [*line, "--", path]), "no commits")


def git_commit(ctx: ToolContext, args: GitCommit) -> ToolResult:
    if ctx.read_only:
        raise ToolError(
            "Files are read-only at this approval level; nothing was committed.",
            code="read_only",
        )
    if not args.message.strip() or "\0" in args.message:
        raise ToolError("message is empty or holds a NUL.", code="bad_input")
    folder = _folder(ctx, args.path)
    prefix = f"{folder}/" if folder else ""
    if args.paths:
        paths = ["/".join(parse(prefix + path)) for path in args.paths]
        names = [path.removeprefix(prefix) or "." for path in paths]
        _git(ctx, folder, ["add", "--all", "--", *names])
    line = ["commit", "--no-verify", "--quiet", "--cleanup=strip", "-m", args.message]
    _git(ctx, folder, line)
    made = _git(ctx, folder, ["log", "-1", "--format=%H%n%h %s", "--shortstat"])
    commit, _, summary = made.stdout.decode("utf-8", "replace").partition("\n")
    return ToolResult(True, f"committed {summary.strip()}", meta={"commit": commit})


def _why_no_git() -> str:
    if reason := sandbox.available():
        return reason
    return "" if sandbox.find_program("git") else "git is not installed"


_HINTS = ("version control", "repository", "깃", "저장소")
GIT_STATUS = Tool(
    name="git_status",
    group="git",
    description="Show branch, staged, changed and untracked files of a git repository.",
    tag="read",
    arguments=GitStatus,
    run=git_status,
    tier="deferred",
    idempotent=True,
    path_arguments=("path",),
    main_argument="path",
    hints=(*_HINTS, "changes", "working tree", "상태", "변경"),
    conditional=_why_no_git,
)
GIT_DIFF = Tool(
    name="git_diff",
    group="git",
    description="Show changes as a unified diff: unstaged, staged, or against a commit.",
    tag="read",
    arguments=GitDiff,
    run=git_diff,
    tier="deferred",
    idempotent=True,
    path_arguments=("path",),
    main_argument="path",
    hints=(*_HINTS, "compare", "review", "차이", "비교"),
    conditional=_why_no_git,
)
GIT_LOG = Tool(
    name="git_log",
    group="git",
    description="List the latest commits of a repository or path, or show one commit.",
    tag="read",
    arguments=GitLog,
    run=git_log,
    tier="deferred",
    idempotent=True,
    path_arguments=("path",),
    main_argument="path",
    hints=(*_HINTS, "history", "show", "이력", "기록"),
    conditional=_why_no_git,
)
GIT_COMMIT = Tool(
    name="git_commit",
    group="git",
    description=(
        "Commit in the name of the person who asked; adds `paths` first. Hooks are not "
        "run."
    ),
    tag="write",
    arguments=GitCommit,
    run=git_commit,
    tier="deferred",
    path_arguments=("path",),
    main_argument="message",
    hints=(*_HINTS, "save changes", "check in", "커밋"),
    conditional=_why_no_git,
)
TOOLS = (GIT_STATUS, GIT_DIFF, GIT_LOG, GIT_COMMIT)
