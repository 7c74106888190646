"""Which tools say the words of a query: BM25 over weighted fields."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.surface.search.documents import Document
from agents.surface.search.related import related
from agents.surface.search.spelling import Spelling
from agents.surface.search.words import joined, terms

Scores = NDArray[np.float32]

_SATURATION = 1.2  # BM25's k1: how soon saying a word again stops counting
_RELATED = 0.25  # what a related word counts beside the word itself
_MISSPELT = 0.6


@dataclass(frozen=True, slots=True)
class _Field:
    """`weight` of a word here; `length` is how far a long text is held against it."""

    weight: float
    length: float


_FIELDS = {
    "name": _Field(3.0, 0.3),
    "joined": _Field(1.5, 0.0),
    "server": _Field(1.0, 0.3),
    "hints": _Field(2.0, 0.3),
    "description": _Field(1.0, 0.6),
    "arguments": _Field(0.7, 0.6),
    "argument texts": _Field(0.5, 0.6),
}


@dataclass(frozen=True, slots=True)
class Match:
    """The tools that a term reaches, and what each gets for it.

    `said` tells whether a tool says the term, a joined or a related word; else all that
    was found are corrections of its spelling.
    """

    tools: NDArray[np.int32]
    scores: Scores
    said: bool


def _texts(document: Document) -> dict[str, list[str]]:
    """The terms by field. Numbers in prose are examples and say nothing of a tool."""
    said = " . ".join(document.arguments.values())
    return {
        "name": terms(document.own_name),
        "joined": joined(document.own_name),
        "server": terms(document.server),
        "hints": terms(" . ".join(document.hints)),
        "description": terms(document.description, numbers=False),
        "arguments": terms(" . ".join(document.arguments)),
        "argument texts": terms(said, numbers=False),
    }


class Lexicon:
    """The postings of a catalogue: for each term the tools that say it."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.size = len(documents)
        self._postings = self._post([_texts(each) for each in documents])
        self._spelling = Spelling(self._postings)
        self._matches: dict[str, Match | None] = {}

    def _post(self, texts: Sequence[dict[str, list[str]]]) -> dict[str, Match]:
        means = {
            name: sum(len(text[name]) for text in texts) / max(1, len(texts)) or 1.0
            for name in _FIELDS
        }
        found: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for tool, text in enumerate(texts):
            for term, weight in _weigh(text, means).items():
                found[term].append((tool, weight))
        return {term: self._posting(rows) for term, rows in found.items()}

    def _posting(self, rows: list[tuple[int, float]]) -> Match:
        rarity = math.log(1 + (self.size - len(rows) + 0.5) / (len(rows) + 0.5))
        weights = np.array([weight for _, weight in rows], np.float32)
        return Match(
            np.array([tool for tool, _ in rows], np.int32),
            rarity * weights * (_SATURATION + 1) / (weights + _SATURATION),
            said=True,
        )

    def knows(self, term: str) -> bool:
        return term in self._postings

    def match(self, term: str) -> Match | None:
        """What a term is worth to each tool that it reaches; None if it reaches none."""
        said = self._postings.get(term)
        others = [
            (posting, _RELATED)
            for other in related(term)
            if (posting := self._postings.get(other)) is not None
        ]
        if said is None and not others:
            corrected = [
                (self._postings[other], _MISSPELT * nearness)
                for other, nearness in self._spelling.near(term)
            ]
            return self._merge(corrected, said=False) if corrected else None
        if not others:
            return said
        return self._merge([*([(said, 1.0)] if said else []), *others], said=True)

    def _merge(self, postings: list[tuple[Match, float]], *, said: bool) -> Match:
        """Each tool gets the best of what its words are worth, not their sum."""
        best = np.zeros(self.size, np.float32)
        for posting, share in postings:
            worth = posting.scores * np.float32(share)
            best[posting.tools] = np.maximum(best[posting.tools], worth)
        tools = np.flatnonzero(best).astype(np.int32)
        return Match(tools, best[tools], said)

    def score(self, queries: Sequence[Sequence[str]]) -> tuple[Scores, list[Match]]:
        """One row of scores a query, given as terms; and what the terms matched."""
        asked = dict.fromkeys(term for query in queries for term in query)
        matches = {
            term: match for term in asked if (match := self.match(term)) is not None
        }
        worth = np.zeros((len(matches), self.size), np.float32)
        for row, match in zip(worth, matches.values(), strict=True):
            row[match.tools] = match.scores
        said = np.zeros((len(queries), len(matches)), np.float32)
        place = {term: at for at, term in enumerate(matches)}
        for counts, query in zip(said, queries, strict=True):
            for term, count in Counter(query).items():
                if term in place:
                    counts[place[term]] = 1 + math.log(count)
        return said @ worth, list(matches.values())


def _weigh(text: dict[str, list[str]], means: dict[str, float]) -> dict[str, float]:
    weights: dict[str, float] = defaultdict(float)
    for name, field in _FIELDS.items():
        words = text[name]
        length = 1 - field.length + field.length * len(words) / means[name]
        for term, count in Counter(words).items():
            weights[term] += field.weight / length * (1 if name == "name" else count)
    return weights
