"""The words of a compaction: what the model is asked, and what stands for the old part."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agents.context.view import Item
from agents.providers.base import Message, Owner

Count = Callable[[str], int]

#: Tokens of the words around a summary's own text, at most.
FRAME_TOKENS = 60

#: Tokens of the request for a summary, at most.
ASKING_TOKENS = 500

_OPENING = (
    "Summary of the earlier part of this conversation (it was compacted to save room; "
    "its entries {first} to {last} stay in the transcript):"
)

_ASKING = """\
The conversation is about to be compacted: everything above will be replaced by the \
summary you write now. Write only the summary, at most {words} words, in the language \
of the conversation, and call no tool. Whoever continues knows nothing but it, so keep \
exact names, paths, numbers, commands and error texts. Use these headings, and leave out \
those that would be empty:
## Goal
## Constraints
## Decisions
## Evidence
## Files
## Done
(each completed call that changed something, so that it is not repeated)
## Next
## Open questions"""

_FOCUS = "\nA person asked to keep in particular: {focus}"


def asking(budget: int, focus: str = "") -> Message:
    """The message that asks for a summary of at most `budget` tokens."""
    text = _ASKING.format(words=max(80, budget // 2))
    if focus.strip():
        text += _FOCUS.format(focus=focus.strip()[:500])
    return Message("user", text, Owner("message", "compaction", "Request for summary"))


def message_of(summary: Item) -> Message:
    """A stored summary as the model reads it."""
    body = summary.body
    first, last = body["covers"]
    parts = [_OPENING.format(first=first, last=last), body["text"]]
    parts += [
        skill["text"]
        if skill["text"].startswith("[SKILL_PRUNED")
        else f"Skill {skill['name']}, still loaded:\n{skill['text']}"
        for skill in body.get("skills", ())
    ]
    owner = Owner("message", f"entry:{summary.seq}", "Summary")
    return Message("user", "\n\n".join(parts), owner)


def mechanical(
    rows: Sequence[Item], previous: str, budget: int, count: Count, *, open_end: bool
) -> str:
    """A summary without a model: what was asked, said, touched and done.

    At most `budget` tokens, however long the rows are. `open_end` says that the last
    request of a person is still worked on.
    """
    for lines in (40, 20, 10, 5, 3, 2, 1):
        text = _outline(rows, previous, lines, open_end)
        if count(text) <= budget:
            return text
    return _cut(text, budget, count)


def _cut(text: str, budget: int, count: Count) -> str:
    """The longest head of a text that fits, by halving."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if count(text[:middle]) <= budget else (low, middle - 1)
        )
    return text[:low]


def _outline(rows: Sequence[Item], previous: str, lines: int, open_end: bool) -> str:
    clip = 60 + 12 * lines
    asked = [_line(row.body.get("text"), clip) for row in rows if row.kind == "user"]
    said = [
        _line(row.body.get("text"), clip) for row in rows if row.kind == "assistant"
    ]
    sections = {
        "Before": [previous[: clip * lines]] if previous else [],
        "Goal": asked[-1:],
        "Constraints": asked[:-1][-lines:],
        "Evidence": [line for line in said if line][-lines:],
        "Files": _files(rows)[-lines:],
        "Done": _done(rows, clip)[-lines:],
        "Next": ["Go on with the last request."] if open_end else [],
    }
    return "\n".join(
        f"## {title}\n" + "\n".join(f"- {line}" for line in found)
        for title, found in sections.items()
        if found
    )


def _line(text: str | None, clip: int) -> str:
    flat = " ".join((text or "").split())
    return flat if len(flat) <= clip else f"{flat[: clip - 1]}…"


def _files(rows: Sequence[Item]) -> list[str]:
    """Paths that calls touched, the latest last, with the hash last seen."""
    seen: dict[str, str] = {}
    for row in rows:
        meta = row.body.get("meta") or {} if row.kind == "tool_result" else {}
        if path := meta.get("path"):
            seen.pop(path, None)
            seen[path] = (meta.get("sha256") or "")[:8]
    return [f"{path} (sha256 {sha})" if sha else path for path, sha in seen.items()]


def _done(rows: Sequence[Item], clip: int) -> list[str]:
    """The calls and how each ended."""
    calls: dict[str, str] = {}
    lines = []
    for row in rows:
        if row.kind == "assistant":
            for call in row.body.get("tool_calls", ()):
                calls[call["call_id"]] = _arguments(call["arguments"], clip)
        elif row.kind == "tool_result":
            lines.append(_ended(row.body, calls.get(row.body.get("call_id", ""), "")))
    return lines


def _ended(body: dict[str, Any], arguments: str) -> str:
    code = (body.get("error") or {}).get("code", "error")
    how = "ok" if body.get("ok") else f"failed ({code})"
    return f"{body.get('name', 'tool')} {arguments}: {how}"


def _arguments(text: str, clip: int) -> str:
    try:
        values = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return _line(text, clip)
    if not isinstance(values, dict):
        return _line(text, clip)
    each = max(20, clip // 3)
    said = (f"{key}={_line(str(value), each)}" for key, value in values.items())
    return _line(" ".join(said), clip)
