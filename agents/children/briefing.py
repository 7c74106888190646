"""What a child is told first: its task, what was given along, and its rounds."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path

from agents.children import budget
from agents.context.rules import cut, escaped
from agents.context.startup import ROLE
from agents.errors import ToolError
from agents.models import Agent
from agents.providers.wire import clean
from agents.tools.paths import Root

#: Characters of one file that is given along; of a longer one the middle is left out.
LONGEST_FILE = 20_000
#: Bytes that are read of it at most: UTF-8 has up to four a character.
MOST_BYTES = 4 * 5 * LONGEST_FILE


def brief(task: str, given: Sequence[str], rounds: int, agent: Agent | None) -> str:
    """The first message. With an `agent`, its role and persona are not said elsewhere."""
    told = (ROLE, agent.persona.strip()) if agent else ()
    return clean("\n\n".join(filter(None, (*told, task, *given, budget.line(rounds)))))


def files(root: Path, paths: Sequence[str]) -> list[str]:
    """The files that a task names, each in a wrapper that it cannot close.

    Raises ToolError for one that cannot be read.
    """
    return [_file(root, path) for path in dict.fromkeys(paths)]


def _file(root: Path, path: str) -> str:
    with Root(root).open(path) as opened:
        data = os.read(opened.descriptor, MOST_BYTES)
        size, name = opened.status.st_size, opened.path
    if b"\0" in data:
        raise ToolError(
            f"context.files: {name!r} is a binary file. Name it in the task instead.",
            code="binary",
        )
    text = data.decode("utf-8", "replace")
    if size > len(data):
        text += f"\n…[{size - len(data)} more bytes; read {name} for the rest]"
    shown = cut(escaped(text), LONGEST_FILE, name)
    return f'<context file="{html.escape(name, quote=True)}">\n{shown}\n</context>'
