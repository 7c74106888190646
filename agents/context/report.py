"""The account of a request: which category uses how many tokens of the window.

Pure functions over segments. Rows always add up to the total: when the service reported
fewer tokens than we count, every row shrinks by one factor; when it reported more, the
rest is `unattributed` (rules of the reference, qwen-code's /context).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext_noop

#: Row keys in their order; the last one is not of our making.
CATEGORIES = {
    "systemPrompt": gettext_noop("System prompt"),
    "builtinTools": gettext_noop("Built-in tools"),
    "mcpTools": gettext_noop("MCP tools"),
    "rules": gettext_noop("Rules"),
    "skills": gettext_noop("Skills"),
    "startupContext": gettext_noop("Startup context"),
    "messages": gettext_noop("Messages"),
}
UNATTRIBUTED = "unattributed"

#: What makes each row grow, for whoever looks at it.
HELP = {
    "systemPrompt": gettext_noop(
        "Instructions, mode and persona; the same in every request."
    ),
    "builtinTools": gettext_noop(
        "The schemas of declared tools; more resident tools, more tokens."
    ),
    "mcpTools": gettext_noop(
        "Declared tools of MCP servers; deferred ones cost an index line only."
    ),
    "rules": gettext_noop(
        "AGENTS.md and its kind: those of the start, and of folders worked in since."
    ),
    "skills": gettext_noop(
        "Names and descriptions of skills, and the bodies loaded so far."
    ),
    "startupContext": gettext_noop("Environment and the index of deferred tools."),
    "messages": gettext_noop(
        "All that was said, called and returned; grows with every round."
    ),
    UNATTRIBUTED: gettext_noop("Reported by the model service beyond what we counted."),
}


@dataclass(frozen=True, slots=True)
class Counted:
    """A segment as a report needs it: also what a stored model call remembers."""

    kind: str
    id: str
    title: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Row:
    """A category with its parts; tokens of the parts add up to its own."""

    key: str
    title: str
    tokens: int
    details: tuple[Counted, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All figures in tokens. `cached` is an annotation: part of the total, not beside it.

    `factor`: the calibration by which an estimate was corrected.
    """

    rows: tuple[Row, ...]
    total: int
    estimated: bool
    cached: int
    cap: int
    reserved: int
    factor: float = 1.0

    @property
    def available(self) -> int:
        return max(0, self.cap - self.total - self.reserved)

    @property
    def percent(self) -> float:
        return 100 * self.total / self.cap if self.cap else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "total": self.total,
            "estimated": self.estimated,
            "calibration": self.factor,
            "cached": self.cached,
            "cap": self.cap,
            "reserved": self.reserved,
            "available": self.available,
            "rows": [
                {
                    "key": row.key,
                    "title": row.title,
                    "tokens": row.tokens,
                    "details": [
                        {"id": one.id, "title": one.title, "tokens": one.tokens}
                        for one in row.details
                    ],
                }
                for row in self.rows
            ],
        }


def category_of(kind: str, id: str) -> str:  # noqa: A002 - the segment's own word
    """The row that a segment belongs to; every segment has exactly one."""
    if kind in ("envelope", "system"):
        return "systemPrompt"
    if kind == "tools" and id == "tool:skill_view":
        return "skills"
    if kind == "tools":
        return "mcpTools" if id.startswith("tool:mcp__") else "builtinTools"
    if kind in ("rules", "skills"):
        return kind
    if kind == "startup":
        part = id.partition(":")[0]
        return part if part in ("rules", "skills") else "startupContext"
    return "messages"


def make_report(
    segments: Iterable[Counted],
    *,
    cap: int,
    reserved: int,
    reported: int | None = None,
    cached: int = 0,
    factor: float = 1.0,
) -> Report:
    """The account of one request. Without `reported` the total is our estimate, with the
    model's calibration `factor`.
    """
    parts = list(segments)
    if reported is None or reported < 0:
        parts = _scaled(parts, round(sum(part.tokens for part in parts) * factor))
    counted = sum(part.tokens for part in parts)
    total = counted if reported is None or reported < 0 else reported
    if counted > total:
        parts = _scaled(parts, total)
    rows = _rows(parts)
    if rest := total - sum(part.tokens for part in parts):
        rows.append(Row(UNATTRIBUTED, gettext_noop("Unattributed"), rest, ()))
    return Report(
        tuple(rows),
        total,
        reported is None or reported < 0,
        max(0, min(cached, total)),
        cap,
        reserved,
        factor,
    )


def _scaled(parts: Sequence[Counted], total: int) -> list[Counted]:
    """Every part times one factor, in whole tokens; the largest takes the remainder."""
    counted = sum(part.tokens for part in parts)
    if counted in (0, total):
        return list(parts)
    scaled = [part.tokens * total // counted for part in parts]
    largest = max(range(len(parts)), key=lambda index: parts[index].tokens)
    scaled[largest] += total - sum(scaled)
    return [
        Counted(part.kind, part.id, part.title, tokens)
        for part, tokens in zip(parts, scaled, strict=True)
    ]


def _rows(parts: Iterable[Counted]) -> list[Row]:
    members: dict[str, list[Counted]] = {key: [] for key in CATEGORIES}
    for part in parts:
        members[category_of(part.kind, part.id)].append(part)
    return [
        Row(
            key,
            CATEGORIES[key],
            sum(part.tokens for part in found),
            tuple(sorted(found, key=lambda part: (-part.tokens, part.title))),
        )
        for key, found in members.items()
        if found
    ]
