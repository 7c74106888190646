"""Finding and calling deferred tools while the declared list stays as it is.

Everything here is a function of values: the surface, the tools behind it, and which
schemas the conversation has been shown. Nothing runs and nothing is stored here.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.errors import ToolError
from agents.surface.index import group_of
from agents.surface.policy import DISCOVERY, Surface
from agents.tools.base import Tool, ToolResult

MOST_RESULTS = 20

#: What a search asks: (query, limit) -> hits as (name, score), best first.
Ranker = Callable[[str, int], Sequence[tuple[str, float]]]


def schema_digest(tool: Tool) -> str:
    """What a review is bound to: name and arguments; prose may change."""
    return hashlib.sha256(f"{tool.name}\n{tool.schema}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Bridge:
    """What one conversation can find: its declared and its hidden tools."""

    surface: Surface
    declared: frozenset[str]
    tools: Mapping[str, Tool]
    rank: Ranker

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
        limit = max(1, min(int(max_results), MOST_RESULTS))
        text = query.strip()
        if text.lower().startswith("select:"):
            return self._select(text[len("select:") :], limit)
        if text.lower().startswith("group:"):
            return self._group(text[len("group:") :].strip(), limit)
        if not text:
            raise ToolError("Say what you want to do, in a few words.")
        return self._found(text, self._ranked(text, limit))

    def _ranked(self, text: str, limit: int) -> list[tuple[str, float]]:
        """Hits among the hidden tools; every +term must be in the name."""
        terms = text.split()
        required = [term[1:].lower() for term in terms if term[:1] == "+" and term[1:]]
        words = " ".join(term.lstrip("+") for term in terms)
        wide = MOST_RESULTS * 5 if required else limit
        hits = [
            (name, score)
            for name, score in self.rank(words, wide)
            if all(term in name.lower() for term in required)
        ]
        return hits[:limit]

    def _found(self, query: str, hits: list[tuple[str, float]]) -> ToolResult:
        if hits:
            return self._shown([self.tools[name] for name, _ in hits], query, hits)
        exact = [name for name in self.declared if name == query.lower()]
        if exact:
            return ToolResult(
                True, f"{exact[0]} is already declared: call it directly."
            )
        return ToolResult(
            True,
            f"No tools found matching '{query}'. Try other words or raise max_results; "
            "after a second empty search it is honest to say that there is no such "
            "tool.",
            meta={"query": query, "hits": [], "loaded": {}},
        )

    def _select(self, names: str, limit: int) -> ToolResult:
        wanted = list(dict.fromkeys(filter(None, map(_unquoted, names.split(",")))))
        known = {name.lower(): name for name in (*self.hidden, *self.declared)}
        found = [known[name.lower()] for name in wanted if name.lower() in known]
        unknown = [name for name in wanted if name.lower() not in known]
        shown, rest = found[:limit], found[limit:]
        notes = [self._unknown(name, known) for name in unknown]
        if rest:
            notes.append(
                "Truncated by max_results; request these in a follow-up call: "
                + ", ".join(rest)
            )
        if not shown:
            return ToolResult(False, "\n".join(notes) or "Name at least one tool.")
        hits = [(name, 1.0) for name in shown]
        return self._shown(
            [self.tools[name] for name in shown], f"select:{names}", hits, notes
        )

    def _unknown(self, name: str, known: Mapping[str, str]) -> str:
        near = difflib.get_close_matches(name.lower(), known, n=3)
        hint = f" (nearest: {', '.join(known[one] for one in near)})" if near else ""
        return f"Not found: {name}{hint}"

    def _group(self, group: str, limit: int) -> ToolResult:
        members = [tool for tool in self.hidden.values() if group_of(tool) == group]
        if not members:
            groups = sorted({group_of(tool) for tool in self.hidden.values()})
            raise ToolError(
                f"There is no group {group!r}. Groups: {', '.join(groups)}."
            )
        rest = [tool.name for tool in members[limit:]]
        notes = [f"Also in {group}: {', '.join(rest)}"] if rest else []
        hits = [(tool.name, 1.0) for tool in members[:limit]]
        return self._shown(members[:limit], f"group:{group}", hits, notes)

    def _shown(
        self,
        tools: Sequence[Tool],
        query: str,
        hits: Sequence[tuple[str, float]],
        notes: Sequence[str] = (),
    ) -> ToolResult:
        """Full schemas in a wrapper that no description can close."""
        lines = "\n".join(f"<function>{_escaped(tool)}</function>" for tool in tools)
        text = "\n\n".join((f"<functions>\n{lines}\n</functions>", *notes))
        return ToolResult(
            True,
            text,
            meta={
                "query": query,
                "hits": [[name, round(score, 4)] for name, score in hits],
                "loaded": {
                    tool.name: schema_digest(tool)
                    for tool in tools
                    if tool.name not in self.declared
                },
            },
        )

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
        name, inner = _envelope(arguments)
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


def _envelope(arguments: str) -> tuple[str, str]:
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


def _unquoted(name: str) -> str:
    name = name.strip()
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1].strip()
    return name
