"""What a retry or an edit put something else in place of: folded on the page."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Q

from workspace import transcript
from workspace.models import Entry


@dataclass
class Fold:
    """Entries that something else was put in place of: one line on the page."""

    first: int
    last: int
    count: int = 0


def folds(conversation_id: UUID, *, since: int) -> list[Fold]:
    """The folds that reach to `since` or later, each whole, with what it hides.

    Ranges that overlap or touch are one fold, however little of it a window shows.
    """
    found: list[Fold] = []
    for first, last in sorted(replaced(conversation_id, since=since)):
        if found and first <= found[-1].last + 1:
            found[-1].last = max(found[-1].last, last)
        else:
            found.append(Fold(_beginning(conversation_id, first), last))
    if found:
        _count(conversation_id, found)
    return found


def _beginning(conversation_id: UUID, first: int) -> int:
    """Where a fold begins: a message that was itself an edit hides more before it."""
    while True:
        found = transcript.entries(conversation_id, after=first - 1, before=first + 1)
        earlier = transcript.body(found[0]).get("supersedes_seq") if found else None
        if not isinstance(earlier, int) or earlier >= first:
            return first
        first = earlier


def _count(conversation_id: UUID, found: list[Fold]) -> None:
    shown = Entry.objects.filter(conversation=conversation_id).exclude(
        kind__in=(Entry.Kind.TOOL_RESULT, Entry.Kind.SURFACE)
    )
    counts = shown.aggregate(
        **{
            f"n{fold.first}": Count("pk", filter=Q(seq__range=(fold.first, fold.last)))
            for fold in found
        }
    )
    for fold in found:
        fold.count = counts[f"n{fold.first}"]


def replaced(conversation_id: UUID, *, since: int = 0) -> list[tuple[int, int]]:
    """Ranges (first, last seq) that a retry or an edit put something else in place of.

    Only what stands at or after `since` can be replaced by what comes after it.
    """
    marks = Entry.objects.filter(
        Q(kind=Entry.Kind.NOTICE, stored__text__contains='"type":"rewind"')
        | Q(kind=Entry.Kind.USER, stored__text__contains='"supersedes_seq"'),
        conversation=conversation_id,
        seq__gte=since,
    ).select_related("stored")
    entries = list(marks.order_by("seq"))
    ranges = []
    for entry, body in zip(entries, transcript.bodies(entries), strict=True):
        if entry.kind == Entry.Kind.NOTICE and "to_seq" in body:
            ranges.append((int(body["to_seq"]) + 1, entry.seq - 1))
        elif isinstance(body.get("supersedes_seq"), int):
            ranges.append((body["supersedes_seq"], entry.seq - 1))
    return [span for span in ranges if span[0] <= span[1]]
