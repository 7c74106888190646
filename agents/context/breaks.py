"""Why a request read less from the service's prompt cache than the one before it left.

A request is expected to find in the cache what the conversation's previous one sent.
When it does not, the first part that differs and what was recorded in between tell why.
Everything here is a function of values; what it says is stored with the model call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from agents.context.segments import Segment
from agents.context.view import Item

Cause = Literal[
    "mode",
    "model",
    "effort",
    "endpoint",
    "rules reload",
    "policy change",
    "deferral switch",
    "restart",  # the surface was made anew: cleared, branched, imported
    "load",
    "resume",
    "fallback",
    "compaction",
    "prune step",
    "rewind",
    "erased",
    "images",
    "expired",
    "evicted",
    "nondeterminism",
]

#: Shorter prefixes are cached by no service (OpenAI and Anthropic: 1,024 tokens).
LEAST_CACHED = 1_024  # tokens
#: What a service may leave out of the cache although nothing changed: the last block of
#: 128 tokens that is not full, and the request's last bytes, which are behind it.
TOLERANCE = 256  # tokens
#: How long a service keeps a prefix that nobody asks for (Anthropic, OpenAI: 5 minutes).
KEPT_FOR = timedelta(minutes=5)

#: A segment as it is stored: kind, id, digest, tokens.
Row = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request and what its service reported. `input` is the whole of it, in tokens."""

    endpoint: str
    model: str
    mode: str
    effort: str
    at: datetime
    seen_seq: int
    rows: tuple[Row, ...]
    input: int | None
    cache_read: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """The first part that is no longer as it was sent before, and why."""

    segment: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Verdict:
    """`expected`: tokens that the cache should have held; None: nobody can tell.

    `change`: what differs from the previous request, also where nothing was lost.
    `lost` is 0 where the cache held what it should.
    """

    expected: int | None
    change: Change | None = None
    lost: int = 0

    @property
    def is_break(self) -> bool:
        return self.lost > 0


def judge(previous: Sent | None, sent: Sent, items: Sequence[Item]) -> Verdict:
    """Compare a request with the conversation's previous one.

    `items` is the transcript; what was recorded since the previous request is looked up
    in it. A loss of no more than `TOLERANCE` is none.
    """
    if previous is None:
        return Verdict(None if sent.input is None else 0)
    change = _change(previous, sent, items)
    if sent.input is None or sent.cache_read is None or previous.input is None:
        return Verdict(None, change)
    expected = min(previous.input, sent.input)
    lost = expected - sent.cache_read
    if expected < LEAST_CACHED or lost <= TOLERANCE:
        return Verdict(expected, change)
    return Verdict(expected, _blamed(previous, sent, change), lost)


def _blamed(previous: Sent, sent: Sent, change: Change | None) -> Change:
    """The service, when it did not even hold what is unchanged; else the change.

    Another model, endpoint or effort has a cache of its own, whatever is unchanged.
    """
    if change and change.segment == "request":
        return change
    held = (sent.cache_read or 0) + TOLERANCE
    unchanged = min(_common(previous.rows, sent.rows), previous.input or 0)
    if change and held >= unchanged:
        return change
    is_old = sent.at - previous.at > KEPT_FOR
    return Change("provider", "expired" if is_old else "evicted")


def _common(old: Sequence[Row], new: Sequence[Row]) -> int:
    """Tokens, by our estimate, of the parts that both begin with. A little low: parts
    that the service counts higher than we do must not look like its fault."""
    total = 0
    for row, same in _paired(old, new):
        if not same:
            break
        total += row[3]
    return int(total * 0.8)


def _change(previous: Sent, sent: Sent, items: Sequence[Item]) -> Change | None:
    if previous.endpoint != sent.endpoint:
        return Change("request", "endpoint")
    if previous.model != sent.model:
        return Change("request", "model")
    row = first_difference(previous.rows, sent.rows)
    if row is None:
        return Change("request", "effort") if previous.effort != sent.effort else None
    new = [item for item in items if item.seq > previous.seen_seq]
    if row[0] in ("tools", "system", "startup"):
        return Change(row[1], _prefix_cause(previous, sent, new))
    return Change(row[1], _message_cause(new))


def _prefix_cause(previous: Sent, sent: Sent, new: Iterable[Item]) -> Cause:
    """What was recorded about the declared tools, the instructions, the startup."""
    if previous.mode != sent.mode:
        return "mode"
    causes: dict[str, Cause] = {
        "load": "load",
        "resume": "resume",
        "fallback": "fallback",
        "mode": "mode",
        "rules": "rules reload",
        "reload": "rules reload",
        "policy": "policy change",
        "deferral": "deferral switch",
    }
    for item in reversed(list(new)):
        if item.kind == "surface" or item.body.get("type") == "declared":
            return causes.get(str(item.body.get("cause", "")), "restart")
        if item.kind == "startup":
            return causes.get(str(item.body.get("cause", "")), "rules reload")
    return "nondeterminism"


def _message_cause(new: Sequence[Item]) -> Cause:
    """What was recorded that leaves out, or changes, messages that were sent before."""
    found = {item.kind for item in new} | {str(item.body.get("type")) for item in new}
    causes: tuple[tuple[str, Cause], ...] = (
        ("redaction", "erased"),
        ("rewind", "rewind"),
        ("summary", "compaction"),
        ("prune", "prune step"),
        ("model", "images"),
    )
    return next((cause for name, cause in causes if name in found), "nondeterminism")


def first_difference(old: Sequence[Row], new: Sequence[Row]) -> Row | None:
    """The first part of the old request that the new one has otherwise, or not at all.

    None when the new one begins with all of the old one.
    """
    return next((row for row, same in _paired(old, new) if not same), None)


def _paired(old: Sequence[Row], new: Sequence[Row]) -> Iterator[tuple[Row, bool]]:
    """Each part of the old request, or what the new one has there, and whether they are
    the same. Bundles of the old one are compared with as many parts of the new one."""
    place = 0
    for row in old:
        count = bundled(row)
        there = new[place : place + count]
        place += count
        if count == 1:
            same = bool(there) and there[0][:3] == row[:3]
            yield (row if same or not there else there[0]), same
        else:
            same = len(there) == count and bundle(there)[2] == row[2]
            yield (row if same or not there else there[0]), same


#: So many messages of a long conversation are stored as one row with each call.
BUNDLE = 64


def rows_of(segments: Iterable[Segment]) -> list[Row]:
    """A request's parts, each with what identifies it, in wire order."""
    return [(one.kind, one.id, one.fingerprint, one.tokens) for one in segments]


def bundled_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows as they are stored: old messages by the bundle, so that a call's row does
    not grow with the conversation; what the API's format adds as one row.

    Bundles begin where messages begin, so those of a later request are the same.
    """
    stored: list[Row] = []
    messages: list[Row] = []
    for row in compared(rows):
        if row[0] == "message":
            messages.append(row)
            if len(messages) == BUNDLE:
                stored.append(bundle(messages))
                messages = []
        else:
            stored += [*messages, row]
            messages = []
    around = sum(row[3] for row in rows if row[0] == "envelope")
    return [*stored, *messages, ("envelope", "envelope", "", around)]


def bundle(rows: Sequence[Row]) -> Row:
    """Several messages as one row."""
    digest = hashlib.sha256("".join(row[2] for row in rows).encode()).hexdigest()[:16]
    name = f"bundle:{len(rows)}:{rows[0][1]}"
    return "message", name, digest, sum(row[3] for row in rows)


def bundled(row: Row) -> int:
    """How many parts the row stands for."""
    return int(row[1].split(":")[1]) if row[1].startswith("bundle:") else 1


def compared(rows: Iterable[Sequence[Any]]) -> tuple[Row, ...]:
    """Of a call's rows those that stay where they are in later requests.

    What the API's format adds is left out: its last bytes stand behind the newest
    message and move on with it.
    """
    found = ((str(a), str(b), str(c), int(d)) for a, b, c, d in rows)
    return tuple(row for row in found if row[0] != "envelope")
