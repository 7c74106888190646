"""A catalogue made ready to be searched, and the order of what is found."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.surface.search.documents import Document
from agents.surface.search.lexical import Lexicon, Match, Scores
from agents.surface.search.literals import kinds_for_literals
from agents.surface.search.vectors import Vectors
from agents.surface.search.words import is_unspaced, parts, plain, stem, terms

_MEANING = 0.4  # share of the vectors in a score, beside the words' 1 - share
_PARTS = 0.5  # what the best part of a request counts beside the whole
_MOST_PARTS = 8
_LONGEST = 2_000  # characters of a query that are read
_ALONE = 0.45  # nearness in meaning that is an answer though no word is shared
_GIST = 300  # characters of a tool's text that its meaning is taken from
_CORRECTED = 0.5  # share of a query's words that corrections alone may answer for

_BREAKS = re.compile(
    r"(?<=[.!?;。])\s+|[\n,;]+\s*"
    r"|\s+(?:and|then|also|as well as|additionally|finally|next)\s+"
    r"|그리고|하고 나서",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found; `score` compares it with the others of the same query."""

    name: str
    score: float


class Index:
    """Immutable once made. Tools are held by name, so that their order never matters."""

    def __init__(
        self, documents: Sequence[Document], vectors: Vectors | None = None
    ) -> None:
        known = {each.name: each for each in documents}
        self.documents = tuple(known[name] for name in sorted(known))
        self._words = Lexicon(self.documents)
        self._vectors = vectors
        self._meanings = (
            None if vectors is None else vectors.embed(list(map(_gist, self.documents)))
        )
        self._named: dict[str, list[int]] = defaultdict(list)
        for at, each in enumerate(self.documents):
            for name in {plain(each.name), plain(each.own_name)} - {""}:
                self._named[name].append(at)

    def rank(self, query: str, limit: int) -> list[Hit]:
        """The best tools first, the tool whose name is the query before all; ties by
        name. Nothing if no tool shares a word with the query.
        """
        query = query[:_LONGEST]
        scores = self._scores(kinds_for_literals(query))
        named = self._named.get(plain(query), ())
        for at in named:
            scores[at] += 10
        return [
            Hit(self.documents[at].name, round(float(scores[at]), 4))
            for at in _best(scores.round(4), limit)
        ]

    def _scores(self, query: str) -> Scores:
        asked = self._terms(query)
        matches: dict[str, Match | None] = {}
        whole = self._words.sum(asked, matches)
        pieces = self._pieces(query)
        near = self._nearness([query, *pieces])
        if not _answerable(asked, matches, near):
            return np.zeros(len(self.documents), np.float32)
        scores = _mix(whole, near, 0)
        if len(pieces) > 1:
            shares = [
                _mix(self._words.sum(self._terms(piece), matches), near, row)
                for row, piece in enumerate(pieces, 1)
            ]
            scores += np.float32(_PARTS) * np.maximum.reduce(shares)
        return scores

    def _terms(self, query: str) -> list[str]:
        """The query's terms, and its neighbours that are one word in the catalogue."""
        asked = terms(query)
        words = [part.casefold() for part in parts(query)]
        for left, right in zip(words, words[1:], strict=False):
            joined = stem(left + right)
            if self._words.knows(joined) and (left + right).isalpha():
                asked.append(joined)
        return asked

    def _pieces(self, query: str) -> list[str]:
        """The jobs that a long request names one after another; none for a short one."""
        pieces = [piece for piece in _BREAKS.split(query) if len(terms(piece)) > 1]
        return pieces[:_MOST_PARTS] if len(pieces) > 1 else []

    def _nearness(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """One row a text. The vectors know English: others are left to their words."""
        if self._vectors is None or self._meanings is None or is_unspaced(texts[0]):
            return None
        near: NDArray[np.float32] = self._vectors.embed(texts) @ self._meanings.T
        return near


def _best(scores: Scores, limit: int) -> list[int]:
    """Where the highest scores stand; equal ones in their order, which is by name."""
    kept = np.flatnonzero(scores > 0)
    if len(kept) > limit > 0:
        least = np.partition(scores[kept], -limit)[-limit]
        kept = kept[scores[kept] >= least]
    order = kept[np.argsort(-scores[kept], kind="stable")]
    return [int(at) for at in order[: max(0, limit)]]


def _answerable(
    asked: Sequence[str],
    matches: dict[str, Match | None],
    near: NDArray[np.float32] | None,
) -> bool:
    found = [match for term in asked if (match := matches[term]) is not None]
    if any(match.said for match in found):
        return True
    if near is not None and near.size and near[0].max() >= _ALONE:
        return True
    return bool(found) and len(found) >= _CORRECTED * len(asked)


def _mix(words: Scores, near: NDArray[np.float32] | None, row: int) -> Scores:
    """Both scaled to their best, since sums of rarities have no scale of their own."""
    most = words.max(initial=0)
    scaled: Scores = words / most if most > 0 else words.copy()
    if near is None:
        return scaled
    meaning = np.maximum(near[row], 0)
    nearest = meaning.max(initial=0)
    if nearest <= 0:
        return scaled
    scaled *= np.float32(1 - _MEANING)
    scaled += np.float32(_MEANING) / nearest * meaning
    return scaled


def _gist(document: Document) -> str:
    """The start of what a tool says of itself, and the names of what it takes."""
    said = f"{document.own_name} {document.description[:_GIST]}"
    return f"{said} {' '.join(document.arguments)}"[: _GIST + _GIST // 2]
