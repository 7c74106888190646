"""The options of `manage.py up`, which win over the environment.

Settings are read once, before Django looks at a command's options. So manage.py puts
those that are settings into the environment first; the children inherit them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Option:
    """An option that is a setting under another name."""

    flag: str
    variable: str
    metavar: str
    help: str
    choices: tuple[str, ...] | None = None
    prepare: Callable[[str], str] = str


def absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


SETTINGS = (
    Option("--var", "VAR_DIR", "DIR", "Where everything is kept.", prepare=absolute),
    Option(
        "--tool-deferral",
        "TOOL_DEFERRAL",
        "on|off",
        "Whether rarely used tools are only named until they are needed.",
        choices=("on", "off"),
    ),
    Option("--exclude-tools", "EXCLUDE_TOOLS", "a,b", "Tools that no agent gets."),
    Option(
        "--system-prompt",
        "SYSTEM_PROMPT_FILE",
        "FILE",
        "A file that replaces the agents' system prompt.",
        prepare=absolute,
    ),
)


def declare(parser: argparse.ArgumentParser) -> None:
    for option in SETTINGS:
        parser.add_argument(
            option.flag,
            dest=option.variable,
            metavar=option.metavar,
            help=option.help,
            choices=option.choices,
        )


def into_environment(arguments: Sequence[str]) -> None:
    """Set the variables of the given options; leaves all other options alone."""
    parser = argparse.ArgumentParser(
        "manage.py up", add_help=False, allow_abbrev=False, usage=argparse.SUPPRESS
    )
    declare(parser)
    given, _ = parser.parse_known_args(arguments)
    for option in SETTINGS:
        value = getattr(given, option.variable)
        if value is not None:
            os.environ[option.variable] = option.prepare(value)
