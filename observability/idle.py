"""Idle cost: what a conversation carries before anybody has worked in it.

Written once per conversation, from its first request, with a digest of the
configuration; so a change of tools, rules or prompt shows as a step with its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone

from agents.context.report import CATEGORIES, category_of
from agents.models import ModelCall
from observability.models import IdleCost

#: Parts of a request that stand before the first message.
PREFIX = frozenset({"tools", "system", "startup", "rules", "skills", "envelope"})
#: What differs between two starts without any change of the configuration.
VOLATILE = frozenset({"environment"})
#: How far back new conversations are looked for.
RECENT = timedelta(hours=24)
PORTION = 500  # rows

#: A segment as a model call stores it: kind, id, digest, tokens.
Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Idle:
    """The prefix of a first request: its tokens by category, and its configuration."""

    configuration: str
    tokens: int
    parts: dict[str, int]


def idle_of(rows: Iterable[Row]) -> Idle:
    """Pure: what the segments of a first request say."""
    digest = hashlib.sha256()
    parts: dict[str, int] = {}
    for kind, id_, content, tokens in rows:
        if kind not in PREFIX:
            continue
        key = category_of(kind, id_)
        parts[key] = parts.get(key, 0) + tokens
        if kind != "envelope" and id_ not in VOLATILE:
            digest.update(f"{kind}\0{id_}\0{content}\n".encode())
    ordered = {key: parts[key] for key in CATEGORIES if key in parts}
    return Idle(digest.hexdigest()[:16], sum(parts.values()), ordered)


def record_idle_costs(*, everything: bool = False) -> int:
    """Write down what new conversations carry; returns how many were new."""
    known = IdleCost.objects.filter(conversation=OuterRef("run__conversation"))
    answered = ModelCall.objects.filter(state=ModelCall.State.COMPLETED)
    earlier = answered.filter(
        run__conversation=OuterRef("run__conversation"), pk__lt=OuterRef("pk")
    )
    calls = answered.filter(~Exists(known), ~Exists(earlier), round=1)
    calls = calls.select_related("run")
    if not everything:
        calls = calls.filter(at__gte=timezone.now() - RECENT)
    written = 0
    rows: list[IdleCost] = []
    for call in calls.order_by("at", "pk").iterator(chunk_size=PORTION):
        rows.append(_row(call))
        if len(rows) == PORTION:
            written += _save(rows)
    return written + _save(rows)


def _row(call: ModelCall) -> IdleCost:
    idle, run = idle_of(call.segments), call.run
    reported = None
    if call.input is not None:
        reported = call.input + (call.cache_read or 0) + (call.cache_write or 0)
    return IdleCost(
        conversation_id=run.conversation_id,
        workspace_id=run.workspace_id,
        agent_id=run.agent_id,
        model_name=call.model_name,
        mode=call.mode,
        at=call.at,
        configuration=idle.configuration,
        tokens=idle.tokens,
        reported=reported,
        parts=idle.parts,
    )


def _save(rows: list[IdleCost]) -> int:
    """Somebody else may have been first; theirs says the same."""
    IdleCost.objects.bulk_create(rows, ignore_conflicts=True)
    count = len(rows)
    rows.clear()
    return count


@dataclass(frozen=True, slots=True)
class Change:
    """A conversation began with another configuration than the one before it."""

    at: datetime
    before: int
    after: int
    category: str
    moved: int

    @property
    def delta(self) -> int:
        return self.after - self.before


def changes_in(rows: Iterable[IdleCost]) -> list[Change]:
    """Steps of the idle cost, each within its own agent, model and mode; in order."""
    last: dict[tuple[Any, ...], IdleCost] = {}
    found = []
    for row in rows:
        key = (row.agent_id, row.model_name, row.mode)
        before = last.get(key)
        if before is not None and before.configuration != row.configuration:
            category, moved = _most_moved(before.parts, row.parts)
            found.append(Change(row.at, before.tokens, row.tokens, category, moved))
        last[key] = row
    return found


def _most_moved(before: dict[str, int], after: dict[str, int]) -> tuple[str, int]:
    """The category whose tokens changed most; ("", 0) when only words changed."""
    moves = {key: after.get(key, 0) - before.get(key, 0) for key in {*before, *after}}
    key = max(sorted(moves), key=lambda key: abs(moves[key]), default="")
    return (key, moves[key]) if key and moves[key] else ("", 0)
