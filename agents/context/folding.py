"""What is sent of a transcript: the newest summary, and what it does not stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agents.context.view import Item, standing


@dataclass(frozen=True, slots=True)
class Folded:
    """What is sent of a transcript: a summary, if there is one, and these entries."""

    summary: Item | None
    rows: list[Item]


def fold(items: Iterable[Item]) -> Folded:
    """Leave out what the newest standing summary stands for."""
    rows = standing(items)
    summary = next((row for row in reversed(rows) if row.kind == "summary"), None)
    if summary is None:
        return Folded(None, rows)
    covered, kept = summary.body["covers"][1], set(summary.body.get("kept", ()))
    by_seq = {row.seq: row for row in rows}
    shown = {
        int(seq): by_seq[of]
        for seq, of in summary.body.get("restored", {}).items()
        if of in by_seq
    }
    left = [
        _restored(row, shown.get(row.seq))
        for row in rows
        if row.kind != "summary"
        and (row.seq > covered or row.seq in kept or is_record(row))
    ]
    return Folded(summary, left)


def is_record(row: Item) -> bool:
    """Entries that are not messages: they say how the request is made."""
    return row.kind in ("startup", "surface") or (
        row.kind == "notice" and row.body.get("type") == "prune"
    )


def _restored(row: Item, original: Item | None) -> Item:
    """A result that pointed to a covered one shows what that one showed."""
    if original is None:
        return row
    meta = {key: one for key, one in row.body["meta"].items() if key != "guard"}
    body = {**row.body, "output": original.body.get("output", ""), "meta": meta}
    return Item(row.seq, row.kind, body)
