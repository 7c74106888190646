"""JSON bytes, made so that every byte of a request belongs to one piece."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from agents.providers.base import ENVELOPE, Owner, Piece


def clean(text: str) -> str:
    """Text that UTF-8 and every service can carry: no lone surrogates, no NUL."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, so that two halves that belong together become one character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_values(value: Any) -> Any:
    """The same for every string inside plain JSON values."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): clean_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_values(item) for item in value]
    return value


def dumps(value: Any) -> bytes:
    """Compact JSON; equal values with equal key order give equal bytes."""
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates, or whole numbers beyond 64 bits
        return _dumps_slowly(value)


def _dumps_slowly(value: Any) -> bytes:
    text = json.dumps(
        clean_values(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return text.encode()


def inside_string(text: str) -> bytes:
    """The text as it stands between the quotes of a JSON string."""
    return dumps(clean(text))[1:-1]


def envelope(data: bytes) -> Piece:
    return Piece(ENVELOPE, data)


def listed(items: Iterable[tuple[Owner, bytes]]) -> Iterator[Piece]:
    """Elements of a JSON array; the comma before an element is part of its piece."""
    comma = b""
    for owner, data in items:
        yield Piece(owner, comma + data)
        comma = b","


def new_call_id() -> str:
    """An id for a call that the service left without a usable one."""
    return f"call_{secrets.token_hex(12)}"


def count(value: Any) -> int:
    """A token count as services report it: nonsense counts as zero."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return max(0, int(value)) if is_number and value == value else 0
