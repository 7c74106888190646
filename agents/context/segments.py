"""Who owns which bytes of a request, and what they cost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agents.context import tokens
from agents.providers.base import Block, Piece, Request
from agents.providers.wire import inside_string

#: Between two parts of the startup context.
SEPARATOR = "\n\n"


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


def segments_of(
    request: Request, encoding: str, startup: Sequence[Block] = ()
) -> tuple[Segment, ...]:
    """The request's bytes by owner: joined, they are its body.

    `startup` are the parts of the startup context: its message is cut at their borders.
    """
    grouped: list[list[Piece]] = []
    for piece in _cut(request.pieces, startup):
        if grouped and grouped[-1][0].owner == piece.owner:
            grouped[-1].append(piece)
        else:
            grouped.append([piece])
    return tuple(_segment(pieces, encoding) for pieces in grouped)


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
    between = inside_string(SEPARATOR)
    end = piece.data.find(between.join(texts))
    if end < 0:
        yield Piece(blocks[0].owner, piece.data)
        return
    start, end = 0, end + len(texts[0])
    for block, following in pairwise(blocks):
        yield Piece(block.owner, piece.data[start:end])
        start, end = end, end + len(between) + len(inside_string(following.text))
    yield Piece(blocks[-1].owner, piece.data[start:])


def _segment(pieces: Sequence[Piece], encoding: str) -> Segment:
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
