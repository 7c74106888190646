"""Who owns which bytes of a request, and what they cost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.context import tokens
from agents.providers.base import Block, Owner, Piece, Request
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


def segments_of(
    request: Request, encoding: str, startup: Sequence[Block] = ()
) -> tuple[Segment, ...]:
    """The request's bytes by owner: joined, they are its body.

    `startup` are the parts of the startup context: its message is cut at their borders.
    """
    grouped: list[tuple[Owner, list[bytes]]] = []
    for piece in _cut(request.pieces, startup):
        if grouped and grouped[-1][0] == piece.owner:
            grouped[-1][1].append(piece.data)
        else:
            grouped.append((piece.owner, [piece.data]))
    return tuple(_segment(owner, b"".join(parts), encoding) for owner, parts in grouped)


def _cut(pieces: Iterable[Piece], startup: Sequence[Block]) -> Iterable[Piece]:
    for piece in pieces:
        if piece.owner.kind == "startup" and startup:
            yield from _cut_startup(piece, startup)
        else:
            yield piece


def _cut_startup(piece: Piece, blocks: Sequence[Block]) -> Iterable[Piece]:
    """The piece in as many parts as there are blocks; what is around stays with them."""
    rest, owner = piece.data, blocks[0].owner
    for following in blocks[1:]:
        before, found, behind = rest.partition(inside_string(following.text))
        if not found:
            break
        yield Piece(owner, before)
        rest, owner = found + behind, following.owner
    yield Piece(owner, rest)


def _segment(owner: Owner, data: bytes, encoding: str) -> Segment:
    return Segment(
        owner.kind,
        owner.id,
        owner.title,
        hashlib.sha256(data).hexdigest()[:16],
        tokens.count(data.decode("utf-8", "replace"), encoding),
        len(data),
        data,
    )
