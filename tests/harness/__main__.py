"""Runs the suite the ways it must pass, and commands beside a real PostgreSQL.

python -m tests.harness suites            SQLite, PostgreSQL, then the browser
python -m tests.harness run -- COMMAND    with DATABASE_URL and REDIS_URL set
python -m tests.harness templates         whether the templates are formatted
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.harness.postgres import EmbeddedPostgres
from tests.harness.valkey import EmbeddedValkey

PYTEST = [sys.executable, "-m", "pytest", "-q"]
#: Each part of the suite: its name, what pytest is told, whether on PostgreSQL.
PARTS = (
    ("SQLite", ["-m", "not browser"], False),
    ("PostgreSQL and Valkey", ["-m", "not browser and not kill"], True),
    ("Browser", ["-m", "browser"], False),
)
COUNT = re.compile(r"(\d+) (passed|failed|errors?)\b")
#: pytest's exit codes for "all passed" and "no test was selected".
PASSED, NOTHING = 0, 5


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """PostgreSQL and Valkey; yields the environment that leads to them."""
    folder = Path(tempfile.mkdtemp(prefix="tallyroom-valkey-"))
    postgres, valkey = EmbeddedPostgres(), EmbeddedValkey(folder)
    try:
        postgres.start()
        valkey.start()
        yield {**os.environ, "DATABASE_URL": postgres.url, "REDIS_URL": valkey.url}
    finally:
        valkey.stop()
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def suites(extra: list[str]) -> int:
    """Every part, one after another; ends with one plain line."""
    passed = failed = 0
    for name, selection, on_postgres in PARTS:
        print(f"== {name}", flush=True)  # noqa: T201 - this is a command
        code, output = part([*PYTEST, *selection, *extra], on_postgres=on_postgres)
        counts = counted(output)
        passed += counts.get("passed", 0)
        broken = counts.get("failed", 0) + counts.get("error", 0)
        # A crash of pytest itself has no count, but is a failure.
        failed += broken or (code not in {PASSED, NOTHING})
    print(f"{passed} passed, {failed} failed", flush=True)  # noqa: T201
    return 1 if failed or not passed else 0


def part(command: list[str], *, on_postgres: bool) -> tuple[int, str]:
    if not on_postgres:
        clean = {
            name: value
            for name, value in os.environ.items()
            if name not in {"DATABASE_URL", "REDIS_URL"}
        }
        return shown(command, clean)
    with servers() as environment:
        return shown(command, environment)


def shown(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run it, showing its output as it comes; returns exit code and output."""
    lines = []
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None, "it is piped"
        for line in process.stdout:
            print(line, end="", flush=True)  # noqa: T201
            lines.append(line)
    return process.returncode, "".join(lines)


def counted(output: str) -> dict[str, int]:
    """What pytest's last line says, with `errors` under `error`."""
    last = output.strip().rsplit("\n", 1)[-1]
    return {
        name.removesuffix("s") if name.startswith("error") else name: int(count)
        for count, name in COUNT.findall(last)
    }


def run(command: list[str]) -> int:
    with servers() as environment:
        return subprocess.run(command, env=environment, check=False).returncode


def templates() -> int:
    """Format copies of the templates; names those that would change."""
    listed = subprocess.run(
        ["git", "ls-files", "templates/*.html"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        copies = {name: Path(folder) / name for name in listed}
        for name, copy in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(name, copy)
        djade = Path(sys.executable).with_name("djade")
        files = [str(copy) for copy in copies.values()]
        if files:
            subprocess.run(
                [djade, "--target-version", "5.2", *files],
                check=False,
                capture_output=True,
            )
        changed = [
            name
            for name, copy in copies.items()
            if copy.read_bytes() != Path(name).read_bytes()
        ]
    for name in changed:
        print(f"{name} would change; run `make format`.")  # noqa: T201
    return 1 if changed else 0


def interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # so that the servers are stopped


def main() -> int:
    signal.signal(signal.SIGTERM, interrupted)
    match sys.argv[1:]:
        case ["suites", *extra]:
            return suites(extra)
        case ["run", "--", *command] if command:
            return run(command)
        case ["templates"]:
            return templates()
    print(__doc__)  # noqa: T201
    return 2


if __name__ == "__main__":
    sys.exit(main())
