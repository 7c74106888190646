"""Who owns which bytes of a request, and what they cost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from agents.context import tokens
from agents.providers.base import CACHE_MARK, Block, Piece, Request
from agents.providers.wire import inside_string


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring bytes of a request with one owner. `size` is in bytes."""

    kind: str
    id: str
    title: str
    digest: str
    tokens: int
    size: int
    data: bytes
    is_picture: bool = False

    @property
    def fingerprint(self) -> str:
        """The digest of what it says: where a service is told to cache says nothing."""
        if CACHE_MARK not in self.data:
            return self.digest
        plain = self.data.replace(CACHE_MARK, b"")
        return hashlib.sha256(plain).hexdigest()[:16]


def segments_of(
    request: Request, encoding: str, startup: Sequence[Block] = ()
) -> tuple[Segment, ...]:
    """The request's bytes by owner: joined, they are its body.

    `startup` are the parts of the startup context: its message is cut at their borders.
    """
    segments: list[Segment] = []
    group: list[Piece] = []
    for piece in _cut(request.pieces, startup):
        if group and group[0].owner != piece.owner:
            segments.append(_segment(group, encoding))
            group = []
        group.append(piece)
    return (*segments, _segment(group, encoding))


def _cut(pieces: Iterable[Piece], startup: Sequence[Block]) -> Iterable[Piece]:
    for piece in pieces:
        if piece.owner.kind == "startup" and startup:
            yield from _cut_startup(piece, startup)
        else:
            yield piece


def _cut_startup(piece: Piece, blocks: Sequence[Block]) -> Iterable[Piece]:
    """The piece in as many parts as there are blocks; what is around stays with them.

    Cut by lengths: a block may hold the very text of another one.
    """
    texts = [inside_string(block.text) for block in blocks]
    first = piece.data.find(b"".join(texts))
    if first < 0:
        yield Piece(blocks[0].owner, piece.data)
        return
    _, *ends = accumulate(map(len, texts), initial=first)
    starts = [0, *ends[:-1]]
    ends[-1] = len(piece.data)
    for block, start, end in zip(blocks, starts, ends, strict=True):
        yield Piece(block.owner, piece.data[start:end])


def _segment(pieces: Sequence[Piece], encoding: str) -> Segment:
    """The account of neighbouring pieces; of a single one it is made once."""
    if len(pieces) > 1:
        return _counted(pieces, encoding)
    memo = pieces[0].memo
    known: Segment | None = memo.get(encoding)
    if known is None:
        known = memo[encoding] = _counted(pieces, encoding)
    return known


def _counted(pieces: Sequence[Piece], encoding: str) -> Segment:
    owner, data = pieces[0].owner, b"".join(piece.data for piece in pieces)
    text = b"".join(piece.data for piece in pieces if piece.tokens is None)
    counted = tokens.count(text.decode("utf-8", "replace"), encoding) if text else 0
    return Segment(
        owner.kind,
        owner.id,
        owner.title,
        hashlib.sha256(data).hexdigest()[:16],
        counted + sum(piece.tokens or 0 for piece in pieces),
        len(data),
        data,
        is_picture=any(piece.tokens is not None for piece in pieces),
    )
