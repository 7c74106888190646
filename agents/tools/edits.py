"""Replacing text in a file's text: exactly one place, or a refusal that helps."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from agents.errors import ToolError

_MOST_NEAR_MISSES = 3
_MOST_LINES_COMPARED = 20_000
_LONGEST_LINE_COMPARED = 400
_MOST_DIFF_LINES = 4_000  # difflib's time grows with the square
_LONGEST_DIFF = 60_000  # characters
_LINE_NUMBER = re.compile(r"^\d+\t", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edited:
    """The new text, how many places were replaced, and the first one's line from 1."""

    text: str
    count: int
    line: int


def replace(text: str, old: str, new: str, replace_all: bool = False) -> Edited:
    """Replace `old`; raises `ToolError` unless it is found once (or `replace_all`).

    In a file whose lines all end in CRLF, both texts are taken to mean such lines.
    """
    if not old:
        raise ToolError(
            "old_string is empty. To insert, give a neighbouring line as old_string and "
            "repeat it in new_string; to fill a file use write_file.",
            code="empty_old_string",
        )
    if _all_crlf(text):
        old, new = _to_crlf(old), _to_crlf(new)
    if old == new:
        raise ToolError(
            "old_string and new_string are equal: nothing to do.", code="no_change"
        )
    count = text.count(old)
    if count == 0:
        raise ToolError(_not_found(text, old), code="no_match")
    # Places that overlap count once but leave it open which one is meant.
    if text.find(old) != text.rfind(old) and not replace_all:
        raise ToolError(
            f"old_string is found {max(count, 2)} times, at lines {_lines_of(text, old)}. Add "
            f"lines around it until it is unique, or set replace_all.",
            code="not_unique",
        )
    return Edited(text.replace(old, new), count, _line_at(text, text.index(old)))


def _all_crlf(text: str) -> bool:
    return 0 < text.count("\n") == text.count("\r\n")


def _to_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _line_at(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def _lines_of(text: str, old: str) -> str:
    """The first places' line numbers, as words for a sentence."""
    lines: list[str] = []
    at = text.find(old)
    while at >= 0 and len(lines) < 10:
        lines.append(str(_line_at(text, at)))
        at = text.find(old, at + 1)
    return ", ".join(lines) + (", ..." if at >= 0 else "")


def _not_found(text: str, old: str) -> str:
    message = "old_string is not in the file."
    if _LINE_NUMBER.match(old) and _LINE_NUMBER.sub("", old) in text:
        return f"{message} Leave out the line numbers that read_file puts in front."
    if misses := _near_misses(text, old):
        shown = "\n".join(f"{number}\t{line}" for number, line in misses)
        return f"{message} Nearest to its first line (check spaces and tabs):\n{shown}"
    return f"{message} Nothing in it is similar; read the file again."


def _near_misses(text: str, old: str) -> list[tuple[int, str]]:
    """Lines like the first line of `old` that says something: number and text."""
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    wanted = wanted[:_LONGEST_LINE_COMPARED]
    lines = [
        (number, line[:_LONGEST_LINE_COMPARED])
        for number, line in enumerate(text.split("\n")[:_MOST_LINES_COMPARED], 1)
    ]
    if not wanted:
        return []
    same = [(number, line) for number, line in lines if line.strip() == wanted]
    if same:
        return same[:_MOST_NEAR_MISSES]
    close = difflib.get_close_matches(
        wanted, {line.strip() for _, line in lines}, _MOST_NEAR_MISSES, 0.7
    )
    return [item for item in lines if item[1].strip() in close][:_MOST_NEAR_MISSES]


def unified(before: str, after: str, path: str) -> str:
    """What changed, as unified text; cut, or only counted, when it is very long."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _MOST_DIFF_LINES and not _differ_little(old, new):
        return f"@@ too long to show: {len(old)} lines before, {len(new)} after @@"
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="")
    text = "\n".join(lines)
    if len(text) > _LONGEST_DIFF:
        return f"{text[:_LONGEST_DIFF]}\n@@ cut: the rest is not shown @@"
    return text


def _differ_little(old: list[str], new: list[str]) -> bool:
    """Whether all but a few lines are a common beginning and end."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next(
        (i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head
    )
    return len(old) + len(new) - 2 * (head + tail) <= _MOST_DIFF_LINES
