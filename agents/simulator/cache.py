"""The prefix cache that the services keep, and how many tokens a request has."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

BYTES_PER_TOKEN = 4  # the simulator's rule; deterministic and the same for all text
BLOCK = 128  # tokens
MINIMUM = 1_024  # tokens; shorter prefixes are never cached
TTL = 300.0  # seconds since a prefix was last sent
_MAX_BYTES = 64 * 1024 * 1024  # of remembered requests, over all keys


def tokens(data: bytes) -> int:
    return -(-len(data) // BYTES_PER_TOKEN)


@dataclass(slots=True, eq=False)
class _Sent:
    scope: tuple[str, str]
    data: bytes
    at: float


class PrefixCache:
    """Recent requests by (key, model); newest last."""

    def __init__(self) -> None:
        self._sent: deque[_Sent] = deque()
        self._bytes = 0

    def hit(self, key: str, model: str, data: bytes, now: float) -> int:
        """Tokens that recent requests of this key and model began with; then keep it.

        A request that this one continues is dropped: the longer one serves for both.
        """
        scope, best = (key, model), 0
        for sent in [sent for sent in self._sent if sent.scope == scope]:
            if now - sent.at > TTL:
                self._drop(sent)
                continue
            common = common_prefix(sent.data, data)
            best = max(best, common)
            if common == len(sent.data):
                self._drop(sent)
        self._keep(_Sent(scope, data, now))
        whole = best // BYTES_PER_TOKEN // BLOCK * BLOCK
        return whole if whole >= MINIMUM else 0

    def _keep(self, sent: _Sent) -> None:
        self._sent.append(sent)
        self._bytes += len(sent.data)
        while self._bytes > _MAX_BYTES and len(self._sent) > 1:
            self._drop(self._sent[0])

    def _drop(self, sent: _Sent) -> None:
        self._sent.remove(sent)
        self._bytes -= len(sent.data)


def common_prefix(one: bytes, other: bytes) -> int:
    """Length of the longest common prefix: by halving, so memcmp does the work."""
    low, high = 0, min(len(one), len(other))
    a, b = memoryview(one), memoryview(other)
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
