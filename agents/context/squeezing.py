"""Stubs for a request that would not fit: everything old at once, then what is large.

The newest round is touched last, and there the largest pieces first: outputs, and
arguments of any call, be it one that failed. The transcript keeps them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agents.context.pruning import (
    LARGE_ARGUMENT,
    Count,
    Find,
    Step,
    Work,
    estimate,
    in_place_of,
    recorded,
    referred,
    shortened,
    tool_rounds,
)
from agents.context.view import Item, result_text
from agents.tools.registry import resolve

_INVITATION = "re-run the tool if you need it again"
_TOO_LARGE = "it is too large to be sent: ask for a part of it"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A result, or the arguments of a call of the message `seq`, and what may stand for it."""

    seq: int
    call_id: str
    text: str
    saved: int


def squeeze(
    rows: Sequence[Item],
    *,
    need: int = 0,
    find: Find = resolve,
    count: Count = estimate,
) -> Step | None:
    """Stub every older result at once. `need`: tokens that must be saved.

    When that saves less, the largest of what is left goes too, but for results that
    another one of the newest round points to. None when there is nothing to take away.
    """
    rounds = tool_rounds(rows)
    if not rounds:
        return None
    work = Work(rounds, len(rounds) - 1, recorded(rows), find, count)
    step = work.step("squeeze", 0, len(rounds) - 1)
    if step.saved_tokens < need:
        step = _with_large_pieces(step, work, need)
    return None if step.is_empty else step


def _with_large_pieces(step: Step, work: Work, need: int) -> Step:
    work.spared = referred(work.rounds[-1:])
    pieces = [*_outputs(work), *_arguments(step, work)]
    stubs, saved = dict(step.stubs), step.saved_tokens
    arguments = {seq: dict(calls) for seq, calls in step.arguments.items()}
    for piece in sorted(pieces, key=lambda one: (-one.saved, one.seq, one.call_id)):
        if saved >= need or piece.saved <= 0:
            break
        saved += piece.saved
        if piece.call_id:
            arguments.setdefault(piece.seq, {})[piece.call_id] = piece.text
        else:
            stubs[piece.seq] = piece.text
    return replace(step, stubs=stubs, arguments=arguments, saved_tokens=saved)


def _outputs(work: Work) -> Iterator[_Piece]:
    """Results of the newest round. To run the same again would help nobody."""
    for result in work.rounds[-1].results:
        if (text := work.stub(result)) is not None:
            text = text.replace(_INVITATION, _TOO_LARGE)
            saved = work.count(result_text(result.body)) - work.count(text)
            yield _Piece(result.seq, "", text, saved)


def _arguments(step: Step, work: Work) -> Iterator[_Piece]:
    """Large arguments of any round that are still sent whole."""
    for one in work.rounds:
        seq = one.answer.seq
        known = {**work.done.arguments.get(seq, {}), **step.arguments.get(seq, {})}
        for call in one.answer.body["tool_calls"]:
            if call["call_id"] not in known and (text := left_out(call["arguments"])):
                saved = work.count(call["arguments"]) - work.count(text)
                yield _Piece(seq, call["call_id"], text, saved)


def left_out(arguments: str) -> str | None:
    """JSON that stands for large arguments, whatever they are; None for small ones."""
    if len(arguments) < LARGE_ARGUMENT:
        return None
    text = shortened(arguments, "left out")
    if text is not None and len(text) < max(LARGE_ARGUMENT, len(arguments) // 2):
        return text
    whole = {"arguments": in_place_of(arguments, "left out")}
    return json.dumps(whole, ensure_ascii=False)
