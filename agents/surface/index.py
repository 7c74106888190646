"""The index of deferred tools: what a model is told of tools that are not declared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from agents.tools.base import Tool

ADVICE = (
    "These run when called by name, or through tool_call after tool_search has shown "
    "their schema. Say that a capability is missing only after a search found nothing."
)
LONGEST_LINE = 160  # characters of a description's first line


def group_of(tool: Tool) -> str:
    """`git` for a built-in, `mcp:github` for a server's tool."""
    return tool.group if tool.source == "builtin" else tool.source


def index_text(
    tools: Sequence[Tool],
    budget: int,
    count: Callable[[str], int],
    instructions: Mapping[str, str] | None = None,
) -> str:
    """The index in at most about `budget` tokens; "" when nothing is deferred.

    The line of groups always stands. While the budget lasts come the names of each
    group, the first lines of what servers say of themselves (`instructions` by group),
    then the first lines of the descriptions.
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
    said = [
        f"{group} says: {first_line(words)}"
        for group, words in sorted((instructions or {}).items())
        if group in groups and words.strip()
    ]
    text = _while_it_fits(text, (*names, *said), budget, count)
    described = [
        f"- {tool.name}: {first_line(tool.description)}"
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
    """The text and every line that still fits; a long one does not keep others out."""
    for line in lines:
        longer = f"{text}\n{line}"
        if count(longer) <= budget:
            text = longer
    return text


def is_one_line(text: str) -> bool:
    """Whether the first line, as the index shows it, is all there is."""
    return len(text.strip()) <= LONGEST_LINE and "\n" not in text.strip()


def first_line(text: str) -> str:
    """Quoted, because the text may come from a server that nobody vouches for."""
    return quoted(text.strip().partition("\n")[0][:LONGEST_LINE])


def quoted(text: str) -> str:
    """Somebody else's words as one line that closes no wrapper."""
    line = json.dumps(text, ensure_ascii=False)
    return line.replace("<", "\\u003c").replace(">", "\\u003e")
