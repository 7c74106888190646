"""The index of deferred tools: what a model is told of tools that are not declared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from agents.tools.base import Tool

ADVICE = (
    "These run when called by name, or through tool_call after tool_search has shown "
    "their schema. Say that a capability is missing only after a search found nothing."
)
LONGEST_LINE = 160  # characters of a description's first line


def group_of(tool: Tool) -> str:
    """`git` for a built-in, `mcp:github` for a server's tool."""
    return tool.group if tool.source == "builtin" else tool.source


def index_text(tools: Sequence[Tool], budget: int, count: Callable[[str], int]) -> str:
    """The index in at most about `budget` tokens; "" when nothing is deferred.

    The line of groups always stands. While the budget lasts come the names of each
    group, then the first lines of the descriptions.
    """
    if not tools:
        return ""
    groups = _grouped(tools)
    head = ", ".join(f"{group} ({len(members)})" for group, members in groups.items())
    text = f"Deferred (load with tool_search): {head}\n{ADVICE}"
    names = [
        f"{group}: {', '.join(tool.name for tool in members)}"
        for group, members in groups.items()
    ]
    text = _while_it_fits(text, names, budget, count)
    described = [
        f"- {tool.name}: {_first_line(tool.description)}"
        for members in groups.values()
        for tool in members
    ]
    full = "\n".join((text, *described))
    return full if count(full) <= budget else text


def _grouped(tools: Iterable[Tool]) -> dict[str, list[Tool]]:
    groups: dict[str, list[Tool]] = {}
    for tool in sorted(tools, key=lambda one: (group_of(one), one.name)):
        groups.setdefault(group_of(tool), []).append(tool)
    return groups


def _while_it_fits(
    text: str, lines: Iterable[str], budget: int, count: Callable[[str], int]
) -> str:
    for line in lines:
        longer = f"{text}\n{line}"
        if count(longer) > budget:
            return text
        text = longer
    return text


def _first_line(description: str) -> str:
    """Quoted, because the text may come from a server that nobody vouches for."""
    line = description.strip().partition("\n")[0][:LONGEST_LINE]
    return json.dumps(line, ensure_ascii=False).replace("<", "\\u003c")
