"""The known words that an unknown one may be a slip of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

_SHORTEST = 4  # letters; below, every word is near every other
_LONGEST = 40  # letters; no slip is made in a word longer than that
_MOST = 3  # corrections of one word


class Spelling:
    """Words filed by their three-letter pieces, so that few are compared in full."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = sorted(word for word in words if _comparable(word))
        self._pieces: dict[str, list[int]] = defaultdict(list)
        for at, word in enumerate(self._words):
            for piece in _pieces(word):
                self._pieces[piece].append(at)

    def near(self, word: str) -> list[tuple[str, float]]:
        """Up to three words one slip away (two in long words), with their nearness."""
        if not _comparable(word):
            return []
        shared = Counter(
            at for piece in _pieces(word) for at in self._pieces.get(piece, ())
        )
        allowed = 1 if len(word) < 9 else 2
        found = []
        for at, count in shared.items():
            other = self._words[at]
            if count < 2 or abs(len(other) - len(word)) > allowed:
                continue
            slips = distance(word, other)
            if slips <= allowed:
                found.append((1 - slips / len(word), other))
        found.sort(key=lambda pair: (-pair[0], pair[1]))
        return [(other, nearness) for nearness, other in found[:_MOST]]


def distance(one: str, other: str) -> int:
    """How many letters were left out, put in, changed or swapped."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        row = [i]
        for j, right in enumerate(other, 1):
            cost = min(above[j] + 1, row[-1] + 1, above[j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, above = above, row
    return above[-1]


def _comparable(word: str) -> bool:
    return _SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalpha()


def _pieces(word: str) -> set[str]:
    framed = f"^{word}$"
    return {framed[at : at + 3] for at in range(len(framed) - 2)}
