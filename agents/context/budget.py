"""Tokens of a window and of a request: where compaction begins, and what fills most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from agents.context.report import category_of
from agents.context.view import Item

#: Of the cap: where compaction begins, the room left before the reserve, the least gain.
_BEGIN, _SLACK, _GAIN = 0.70, 0.05, 0.25

#: The categories of a report as sentences name them.
_NAMES = {
    "systemPrompt": "System prompt",
    "builtinTools": "Tool definitions",
    "mcpTools": "MCP Tools",
    "rules": "Rules",
    "skills": "Skills",
    "startupContext": "Startup context",
    "messages": "Messages",
}


class Segment(Protocol):
    """What an assembled request says of each of its parts."""

    @property
    def kind(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def tokens(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens: the window, what is kept free for the answer, where compaction begins."""

    cap: int
    reserved: int
    compact_at: int

    @classmethod
    def of(cls, cap: int, reserved: int, compact_at: int | None = None) -> Limits:
        """`compact_at` is the absolute override of `context.compactAt`."""
        least = min(_BEGIN * cap, cap - reserved - _SLACK * cap)
        return cls(cap, reserved, compact_at if compact_at else int(least))

    @property
    def gain(self) -> int:
        """Tokens that a compaction must take away: a part of the cap.

        A point that was set below the usual one makes it a part of a cap as much
        smaller; of a wide window that part could be more than there is at the point.
        """
        usual = Limits.of(self.cap, self.reserved).compact_at
        share = min(1.0, self.compact_at / usual) if usual > 0 else 1.0
        return int(_GAIN * self.cap * share)

    @property
    def summary(self) -> int:
        """Tokens that a summary may have."""
        return max(300, min(8_000, self.cap // 32))

    def fits(self, used: int) -> bool:
        return used + self.reserved <= self.cap

    def overflowed(self, used: int) -> Limits:
        """The limits that a service has which refused `used` tokens as too many."""
        cap = max(1, min(self.cap, used))
        reserved = max(1, min(self.reserved, cap // 4))
        return Limits(cap, reserved, min(self.compact_at, cap))


@lru_cache(maxsize=65_536)
def _entry_of(segment: str) -> tuple[int, bool]:
    """The entry that a segment belongs to, 0 for none, and whether it is an image."""
    kind, _, rest = segment.partition(":")
    seq = rest.partition(":")[0]
    if kind != "entry" or not seq.isdecimal():
        return 0, False
    return int(seq), ":image:" in rest


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of a request: its fixed parts by category, and each entry's by seq."""

    fixed: Mapping[str, int]
    entries: Mapping[int, int]
    images: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, segments: Iterable[Segment], factor: float = 1.0) -> Counts:
        """From an assembled request; `factor` is the model's calibration."""
        fixed: dict[str, int] = {}
        entries: dict[int, int] = {}
        images: dict[int, int] = {}
        for one in segments:
            tokens = one.tokens if factor == 1.0 else round(one.tokens * factor)
            seq, is_image = _entry_of(one.id)
            if not seq:
                row = category_of(one.kind, one.id)
                fixed[row] = fixed.get(row, 0) + tokens
                continue
            entries[seq] = entries.get(seq, 0) + tokens
            if is_image:
                images[seq] = images.get(seq, 0) + tokens
        return cls(fixed, entries, images)

    @property
    def prefix(self) -> int:
        return sum(self.fixed.values())

    @property
    def total(self) -> int:
        return self.prefix + sum(self.entries.values())

    def of_rows(self, rows: Iterable[Item]) -> int:
        return sum(self.entries.get(row.seq, 0) for row in rows)

    @property
    def largest(self) -> tuple[str, int]:
        """The row that fills most, in words for people, and its tokens."""
        rows = {_NAMES.get(key, key): size for key, size in self.fixed.items()}
        rows["Messages"] = sum(self.entries.values())
        name = max(rows, key=lambda row: rows[row])
        return name, rows[name]

    @property
    def advice(self) -> str:
        """What a person can do about a request that is too large."""
        name, size = self.largest
        return (
            f"Most is taken by {name} ({size:,} tokens). Shorten that, choose a model "
            "with a larger window, or start a new conversation."
        )
