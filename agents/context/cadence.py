"""When the prune boundary moves: each round, in batches, or only when it pays.

With prompt caching a moved boundary rewrites everything behind the first changed
result at the price of writing; until it moves, every request reads results that nobody
needs any more. The planner weighs the two over the rounds to come, which it takes to be
as large as the mean of those so far, and moves when no later moment would be cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

#: Rounds that a conversation is expected to last on: a few, and half of its age.
_SHORTEST_OUTLOOK, _LONGEST_OUTLOOK = 10, 60

#: Rounds before these say nothing about the next ones.
REMEMBERED = 200

#: Of the input price, where an endpoint with a cache states no own price.
_CACHED_READ = 0.1


@dataclass(frozen=True, slots=True)
class Prices:
    """What an input token costs that the cache holds, and one that it does not."""

    read: float
    write: float

    @property
    def caching(self) -> bool:
        return self.read < self.write

    @classmethod
    def of(
        cls,
        fresh: Decimal | None,
        read: Decimal | None,
        write: Decimal | None,
        *,
        caches: bool,
    ) -> Prices:
        """From a price table whose entries may be missing, in units of any size."""
        if not caches:
            return cls(1.0, 1.0)
        base = float(fresh) if fresh else 1.0
        return cls(
            float(read) / base if read is not None and fresh else _CACHED_READ,
            float(write) / base if write and fresh else 1.0,
        )


class RoundSize(NamedTuple):
    """Tokens of a tool round: what stays in any case, and what pruning takes away."""

    stays: float
    prunable: float


def worth_moving(
    rounds: Sequence[RoundSize], boundary: int, keep: int, prices: Prices
) -> bool:
    """Whether the boundary should move now to all but the last `keep` tool rounds."""
    target = len(rounds) - keep
    if not any(size.prunable > 0 for size in rounds[boundary : max(target, 0)]):
        return False
    if not prices.caching:
        return True
    plan = _Outlook(rounds, keep, prices)
    return plan.moving_now(boundary) < plan.waiting(plan.now, boundary)


class _Outlook:
    """Costs of the requests from now to the expected end, by moments of moving.

    Request k carries the rounds before k. What is alike in every plan is left out.
    """

    def __init__(self, rounds: Sequence[RoundSize], keep: int, prices: Prices) -> None:
        self.keep, self.prices = keep, prices
        self.now = len(rounds)
        more = min(_LONGEST_OUTLOOK, _SHORTEST_OUTLOOK + self.now // 2)
        self.end = self.now + more
        mean = RoundSize(
            sum(size.stays for size in rounds) / self.now,
            sum(size.prunable for size in rounds) / self.now,
        )
        self.sizes = [*rounds, *[mean] * more]
        self.stays = [0.0, *accumulate(size.stays for size in self.sizes)]
        self.prunable = [0.0, *accumulate(size.prunable for size in self.sizes)]
        self.after_move: dict[int, float] = {}
        for moment in range(self.end, self.now - 1, -1):
            self.after_move[moment] = self.waiting(moment, moment - keep)

    def moving_now(self, boundary: int) -> float:
        return self._rewrite(boundary, self.now) + self.after_move[self.now]

    def waiting(self, moment: int, boundary: int) -> float:
        """The least cost when the boundary stays in this request and may move later."""
        best = float("inf")
        held = self._held(moment, boundary)
        for later in range(moment + 1, self.end + 1):
            if later - self.keep > boundary:
                cost = self._rewrite(boundary, later) + self.after_move[later]
                best = min(best, held + cost)
            held += self._held(later, boundary)
        return min(best, held)

    def _held(self, moment: int, boundary: int) -> float:
        """What one request pays for reading the results that could be pruned."""
        return self.prices.read * (self.prunable[moment] - self.prunable[boundary])

    def _rewrite(self, boundary: int, moment: int) -> float:
        """What it costs to write again what lies behind the first changed result."""
        target = moment - self.keep
        changed = next(
            (one for one in range(boundary, target) if self.sizes[one].prunable > 0),
            None,
        )
        if changed is None:
            return 0.0
        last = moment - 1  # the newest round is written in any case
        rewritten = self.stays[last] - self.stays[changed]
        rewritten += max(0.0, self.prunable[last] - self.prunable[target])
        return (self.prices.write - self.prices.read) * rewritten
