"""The messages that are sent of a transcript: summarised, placed, pruned.

A pure function of the entries: every worker, the explorer and the loop get the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agents.context import pruning
from agents.context.folding import fold
from agents.context.summary import message_of
from agents.context.view import Item, view
from agents.providers.base import Message


def messages(items: Iterable[Item]) -> tuple[Message, ...]:
    """What follows the startup context, in wire order."""
    folded = fold(items)
    shown = pruning.apply(view(folded.rows), pruning.recorded(folded.rows))
    return (message_of(folded.summary), *shown) if folded.summary else shown


def verbatim(items: Sequence[Item]) -> frozenset[int]:
    """Seqs of the tool results that stand whole in what is sent next."""
    folded = fold(items)
    stubs = pruning.recorded(folded.rows).stubs
    return frozenset(
        row.seq
        for row in folded.rows
        if row.kind == "tool_result" and row.seq not in stubs
    )
