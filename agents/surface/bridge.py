"""Finding and calling deferred tools while the declared list stays as it is.

Everything here is a function of values: the surface, the tools behind it, and which
schemas the conversation has been shown. Nothing runs and nothing is stored here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.errors import ToolError
from agents.surface.grammar import Found, find
from agents.surface.index import group_of, quoted
from agents.surface.policy import DISCOVERY, Surface
from agents.tools.base import Tool, ToolResult
from agents.tools.registry import resolve

if TYPE_CHECKING:
    from agents.surface.search.index import Hit, Index

NOTHING_FOUND = (
    "No tools found matching '{}'. Try other words or raise max_results; after a second "
    "empty search it is honest to say that there is no such tool."
)


def schema_digest(tool: Tool) -> str:
    """What a review is bound to: name and arguments; prose may change."""
    return tool.digest


def digest_of(text: str) -> str:
    """What says that instructions are those that were shown."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Bridge:
    """What one conversation can find: its declared and its hidden tools.

    `index` gives the search index of the hidden ones; it is made when first asked for.
    `unsaid` are instructions of servers, by group, that go out with their first tool.
    """

    surface: Surface
    declared: frozenset[str]
    tools: Mapping[str, Tool]
    index: Callable[[], Index]
    unsaid: Mapping[str, str] = field(default_factory=dict)

    @property
    def hidden(self) -> dict[str, Tool]:
        """Deferred tools that this conversation's requests do not declare."""
        return {
            name: self.tools[name]
            for name in sorted((*self.surface.deferred, *self.surface.resident))
            if name not in self.declared and name not in DISCOVERY
        }

    def search(self, query: str, max_results: int) -> ToolResult:
        """The `tool_search` tool: schemas of what fits, recorded in `meta`."""
        found = find(
            query,
            self.index(),
            max_results=max_results,
            declared=self.declared,
        )
        notes = list(_notes(found))
        if found.hits:
            return self._shown(query, found.hits, notes)
        if found.unknown or found.ambiguous:
            return ToolResult.failed("not_found", "\n".join(notes))
        return ToolResult(
            True,
            "\n".join(notes) or NOTHING_FOUND.format(query),
            meta={"query": query, "hits": [], "loaded": {}},
        )

    def _shown(
        self, query: str, hits: Sequence[Hit], notes: Sequence[str]
    ) -> ToolResult:
        """Full schemas in a wrapper that no description can close."""
        tools = [self.tools[hit.name] for hit in hits]
        said = self.introductions(tools)
        text = "\n\n".join((schemas(tools), *said, *notes))
        return ToolResult(
            True,
            text,
            meta={
                "query": query,
                "hits": [[hit.name, round(hit.score, 4)] for hit in hits],
                "loaded": {tool.name: schema_digest(tool) for tool in tools},
                **self.introduced(tools),
            },
        )

    def introductions(self, tools: Sequence[Tool]) -> list[str]:
        """What the servers of these tools say of themselves, if it was not said yet."""
        return [
            f"Instructions of the server {group}, its own words: {quoted(text)}"
            for group, text in self._unsaid_of(tools)
        ]

    def introduced(self, tools: Sequence[Tool]) -> dict[str, dict[str, str]]:
        """The same for a result's meta: by group, what was said."""
        said = {group: digest_of(text) for group, text in self._unsaid_of(tools)}
        return {"instructions": said} if said else {}

    def _unsaid_of(self, tools: Sequence[Tool]) -> list[tuple[str, str]]:
        groups = {group_of(tool) for tool in tools} & {*self.unsaid}
        return [(group, self.unsaid[group]) for group in sorted(groups)]

    def unavailable(self, names: Sequence[str]) -> list[str]:
        """Those of the named tools that cannot be called here; unknown names are not."""
        closed = {*self.surface.denied, *self.surface.absent}
        known = ((name, resolve(name) or resolve(name.lower())) for name in names)
        return [name for name, tool in known if tool and tool.name in closed]

    def listing(self) -> ToolResult:
        """The `list_my_tools` tool: everything, by what becomes of it."""
        restricted = [
            f"{name}: {self.surface.reasons[name]}"
            for name in (*self.surface.denied, *self.surface.withheld)
        ]
        parts = [
            f"Declared: {', '.join(sorted(self.declared))}",
            f"On demand: {', '.join(self.hidden) or 'none'}",
            "Not available:\n" + "\n".join(restricted) if restricted else "",
        ]
        return ToolResult(True, "\n".join(part for part in parts if part))

    def unwrap(self, arguments: str, reviewed: Mapping[str, str]) -> tuple[Tool, str]:
        """The real tool and arguments of a `tool_call`; ToolError refuses it.

        `reviewed` maps names to the schema digests that this conversation was shown and
        that are still in its view. The order of checks is qwen-code's (reference §6.2).
        """
        name, inner = envelope(arguments)
        tool = self._target(name)
        if tool.name in DISCOVERY:
            raise refused(f"{tool.name} cannot be called through itself.")
        if reason := self._restriction(tool.name):
            raise refused(f"{tool.name} is not available: {reason}.", code="denied")
        if tool.name in self.declared:
            raise refused(f"{tool.name} is declared: call it directly.")
        if reviewed.get(tool.name) != schema_digest(tool):
            why = "has changed since" if tool.name in reviewed else "was not shown yet"
            raise refused(
                f"The schema of {tool.name} {why}. Call tool_search with "
                f"select:{tool.name} first."
            )
        return tool, inner

    def _target(self, name: str) -> Tool:
        if name in self.tools:
            return self.tools[name]
        same = [one for one in self.tools if one.lower() == name.lower()]
        if len(same) == 1:
            return self.tools[same[0]]
        if same:
            raise refused(f"{name!r} could be {', '.join(same)}. Use the exact name.")
        raise refused(
            f"There is no tool named {name!r}. Find it with tool_search first.",
            code="unknown_tool",
        )

    def _restriction(self, name: str) -> str:
        restricted = (
            *self.surface.denied,
            *self.surface.withheld,
            *self.surface.absent,
        )
        return self.surface.reasons[name] if name in restricted else ""


def refused(message: str, code: str = "bridge_refused") -> ToolError:
    return ToolError(f"[tool_call bridge refused] {message}", code=code)


def envelope(arguments: str) -> tuple[str, str]:
    """The name and arguments inside a `tool_call`. Raises ToolError if it has none."""
    try:
        given = json.loads(arguments)
        name, inner = given["name"], given["arguments"]
    except (ValueError, TypeError, KeyError):
        name, inner = None, None
    if not isinstance(name, str) or not name or not isinstance(inner, dict):
        raise refused(
            'It takes {"name": "exact tool name", "arguments": {…}} and nothing else.',
            code="bad_arguments",
        )
    return name, json.dumps(inner, ensure_ascii=False)


def schemas(tools: Sequence[Tool]) -> str:
    """Full schemas in a wrapper that no description can close."""
    lines = "\n".join(f"<function>{_escaped(tool)}</function>" for tool in tools)
    return f"<functions>\n{lines}\n</functions>"


def _escaped(tool: Tool) -> str:
    """The tool as JSON in which no tag can occur."""
    row: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": json.loads(tool.schema),
    }
    if tool.source != "builtin":
        row["server"] = tool.source
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def _notes(found: Found) -> Iterator[str]:
    """What a search has to say beside the schemas: one line each."""
    for name in found.declared:
        yield f"{name} is already declared: call it directly."
    for name, near in found.unknown.items():
        hint = f" (nearest: {', '.join(near)})" if near else ""
        yield f"Not found: {name}{hint}"
    for name, alike in found.ambiguous.items():
        yield f"{name} could be {', '.join(alike)}: use the exact name."
    if found.truncated:
        rest = ", ".join(found.truncated)
        yield f"Truncated by max_results; request these in a follow-up call: {rest}"
