"""What was made of a growing transcript, kept so that the next time costs what is new.

A worker keeps one of these as long as it plays a run. It holds results of pure functions
and nothing else: without it everything comes out the same, only later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from agents.context.view import Item, rounds_of, view
from agents.providers.base import Message

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Growing(Generic[T, R]):
    """The results of a function of single items, for a list that grows at its end."""

    basis: Any = None
    items: list[T] = field(default_factory=list)
    results: list[R] = field(default_factory=list)

    def of(self, items: Sequence[T], each: Callable[[T], R], basis: Any) -> list[R]:
        """`each` of the items; `basis` is all that it follows from beside the item."""
        known = self._known(items, basis)
        del self.items[known:], self.results[known:]
        self.items += items[known:]
        self.results += map(each, items[known:])
        return list(self.results)

    def _known(self, items: Sequence[T], basis: Any) -> int:
        """How many of the first items are those of the last time."""
        if basis != self.basis:
            self.basis = basis
            return 0
        pairs = zip(items, self.items, strict=False)
        different = (n for n, (one, other) in enumerate(pairs) if one is not other)
        return next(different, min(len(items), len(self.items)))


@dataclass(slots=True)
class GrowingView:
    """The view of a transcript; its part up to the last whole round is settled."""

    rows: list[Item] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def of(self, rows: Sequence[Item]) -> list[Message]:
        """The same as `view(rows)`."""
        if not self._goes_on(rows):
            self.rows, self.messages = [], []
        rest = rows[len(self.rows) :]
        settled = settled_rows(rest)
        self.messages += view(rest[:settled])
        self.rows += rest[:settled]
        return [*self.messages, *view(rest[settled:])]

    def _goes_on(self, rows: Sequence[Item]) -> bool:
        """Whether the rows begin with the settled ones, and no result came late."""
        known = len(self.rows)
        if len(rows) > known and rows[known].kind == "tool_result":
            return False
        pairs = zip(self.rows, rows, strict=False)
        return len(rows) >= known and all(one is other for one, other in pairs)


def settled_rows(rows: Sequence[Item]) -> int:
    """How many of the first rows nothing that comes later can move or add to.

    They end with the last round whose calls all have results. Whoever spoke before its
    end was heard by the next request, or stands behind the round.
    """
    whole = [
        one.end
        for one in rounds_of(rows)
        if len(one.results) >= len(one.answer.body.get("tool_calls") or ())
    ]
    if not whole:
        return 0
    return next(n for n, row in enumerate(rows, 1) if row.seq == whole[-1])


@dataclass(slots=True)
class Kept:
    """All that a worker keeps between two requests of a run."""

    view: GrowingView = field(default_factory=GrowingView)
    pruned: Growing[Message, Message] = field(default_factory=Growing)
