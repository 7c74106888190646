"""Figures of model calls: what adds up, and the rates that follow from the sums.

Rates are taken from sums, never averaged: a long call weighs what it weighs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

#: Upper bounds of the classes of time to the first token, in milliseconds; the last
#: class is open. Steps of about 1.7 keep the error of a percentile under a third.
FIRST_TOKEN_BOUNDS = (150, 300, 500, 900, 1_500, 2_500, 5_000, 10_000, 30_000)
FIRST_CLASSES = tuple(f"first_{n}" for n in range(len(FIRST_TOKEN_BOUNDS) + 1))
#: What the open class counts as, at most.
LONGEST_FIRST_TOKEN = 120_000  # milliseconds

#: Below this share the cache does not work, above that it does well (40-context).
POOR, GOOD = 0.5, 0.8
#: Fewer calls say nothing about the cache.
LEAST_CALLS = 10


#: Costs are stored to this; SQLite adds them as floating-point numbers.
MILLIONTH = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over model calls. Five disjoint axes of tokens; cost in US dollars."""

    calls: int = 0
    failed: int = 0
    turns: int = 0
    unreported: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    cost: Decimal = Decimal()
    unpriced: int = 0
    generated: int = 0
    generation_ms: int = 0
    first: tuple[int, ...] = field(default=(0,) * len(FIRST_CLASSES))

    def __add__(self, other: Figures) -> Figures:
        sums = {name: getattr(self, name) + getattr(other, name) for name in PLAIN}
        first = tuple(a + b for a, b in zip(self.first, other.first, strict=True))
        return Figures(**sums, first=first)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Figures:
        """From a row of sums, whose names begin with `sum_`; none counts as 0."""
        plain: dict[str, Any] = {name: row[f"sum_{name}"] or 0 for name in PLAIN}
        plain["cost"] = Decimal(plain["cost"]).quantize(MILLIONTH)
        first = tuple(row[f"sum_{name}"] or 0 for name in FIRST_CLASSES)
        return cls(**plain, first=first)

    @property
    def total_input(self) -> int:
        return self.input + self.cache_read + self.cache_write

    @property
    def total_output(self) -> int:
        return self.output + self.reasoning

    @property
    def cache_rate(self) -> float | None:
        """Share of the input that came from the service's cache; None without input."""
        return self.cache_read / self.total_input if self.total_input else None

    @property
    def error_rate(self) -> float | None:
        return self.failed / self.calls if self.calls else None

    @property
    def speed(self) -> float | None:
        """Output tokens per second, after the first one."""
        if not self.generation_ms:
            return None
        return 1000 * self.generated / self.generation_ms

    @property
    def known_cost(self) -> Decimal | None:
        """None when calls were made and no model has a price."""
        reported = self.calls - self.failed - self.unreported
        return None if self.unpriced and self.unpriced >= reported else self.cost

    @property
    def health(self) -> str:
        """good, fair or poor; unknown for less than ten calls."""
        rate = self.cache_rate
        if rate is None or self.calls < LEAST_CALLS:
            return "unknown"
        return "good" if rate >= GOOD else "fair" if rate >= POOR else "poor"

    def first_token(self, share: float) -> float | None:
        """Seconds within which that share of calls had their first token."""
        return percentile(self.first, share)


PLAIN = tuple(one.name for one in fields(Figures) if one.name != "first")
NAMES = (*PLAIN, *FIRST_CLASSES)


def percentile(counts: Sequence[int], share: float) -> float | None:
    """Seconds, interpolated within the class in which the share is reached."""
    wanted = share * sum(counts)
    if not wanted:
        return None
    low = 0
    for count, high in zip(
        counts, (*FIRST_TOKEN_BOUNDS, LONGEST_FIRST_TOKEN), strict=True
    ):
        if count and wanted <= count:
            return (low + (high - low) * wanted / count) / 1000
        wanted -= count
        low = high
    return low / 1000


def total(many: Iterable[Figures]) -> Figures:
    return sum(many, Figures())
