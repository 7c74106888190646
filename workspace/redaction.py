"""Keeps secrets out of records and log lines.

Two nets, both needed: shapes that secrets usually have, and the very values that this
process has had in its hands (`register`). Everything that is stored for reading later
or written to a log passes through `redact`.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

MARK = "[redacted]"

# Shorter values would blank out ordinary words.
LEAST_SECRET = 8  # characters
MOST_SECRETS = 2000
# Nothing shorter has the shape of a secret: `://u:p@`.
LEAST_SHAPE = 7

_NAMES = (
    r"password|passwd|passphrase|pwd|secret|token|api[-_ ]?key|access[-_]?key|"
    r"private[-_]?key|signing[-_]?key|encryption[-_]?key|credentials?|sessionid|"
    r"authorization|x-goog-api-key"
)
_NAMED = rf"((?:{_NAMES})\\*[\"']?\s{{0,4}}(?:=>|[:=])\s{{0,4}})"
_KEY_STARTS = (
    r"sk-[\w-]{16,}|[sr]k_(?:live|test)_\w{10,}|whsec_\w{16,}|"
    r"gh[oprsu]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
    r"xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|"
    r"hf_\w{20,}|gsk_\w{20,}|npm_\w{30,}|pypi-[\w-]{30,}|dop_v1_\w{40,}|"
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"
)


class _Shape(NamedTuple):
    """How a kind of secret looks; `hint` finds at once, in lower case, that none is."""

    hint: re.Pattern[str]
    pattern: re.Pattern[str]
    replacement: str


def _shape(hint: str, pattern: str, replacement: str) -> _Shape:
    flags = re.IGNORECASE | re.DOTALL
    return _Shape(re.compile(hint), re.compile(pattern, flags), replacement)


# Without IGNORECASE an alternation of plain words is searched ten times as fast.
_NAME_HINT = (
    r"(?:passw|passphrase|pwd|secret|token|key|credential|sessionid|authorization)"
    r"\w{0,4}\\*[\"']?\s{0,4}[:=]"
)
_KEY_HINT = (
    r"sk-|k_live_|k_test_|whsec_|gh[oprsu]_|github_pat_|glpat-|xox|akia|asia|aiza|"
    r"hf_|gsk_|npm_|pypi-|dop_v1_|eyj"
)


# No pattern starts with an open repetition: each is linear in the text's length.
_SHAPES = (
    # A key block whose end was cut off is a secret to the end of the text.
    _shape(
        "private key-----",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
        MARK,
    ),
    _shape(
        "bearer|basic|digest",
        r"\b(bearer|basic|digest)(\s+)[\w.~+/=:-]{8,}",
        rf"\1\2{MARK}",
    ),
    _shape(
        "cookie",
        r"\b((?:set-)?cookie\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)[^\r\n\"'\\]{6,}",
        rf"\1{MARK}",
    ),
    # To the last @ before the path: passwords may hold one.
    _shape(
        "://",
        r"(://[^\s/:@\"'<>]{0,200}:)[^\s/\"'<>]{1,400}@",
        rf"\1{MARK}@",
    ),
    _Shape(re.compile(_KEY_HINT), re.compile(rf"\b(?:{_KEY_STARTS})"), MARK),
    _shape(
        _NAME_HINT,
        _NAMED + r"(\\*[\"'])((?:(?!\2)[^\r\n]){4,4000}?)(?=\2)",
        rf"\1\2{MARK}",
    ),
    _shape(
        _NAME_HINT,
        _NAMED + r"(?!\[redacted\])(?!(?:bearer|basic|digest|true|false|null|none)\b)"
        r"[^\s\"'\\,;&)}\]]{6,}",
        rf"\1{MARK}",
    ),
    _shape(
        "-[ptas]",
        r"((?:^|\s)--?(?:password|token|api-?key|secret)[ =])[^\s\"']{4,}",
        rf"\1{MARK}",
    ),
)
_SECRET_NAME = re.compile(
    rf"(?i)(?:^|[-_. ])(?:{_NAMES})$|^(?:set-)?cookie$|^x-api-key$"
)

_lock = threading.Lock()
_known: OrderedDict[str, None] = OrderedDict()
_known_pattern: re.Pattern[str] | None = None


def register(*values: str) -> None:
    """Remember secret values, so that `redact` finds them whatever their shape.

    Held in memory only. The oldest are forgotten beyond `MOST_SECRETS`.
    """
    global _known_pattern
    with _lock:
        before = len(_known)
        for value in values:
            for form in _forms(value.strip()):
                _known[form] = None
                _known.move_to_end(form)
        while len(_known) > MOST_SECRETS:
            _known.popitem(last=False)
        if len(_known) != before or _known_pattern is None:
            _known_pattern = _alternatives(list(_known))


def _forms(value: str) -> set[str]:
    """A secret as written, inside JSON, and inside an address."""
    if len(value) < LEAST_SECRET:
        return set()
    return {value, json.dumps(value)[1:-1], quote(value, safe="")}


def _alternatives(values: list[str]) -> re.Pattern[str] | None:
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if values else None


def redact(text: str) -> str:
    """The text with everything that is or looks like a secret replaced."""
    if known := _known_pattern:
        text = known.sub(MARK, text)
    if len(text) < LEAST_SHAPE:
        return text
    lowered = text.lower()
    for hint, pattern, replacement in _SHAPES:
        if hint.search(lowered):
            text = pattern.sub(replacement, text)
    return text


def redact_data(value: Any) -> Any:
    """Plain data with its strings redacted, and whatever a secret's name holds."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {
            redact(str(key)): MARK
            if item not in (None, "") and is_secret_name(str(key))
            else redact_data(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact_data(item) for item in value]
    return value


def is_secret_name(name: str) -> bool:
    """Whether such a field holds a secret: `api_key` does, `tokens` does not."""
    return _SECRET_NAME.search(name) is not None


class RedactingFilter(logging.Filter):
    """Redacts a log line, its arguments and its trace before a handler writes them."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = redact(record.getMessage())
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        return True
