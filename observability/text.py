"""Shows text that nobody vouches for: every character that hides becomes visible."""

from __future__ import annotations

import json
import re
from typing import Any

# Controls (but tab and newline), format and direction marks, separators that some
# programs take for a line's end, and tags that look like nothing at all.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with `␛` for an escape, `⟨U+202E⟩` for a direction override."""
    return _HIDDEN.sub(lambda hit: _picture(hit[0]), text)


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def json_line(value: Any) -> str:
    """One line of JSON in which hidden characters stand as escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _HIDDEN.sub(lambda hit: _escape(hit[0]), text)


def _escape(character: str) -> str:
    return (
        json.dumps(character)[1:-1]
        if ord(character) > 0x7E
        else (f"\\u{ord(character):04x}")
    )
