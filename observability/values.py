"""Makes an event's values fit for storing: plain, clean, without secrets, of one size.

Order matters: each string is cut far above the final limit, then redacted, then the
whole is cut to size, so that no secret survives as the half that a cut left over.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from workspace.redaction import redact, redact_data

MOST_TEXT = 2000  # characters of an event's line
MOST_DATA = 16 * 1024  # bytes of an event's data as JSON
MOST_RAW = 64 * 1024  # characters of one string that are looked at
MOST_DEPTH = 12
# What neither a PostgreSQL text nor UTF-8 can hold.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with NUL made visible and lone surrogates replaced."""
    return _UNSTORABLE.sub(lambda hit: "␀" if hit[0] == "\0" else "�", text)


def fit_text(text: str) -> str:
    """The line of an event, redacted, at most `MOST_TEXT` characters."""
    line = redact(clean(text[:MOST_RAW]))
    if len(line) <= MOST_TEXT:
        return line
    return f"{line[:MOST_TEXT]}… ({len(text)} characters)"


def fit_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an event, redacted, at most `MOST_DATA` bytes as JSON.

    Strings that make it too large are cut, the longest first; a marker in their place
    names their size and digest.
    """
    fitted: dict[str, Any] = redact_data(plain(data))
    for limit in (4096, 1024, 256, 64):
        if size(fitted) <= MOST_DATA:
            return fitted
        fitted = _cut_strings(fitted, limit)
    if size(fitted) <= MOST_DATA:
        return fitted
    return _outline(fitted)


def size(value: Any) -> int:
    """Bytes of the value as JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def plain(value: Any, depth: int = 0) -> Any:
    """The value in JSON's own types; what JSON has no type for becomes a string."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _shortened(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if depth >= MOST_DEPTH:
        return "… (nested too deeply)"
    if isinstance(value, Mapping):
        return {
            clean(str(key))[:200]: plain(item, depth + 1) for key, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return f"{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    return value.isoformat() if isinstance(value, date) else clean(str(value))


def _shortened(text: str) -> str:
    if len(text) <= MOST_RAW:
        return clean(text)
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
    kept = clean(text[:MOST_RAW])
    return f"{kept}… ({len(text)} characters, sha256 {digest})"


_CUT = re.compile(r"… \(\d+ characters, sha256 [0-9a-f]{64}\)\Z")


def _cut_strings(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return _cut(value, limit)
    if isinstance(value, dict):
        return {key: _cut_strings(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut_strings(item, limit) for item in value]
    return value


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters and the marker, which survives a second cut."""
    earlier = _CUT.search(text)
    kept = text[: earlier.start()] if earlier else text
    if len(kept) <= limit:
        return text
    if earlier:
        return kept[:limit] + earlier[0]
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{kept[:limit]}… ({len(text)} characters, sha256 {digest})"


def _outline(data: dict[str, Any]) -> dict[str, Any]:
    """What is left of data with too many values: its small ones, and its size."""
    marker: dict[str, Any] = {"truncated": {"bytes": size(data), "keys": len(data)}}
    room = MOST_DATA - size(marker) - 2
    for key, value in data.items():
        cost = size({key: value})
        if cost <= 512 and cost <= room and key not in marker:
            marker[key] = value
            room -= cost
    return marker
