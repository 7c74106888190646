"""The messages that are sent of a transcript: summarised, placed, pruned.

A pure function of the entries: every worker, the explorer and the loop get the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agents.context import pruning
from agents.context.folding import fold
from agents.context.growing import Kept
from agents.context.summary import message_of
from agents.context.view import Item
from agents.providers.base import Message


def messages(items: Iterable[Item], kept: Kept | None = None) -> tuple[Message, ...]:
    """What follows the startup context, in wire order; `kept` makes it cheap."""
    kept = kept or Kept()
    folded = fold(items)
    pruned = pruning.recorded(folded.rows)
    shown = kept.pruned.of(
        kept.view.of(folded.rows), lambda one: pruning.applied(one, pruned), pruned
    )
    return (message_of(folded.summary), *shown) if folded.summary else tuple(shown)


def verbatim(items: Sequence[Item]) -> frozenset[int]:
    """Seqs of the tool results that stand whole in what is sent next."""
    folded = fold(items)
    stubs = pruning.recorded(folded.rows).stubs
    return frozenset(
        row.seq
        for row in folded.rows
        if row.kind == "tool_result" and row.seq not in stubs
    )
