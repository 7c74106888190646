"""The hash chain: plain functions over plain values, without a database.

`body_digest = sha256(nonce || body)` and `digest = sha256(previous digest ||
canonical(seq, kind, turn, author, created_at, body_digest))`. Digests and nonces enter
as their hexadecimal text, everything else as UTF-8.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workspace.errors import BrokenChain

#: What the first entry of a conversation is chained to.
GENESIS = "0" * 64


def canonical(value: Any) -> str:
    """The one text of a JSON value: sorted keys, no spaces, NUL as an escape.

    Lone surrogates become U+FFFD. Raises ValueError for NaN, infinities and nesting
    beyond what Python can walk, TypeError for what JSON has no word for.
    """
    try:
        return json.dumps(
            _plain(value),
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        )
    except RecursionError:
        raise ValueError("A body is nested too deeply to be stored.") from None


def _plain(value: Any) -> Any:
    """The value with text that UTF-8 can hold, and nothing but JSON's own types."""
    if isinstance(value, str):
        return _sound(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value!r} has no place in a body: JSON cannot hold it.")
        return value
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    raise TypeError(f"A body cannot hold a {type(value).__name__}; use JSON's types.")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"The key {key!r} of a body must be text.")
    return _sound(key)


def _sound(text: str) -> str:
    """The text with surrogate pairs joined and lone ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "replace")
    return str(text)


def new_nonce() -> str:
    """16 random bytes, so that a shredded body cannot be guessed from its digest."""
    return secrets.token_hex(16)


def digest_body(nonce: str, text: str) -> str:
    # An edited export may hold lone surrogates; it must fail, not crash.
    return hashlib.sha256((nonce + text).encode("utf-8", "surrogatepass")).hexdigest()


def stamp(moment: datetime) -> str:
    """UTC, ISO 8601, always six decimals."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class Link:
    """What an entry contributes to the chain, as the text that is hashed."""

    seq: int
    kind: str
    turn: str | None
    author: str | None
    created_at: str
    body_digest: str

    def digest(self, previous: str) -> str:
        text = previous + canonical(vars(self))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Walk:
    """A walk along a chain, from its start or from a head that is known to be good."""

    seq: int = 0
    digest: str = GENESIS

    def step(self, link: Link, digest: str) -> None:
        """Take one entry; BrokenChain names the first seq that does not fit."""
        if link.seq != self.seq + 1:
            raise BrokenChain(self.seq + 1, f"it is missing; {link.seq} comes next.")
        if link.digest(self.digest) != digest:
            raise BrokenChain(
                link.seq, "its digest does not match its content and the entry before."
            )
        self.seq, self.digest = link.seq, digest


def check_body(seq: int, nonce: str, text: str, digest: str) -> None:
    if digest_body(nonce, text) != digest:
        raise BrokenChain(seq, "its body is not the one that was stored.")
