"""Looking for tools by what they do.

Importing this costs nothing: numbers and vectors are loaded by the first search, which
happens in a worker, so that a web process never holds them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agents.surface.search.documents import Document, digest, document_of

if TYPE_CHECKING:
    from agents.surface.search.index import Index

__all__ = ["Document", "document_of", "index_of", "make_ranker"]

_KEPT = 16  # indexes; one of 4,000 tools holds some 20 MB, one of 100 under 1 MB


class _Catalogue:
    """Documents that are equal when their digest is, to be a key of the cache."""

    def __init__(self, documents: Iterable[Document], known_as: str) -> None:
        self.documents = tuple(documents)
        self._digest = known_as or digest(self.documents)

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Catalogue) and self._digest == other._digest


def index_of(documents: Iterable[Document], *, known_as: str = "") -> Index:
    """The index of these tools; made once for the same tools in any order.

    `known_as` is a digest of the tools that the caller holds already: computing one
    takes some 7 ms for 1,000 tools.
    """
    return _index_of(_Catalogue(documents, known_as))


@lru_cache(maxsize=_KEPT)
def _index_of(catalogue: _Catalogue) -> Index:
    # Products are small here, and a worker has other work for its other cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from agents.surface.search.index import Index
    from agents.surface.search.vectors import vectors

    return Index(catalogue.documents, vectors())


def make_ranker(
    catalogue: Sequence[Mapping[str, Any]],
) -> Callable[[str, int], list[str]]:
    """`rank(query, limit)` over tools given as `{name, server, description,
    input_schema}`: their names, best first.
    """
    index = index_of(document_of(tool) for tool in catalogue)

    def rank(query: str, limit: int) -> list[str]:
        return [hit.name for hit in index.rank(query, limit)]

    return rank
