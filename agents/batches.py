"""Which calls of one message may run side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.models import ToolCall
from agents.surface.bridge import Bridge
from agents.tools.base import Arguments, Tool


@dataclass(frozen=True)
class Ready:
    """A call that passed every check and may run now.

    `tool` is the real one, also when the call came through the bridge; `direct` says
    that the model named a tool that its requests do not declare. `follows`: an identical
    call comes first. `unchecked`: the guard must look at it again before it runs.
    """

    call: ToolCall
    tool: Tool
    arguments: Arguments
    bridge: Bridge
    direct: bool = False
    follows: bool = False
    unchecked: bool = False


def batches(ready: Sequence[Ready]) -> Iterable[list[Ready]]:
    """Calls that may run together, in call order.

    Readers run together; a writer waits for what touches the same paths; a tool that
    must be alone is; a repeated call comes after the one it repeats.
    """
    batch: list[Ready] = []
    for one in ready:
        if any(conflict(one, other) for other in batch):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def conflict(one: Ready, other: Ready) -> bool:
    if one.tool.alone or other.tool.alone or one.follows:
        return True
    if not (one.tool.mutating or other.tool.mutating):
        return False
    mine, theirs = paths_of(one), paths_of(other)
    return not mine or not theirs or any(overlap(a, b) for a in mine for b in theirs)


def paths_of(one: Ready) -> list[str]:
    values = (getattr(one.arguments, name, "") for name in one.tool.path_arguments)
    return [
        f"{value}".removeprefix("/workspace").strip("/").removeprefix("./")
        for value in values
        if value is not None
    ]


def overlap(one: str, other: str) -> bool:
    """Whether one path lies in the other; "" and "." are the whole workspace."""
    a, b = (f"{path}/" if path not in ("", ".") else "" for path in (one, other))
    return a.startswith(b) or b.startswith(a)
