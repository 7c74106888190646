"""A catalogue made ready to be searched, and the order of what is found."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.surface.search.documents import Document
from agents.surface.search.lexical import Lexicon, Match, Scores
from agents.surface.search.literals import kinds_for_literals
from agents.surface.search.vectors import Vectors
from agents.surface.search.words import is_unspaced, joined, plain, terms

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
        self._spelled: dict[str, list[str]] = defaultdict(list)
        for name in sorted(known):
            self._spelled[name.casefold()].append(name)

    def spelled(self, name: str) -> tuple[str, ...]:
        """The tool of this name; else those whose names differ from it only by case."""
        alike = tuple(self._spelled.get(name.casefold(), ()))
        return (name,) if name in alike else alike

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
        """The whole request, and the best of its parts: it may name several jobs."""
        texts = [query, *_pieces(query)]
        asked = [self._terms(text) for text in texts]
        words, matches = self._words.score(asked)
        near = self._nearness(texts)
        if not _answerable(len(set(asked[0])), matches, near):
            return np.zeros(len(self.documents), np.float32)
        mixed = _scaled(words)
        if near is not None:
            mixed *= np.float32(1 - _MEANING)
            mixed += np.float32(_MEANING) * _scaled(near)
        total: Scores = mixed[0]
        if len(texts) > 1:
            total = total + np.float32(_PARTS) * mixed[1:].max(axis=0)
        return total

    def _terms(self, query: str) -> list[str]:
        """The query's terms, and its neighbours that are one word in the catalogue."""
        pairs = [pair for pair in joined(query) if self._words.knows(pair)]
        return terms(query) + pairs

    def _nearness(self, texts: Sequence[str]) -> Scores | None:
        """One row a text. The vectors know English: others are left to their words."""
        if self._vectors is None or self._meanings is None or is_unspaced(texts[0]):
            return None
        asked = self._vectors.embed(texts)
        near: Scores = (self._meanings @ asked.T).T
        return np.maximum(near, 0)


def _best(scores: Scores, limit: int) -> list[int]:
    """Where the highest scores stand; equal ones in their order, which is by name."""
    kept = np.flatnonzero(scores > 0)
    if len(kept) > limit > 0:
        least = np.partition(scores[kept], -limit)[-limit]
        kept = kept[scores[kept] >= least]
    order = kept[np.argsort(-scores[kept], kind="stable")]
    return [int(at) for at in order[: max(0, limit)]]


def _pieces(query: str) -> list[str]:
    """The jobs that a long request names one after another; none for a short one."""
    pieces = [piece for piece in _BREAKS.split(query) if len(terms(piece)) > 1]
    return pieces[:_MOST_PARTS] if len(pieces) > 1 else []


def _answerable(asked: int, matches: Sequence[Match], near: Scores | None) -> bool:
    """No shared word, no answer; unless one is very near in meaning, or misspelt."""
    if any(match.said for match in matches):
        return True
    if near is not None and near[0].max(initial=0) >= _ALONE:
        return True
    return bool(matches) and len(matches) >= _CORRECTED * asked


def _scaled(scores: Scores) -> Scores:
    """Each row by its best, since sums of rarities have no scale of their own."""
    most = scores.max(axis=1, keepdims=True, initial=0)
    scaled: Scores = np.divide(scores, most, out=np.zeros_like(scores), where=most > 0)
    return scaled


def _gist(document: Document) -> str:
    """The start of what a tool says of itself, and the names of what it takes."""
    said = f"{document.own_name} {document.description[:_GIST]}"
    return f"{said} {' '.join(document.arguments)}"[: _GIST + _GIST // 2]
