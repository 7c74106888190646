"""What became of a workspace's servers since a conversation was last told of them.

The startup context names those that were ready when it was made. What changes later is
told by one notice each, at the end of what is sent: no byte before it moves. A notice
of type `server` says in `now` what the conversation knows from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.context.view import Item, standing
from agents.surface.index import first_line, quoted

_SHOWN = 12  # names of a group; more are found by searching


@dataclass(frozen=True, slots=True)
class Known:
    """What a conversation knows of a server: tools by name with the digests of their
    schemas, and a digest of its instructions ("" for none).
    """

    tools: Mapping[str, str]
    words: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"tools": dict(self.tools), "words": self.words}


@dataclass(frozen=True, slots=True)
class Present:
    """A server that is ready: what there is to know of it, and its instructions."""

    known: Known
    instructions: str = ""


def told(items: Sequence[Item]) -> dict[str, Known]:
    """The servers that the conversation was last told to be there, by name.

    A surface tells of all of them; the notices behind it of what has changed since.
    """
    surface = next(item for item in reversed(items) if item.kind == "surface")
    rows = surface.body.get("servers") or {}
    known = {name: _read(row) for name, row in rows.items()}
    for item in standing(items):
        if item.seq > surface.seq and item.body.get("type") == "server":
            known.pop(item.body["server"], None)
            if item.body["now"] is not None:
                known[item.body["server"]] = _read(item.body["now"])
    return known


def _read(row: Mapping[str, Any]) -> Known:
    return Known(row["tools"], row["words"])


def changes(
    before: Mapping[str, Known],
    now: Mapping[str, Present],
    reasons: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """The notices that a conversation must be given, by server; `reasons` say why
    others are not there.
    """
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old is None and new is not None:
            yield _notice(name, new.known, _joined(name, new))
        elif new is None:
            yield _notice(name, None, _left(name, reasons.get(name, "")))
        elif old is not None and old != new.known:
            yield _notice(name, new.known, _changed(name, old, new))


def _notice(name: str, known: Known | None, text: str) -> dict[str, Any]:
    return {
        "type": "server",
        "server": name,
        "now": known.as_json() if known else None,
        "text": text,
        "to_model": True,
    }


def _joined(name: str, new: Present) -> str:
    names = sorted(new.known.tools)
    lines = [
        f"The server mcp:{name} has become available with {_counted(names)}. Find them "
        f"with tool_search (group:mcp:{name} lists them)."
    ]
    if new.instructions.strip():
        lines.append(f"mcp:{name} says: {first_line(new.instructions)}")
    return "\n".join(lines)


def _left(name: str, reason: str) -> str:
    why = f" ({quoted(reason)})" if reason else ""
    return (
        f"The server mcp:{name} is no longer available{why}. Its tools cannot be called; "
        "go on without them."
    )


def _changed(name: str, old: Known, new: Present) -> str:
    before, after = old.tools, new.known.tools
    altered = [one for one in after if one in before and after[one] != before[one]]
    parts = [
        f"{label}: {_listed(names)}"
        for label, names in (
            ("new", sorted({*after} - {*before})),
            ("gone", sorted({*before} - {*after})),
            ("with another schema, to be looked at again before a call", altered),
        )
        if names
    ]
    lines = [f"The server mcp:{name} has changed its tools. {'; '.join(parts)}."]
    if not parts:
        lines = [f"The server mcp:{name} has changed its instructions."]
    if old.words != new.known.words and new.instructions.strip():
        lines.append(f"mcp:{name} says now: {first_line(new.instructions)}")
    return "\n".join(lines)


def _counted(names: list[str]) -> str:
    if len(names) == 1:
        return f"1 tool: {names[0]}"
    if len(names) <= _SHOWN:
        return f"{len(names)} tools: {', '.join(names)}"
    return f"{len(names)} tools"


def _listed(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
