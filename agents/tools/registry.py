"""Every built-in tool, by an explicit list; a name said twice is a start-up error."""

from __future__ import annotations

from collections.abc import Iterable

from agents.tools import (
    discovery,
    execution,
    files,
    git,
    images,
    listing,
    search,
    talking,
)
from agents.tools.base import Tool

#: In the order in which they are declared.
BUILTIN: tuple[Tool, ...] = (
    *files.TOOLS,
    *images.TOOLS,
    *listing.TOOLS,
    *search.TOOLS,
    *execution.TOOLS,
    *talking.TOOLS,
    *git.TOOLS,
    *discovery.TOOLS,
)


def index(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Names and aliases to tools; raises on any collision."""
    by_name: dict[str, Tool] = {}
    for tool in tools:
        for name in (tool.name, *tool.aliases):
            if name in by_name:
                raise RuntimeError(
                    f"Two tools claim the name {name!r}: {by_name[name].name!r} and "
                    f"{tool.name!r}. Rename one or drop the alias."
                )
            by_name[name] = tool
    return by_name


_BY_NAME = index(BUILTIN)


def resolve(name: str) -> Tool | None:
    """The tool with this exact name or alias."""
    return _BY_NAME.get(name)


def present() -> tuple[tuple[Tool, ...], dict[str, str]]:
    """The tools that can run on this machine, and why the others cannot, by name."""
    reasons = {tool.name: tool.conditional() for tool in BUILTIN}
    tools = tuple(tool for tool in BUILTIN if not reasons[tool.name])
    return tools, {name: reason for name, reason in reasons.items() if reason}
