"""What the model is shown of a transcript: a pure function of its entries.

The order is the log's, but for two rules that keep every request an extension of the
one before and every call answered:

1. What people or notices said after a request was assembled (`seen_seq` of its answer)
   comes after that answer and the results of its calls.
2. A call without a result gets a synthetic one: its outcome is unknown.

A `rewind` notice leaves out what lies between its `to_seq` and itself.
"""

from __future__ import annotations

import html
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.providers.base import Message, Owner, Picture, SegmentKind, ToolRequest
from agents.tools.caps import output_path

INTERRUPTED = "interrupted: it may or may not have taken effect; check before repeating"


@dataclass(frozen=True, slots=True)
class Item:
    """An entry as the view needs it."""

    seq: int
    kind: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Round:
    """An answer, the results of its calls by call id, and the span of its making.

    Whoever spoke with a seq between `seen` and `end` was not heard by the answer.
    """

    answer: Item
    results: dict[str, Item]

    @property
    def seen(self) -> int:
        return int(self.answer.body.get("seen_seq", self.answer.seq))

    @property
    def end(self) -> int:
        return max((row.seq for row in self.results.values()), default=self.answer.seq)


def view(items: Iterable[Item]) -> tuple[Message, ...]:
    """The messages of the outgoing request, in wire order."""
    rows = standing(items)
    rounds = rounds_of(rows)
    ends = [one.end for one in rounds]
    placed = [((one.end, 0), _round_messages(one)) for one in rounds]
    placed += [
        (_place(row.seq, rounds, ends), _spoken(row))
        for row in rows
        if row.kind in ("user", "notice")
    ]
    placed.sort(key=lambda pair: pair[0])
    return tuple(message for _, messages in placed for message in messages)


def _place(seq: int, rounds: Sequence[Round], ends: Sequence[int]) -> tuple[int, int]:
    """Where a spoken row stands: its own seq, or behind the round that missed it."""
    index = bisect(ends, seq)
    if index < len(rounds) and rounds[index].seen < seq:
        return rounds[index].end, seq
    return seq, 0


def rounds_of(rows: Iterable[Item]) -> list[Round]:
    rounds: list[Round] = []
    for row in rows:
        if row.kind == "assistant":
            rounds.append(Round(row, {}))
        elif row.kind == "tool_result" and rounds:
            rounds[-1].results.setdefault(row.body["call_id"], row)
    return rounds


def standing(items: Iterable[Item]) -> list[Item]:
    """The entries that no later rewind took out of the view."""
    kept: list[Item] = []
    for item in items:
        if item.kind == "notice" and item.body.get("type") == "rewind":
            kept = [one for one in kept if one.seq <= item.body["to_seq"]]
        kept.append(item)
    return kept


def _round_messages(one: Round) -> list[Message]:
    """An assistant message and exactly one result for each of its calls, in order."""
    answer, body = one.answer, one.answer.body
    calls = tuple(
        ToolRequest(call["call_id"], call["name"], call["arguments"])
        for call in body.get("tool_calls", ())
    )
    if not body.get("text") and not calls:
        return []
    said = Message(
        "assistant",
        body.get("text", ""),
        Owner("message", f"entry:{answer.seq}", "Assistant message"),
        tool_calls=calls,
        reasoning=body.get("reasoning", ""),
        opaque=body.get("opaque"),
    )
    results = [_result(answer, call, one.results) for call in calls]
    return [said, *results, *_images_of(one, calls)]


def _images_of(one: Round, calls: Sequence[ToolRequest]) -> list[Message]:
    """One message with all images that the results of a round brought, if any did."""
    sources: list[str] = []
    pictures: list[Picture] = []
    for call in calls:
        row = one.results.get(call.call_id)
        brought = pictures_of(row) if row else []
        if row and brought:
            meta = row.body["meta"]
            source = meta.get("path") or ", ".join(one.name for one in brought)
            sources.append(f"{meta.get('tool') or row.body['name']}: {source}")
            pictures += brought
    if not pictures:
        return []
    owner = Owner("message", f"entry:{one.end}:images", "Images of tool results")
    text = f"(images from {'; '.join(sources)})"
    return [Message("user", text, owner, pictures=tuple(pictures))]


def pictures_of(item: Item) -> list[Picture]:
    """The images that a message or a tool's result brought into the conversation."""
    if item.kind == "tool_result":
        rows = (item.body.get("meta") or {}).get("images") or ()
    else:
        rows = item.body.get("images") or ()
    return [
        Picture(
            row["sha256"],
            row["mime"],
            row["width"],
            row["height"],
            row["name"],
            item.seq,
            Owner("message", f"entry:{item.seq}:image:{number}", "Image"),
        )
        for number, row in enumerate(rows)
    ]


def _result(answer: Item, call: ToolRequest, results: dict[str, Item]) -> Message:
    row = results.get(call.call_id)
    if row is None:
        owner = Owner(
            "message", f"entry:{answer.seq}:{call.call_id}", "Missing tool result"
        )
        return Message("tool", INTERRUPTED, owner, call_id=call.call_id, ok=False)
    skill = (row.body.get("meta") or {}).get("skill")
    owner = Owner(
        "skills" if skill else "message",
        f"entry:{row.seq}",
        f"Skill {skill}" if skill else f"Result of {call.name}",
    )
    return Message(
        "tool",
        result_text(row.body),
        owner,
        call_id=call.call_id,
        ok=bool(row.body.get("ok")),
    )


def result_text(body: dict[str, Any]) -> str:
    """What the model reads of a result: output, error with its code, notes."""
    output, error = body.get("output", ""), body.get("error")
    parts = [output or ("" if error else "(no output)")]
    if error:
        parts.append(f"error {error['code']}: {error['message']}")
    return "\n".join(filter(None, (*parts, *body.get("notes", ()))))


def _spoken(item: Item) -> list[Message]:
    body = item.body
    if item.kind == "user":
        name = body.get("name")
        text = f"[{name}] {body.get('text', '')}" if name else body.get("text", "")
        files = map(attached_text, body.get("files", ()))
        named = map(mentioned_text, body.get("mentions", ()))
        text = "\n\n".join(filter(None, [text, *files, *named]))
        title = "User message"
    elif body.get("to_model"):
        text, title = body["text"], body.get("path") or "Notice"
    else:
        return []
    owner = Owner(_kind_of(body), f"entry:{item.seq}", title)
    said = Message("user", text, owner, pictures=tuple(pictures_of(item)))
    return [said, *_called_skill(item)]


def _called_skill(item: Item) -> list[Message]:
    """The text of the skill that a person called in a message by `/name`."""
    skill = item.body.get("skill")
    if item.kind != "user" or not skill:
        return []
    owner = Owner("skills", f"entry:{item.seq}", f"Skill {skill['name']}")
    return [Message("user", skill["text"], owner)]


def attached_text(file: dict[str, Any]) -> str:
    """A text that came with a message; nothing in it can end its frame."""
    text, name = file["text"], html.escape(file["name"])
    inside = text.replace("</attached", "<\\/attached")
    if (left := file["characters"] - len(text)) > 0:
        inside += (
            f"\n[{left:,} more characters; read them with read_file "
            f'path="{output_path(file["sha256"])}"]'
        )
    return f'<attached name="{name}">\n{inside}\n</attached>'


def mentioned_text(row: dict[str, Any]) -> str:
    """A file, some lines or a folder that a message named with `@`."""
    inside = row["text"].replace("</file", "<\\/file")
    lines = f' lines="{row["lines"]}"' if row["lines"] else ""
    return f'<file path="{html.escape(row["path"])}"{lines}>\n{inside}\n</file>'


def _kind_of(body: dict[str, Any]) -> SegmentKind:
    """Which row of the account a spoken entry belongs to."""
    kinds: dict[str, SegmentKind] = {"rules": "rules", "skill": "skills"}
    return kinds.get(body.get("type", ""), "message")
