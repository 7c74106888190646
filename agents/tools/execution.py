"""shell and execute_code: commands in the sandbox, stopped when somebody says so."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from pydantic import Field

from agents import sandbox
from agents.errors import ToolError
from agents.sandbox import Limits, Outcome, Rules, Sandbox, SandboxFailed
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult
from agents.tools.paths import Root, parse

_CODE_FOLDER = "/tmp/code"  # noqa: S108 - inside the sandbox, in its private memory
_MOST_REFUSALS = 5  # told to the model; meta has more
_LONGEST_COMMAND = 100_000  # bytes; the kernel takes 131,072 in one argument


class Shell(Arguments):
    also_called: ClassVar[dict[str, str]] = {
        "cmd": "command",
        "workdir": "cwd",
        "directory": "cwd",
    }

    command: str
    cwd: str = "."
    timeout: int = Field(120, ge=1, le=3600, description="seconds")


class ExecuteCode(Arguments):
    also_called: ClassVar[dict[str, str]] = {"source": "code"}

    code: str
    timeout: int = Field(60, ge=1, le=600, description="seconds")


def sandbox_of(ctx: ToolContext, *, network: bool = False) -> Sandbox:
    """The sandbox of a call: its files, its author, its stop switch."""
    return Sandbox(
        ctx.root,
        ctx.interrupt,
        read_only=ctx.read_only,
        progress=ctx.progress,
        limits=Limits.from_settings(),
        network=Rules.from_settings() if network and ctx.network else None,
        environment={
            "GIT_AUTHOR_NAME": _one_line(ctx.author_name),
            "GIT_AUTHOR_EMAIL": _one_line(ctx.author_email),
            "GIT_COMMITTER_NAME": _one_line(ctx.author_name),
            "GIT_COMMITTER_EMAIL": _one_line(ctx.author_email),
        },
    )


def _one_line(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())


def run_command(
    ctx: ToolContext,
    argv: list[str],
    *,
    timeout: float,
    cwd: str = "",
    stdin: bytes = b"",
    network: bool = False,
) -> Outcome:
    """Run in the sandbox; what hinders the start is told to the model.

    `network` is what the command is for; the workspace has to grant it too.
    """
    box = sandbox_of(ctx, network=network)
    try:
        return box.run(argv, timeout=timeout, cwd=cwd, stdin=stdin)
    except SandboxFailed as error:
        raise ToolError(str(error), code="sandbox_failed") from error


def shell(ctx: ToolContext, args: Shell) -> ToolResult:
    _check_text(args.command, "command")
    parts = parse(args.cwd)
    with Root(ctx.root).enter(parts):
        cwd = "/".join(parts)
    program = sandbox.find_program("bash") or "/bin/sh"
    argv = [program, "-c", args.command]
    outcome = run_command(ctx, argv, timeout=args.timeout, cwd=cwd, network=True)
    return as_result(ctx, outcome)


def _check_text(text: str, name: str) -> None:
    if not text.strip():
        raise ToolError(f"{name} is empty.", code="bad_input")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ToolError(
            f"{name} holds characters no program can take.", code="bad_input"
        )
    if name == "command" and len(text.encode()) > _LONGEST_COMMAND:
        raise ToolError(
            f"{name} is longer than {_LONGEST_COMMAND:,} bytes. Write a script with "
            f"write_file and run that.",
            code="too_large",
        )


def execute_code(ctx: ToolContext, args: ExecuteCode) -> ToolResult:
    """The program comes through standard input into a folder that ends with it."""
    _check_text(args.code, "code")
    folder = f"{_CODE_FOLDER}-{ctx.run_id.hex}" if sandbox.is_off() else _CODE_FOLDER
    script = (
        f'mkdir -p {folder} && cd {folder} && cat > program.py && "$0" -I program.py '
        f"< /dev/null; status=$?; rm -rf {folder}; exit $status"
    )
    argv = ["/bin/sh", "-c", script, sandbox.find_python()]
    outcome = run_command(
        ctx,
        argv,
        timeout=args.timeout,
        stdin=args.code.encode("utf-8"),
        network=True,
    )
    return as_result(ctx, outcome)


def as_result(ctx: ToolContext, outcome: Outcome) -> ToolResult:
    """What a model reads of a command: both streams, then how it ended."""
    meta: dict[str, Any] = {
        "exit": outcome.exit,
        "seconds": round(outcome.seconds, 3),
        "cut_short": outcome.cut_short,
        "dropped": outcome.dropped,
    }
    if outcome.asked:
        visits = [asdict(visit) for visit in outcome.visits]
        meta["network"] = {"asked": outcome.asked, "visits": visits}
    output = _output(ctx, outcome)
    if outcome.cut_short:
        code = {"stopped": "interrupted"}.get(outcome.cut_short, outcome.cut_short)
        return ToolResult.failed(code, outcome.reason, output, **meta)
    if outcome.exit:
        return ToolResult.failed(
            "exit", f"The command ended with exit code {outcome.exit}.", output, **meta
        )
    return ToolResult(True, output, meta=meta)


def _output(ctx: ToolContext, outcome: Outcome) -> str:
    parts = [outcome.stdout.decode("utf-8", "replace").rstrip("\n")]
    if errors := outcome.stderr.decode("utf-8", "replace").rstrip("\n"):
        parts += ["[stderr]", errors]
    if outcome.dropped:
        parts.append(f"[output limit reached: {outcome.dropped:,} more bytes dropped]")
    parts += _network(ctx, outcome)
    ending = outcome.cut_short or f"exit {outcome.exit}"
    return "\n".join([*(part for part in parts if part), f"[{ending}]"])


def _network(ctx: ToolContext, outcome: Outcome) -> list[str]:
    """Why the network is missing or said no: programs often hide the reason."""
    if ctx.network and (reason := sandbox.why_no_network()):
        return [f"[no network: {reason}]"]
    refused = dict.fromkeys(
        f"[network: {visit.host}:{visit.port} failed. {visit.refused}]"
        for visit in outcome.visits
        if visit.refused
    )
    return list(refused)[:_MOST_REFUSALS]


def _why_no_python() -> str:
    if reason := sandbox.available():
        return reason
    if not sandbox.find_python():
        return "the system has no Python of its own (/usr/bin/python3)"
    return ""


SHELL = Tool(
    name="shell",
    group="execution",
    description=(
        "Run a shell command in the workspace (/workspace; only its files persist; "
        "network off or by HTTP proxy). Prints stdout, [stderr], [exit N]. For builds, "
        "tests, git."
    ),
    tag="exec",
    arguments=Shell,
    run=shell,
    alone=True,
    scan=True,
    path_arguments=("cwd",),
    main_argument="command",
    hints=(
        "bash",
        "terminal",
        "run",
        "command",
        "build",
        "test",
        "명령",
        "실행",
        "터미널",
    ),
    aliases=("run_shell_command", "bash", "run_command", "terminal"),
    conditional=sandbox.available,
)
EXECUTE_CODE = Tool(
    name="execute_code",
    group="execution",
    description=(
        "Run a short Python program in a temporary folder that is deleted afterwards "
        "(files at /workspace). Print what you want to see."
    ),
    tag="exec",
    arguments=ExecuteCode,
    run=execute_code,
    alone=True,
    main_argument="code",
    hints=("python", "script", "calculate", "compute", "코드", "파이썬", "계산"),
    aliases=("run_code", "python"),
    conditional=_why_no_python,
)
TOOLS = (SHELL, EXECUTE_CODE)
