"""The repeat guard: it stops calls whose answer the model already has before its eyes.

A pure function of the conversation's entries and the outcomes of the message at hand.
"You already have this" is said only while the full earlier result stands whole in the
next request: `visible` names those results. Three rules, and what ends their memory:

1. The same lines of an unchanged file: a stub twice, then refused. A write to the file,
   or another hash on disk, and it is read again.
2. The same call with the same outcome three times in a row: a warning; then refused.
   A scan that finds the same text again shows a stub, and is refused the fourth time; a
   write or a command in between may have changed the world and clears that.
3. The same call five times within twenty: a note, and one event per turn.

What people say resets every count. Failed results are never replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agents.context.view import Item
from agents.past_calls import (
    BLOCKED,
    Kind,
    Past,
    Unwrap,
    as_called,
    ended_as,
    read_calls,
)
from agents.tools.base import Failure, Tool, ToolResult
from agents.tools.peek import FileNow
from agents.tools.registry import resolve

STUBS, WARN_AT, BLOCK_AT = 2, 3, 4
WINDOW, SUSPECT_AT = 20, 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """Run the call, or take `result` for it; `earlier` is where the full result is."""

    action: Literal["run", "stub", "block"]
    result: ToolResult | None = None
    earlier: Past | None = None


RUN = Verdict("run")


@dataclass(frozen=True, slots=True)
class Remark:
    """What the guard adds to an outcome.

    `stub` stands for the output if there is one; `notes` follow what the model reads;
    `guard` belongs into the outcome's meta; `suspected` is the (tool, count) of the one
    `loop.suspected` of the turn.
    """

    stub: str | None = None
    notes: tuple[str, ...] = ()
    guard: Mapping[str, Any] | None = None
    suspected: tuple[str, int] | None = None

    def output(self, shown: str, ok: bool) -> str:
        """The output, after caps, as it is stored and sent."""
        text = shown if self.stub is None else self.stub
        return "\n\n".join(part for part in (text, *self.notes) if part) if ok else text

    def error(self, error: Failure | None) -> Failure | None:
        """The error of a failed call, with the notes."""
        if error is None or not self.notes:
            return error
        return Failure(error.code, "\n\n".join((error.message, *self.notes)))

    def meta(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        return {**meta, "guard": dict(self.guard)} if self.guard else dict(meta)


@dataclass(frozen=True, slots=True)
class History:
    """Every call that stands in the conversation, in call order, the open ones too."""

    calls: tuple[Past, ...]
    visible: frozenset[int]
    on: bool = True

    @classmethod
    def of(
        cls,
        items: Sequence[Item],
        visible: frozenset[int],
        outcomes: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        on: bool = True,
        find: Callable[[str], Tool | None] = resolve,
        unwrap: Unwrap = as_called,
    ) -> History:
        """Read the entries; `visible` as `outgoing.verbatim(items)` gives it."""
        return cls(read_calls(items, outcomes or {}, find, unwrap), visible, on)

    def _split(self, call_id: str) -> tuple[Past, tuple[Past, ...]]:
        """The newest call with this id, and those before it. KeyError if unknown."""
        for index in range(len(self.calls) - 1, -1, -1):
            if self.calls[index].call_id == call_id:
                return self.calls[index], self.calls[:index]
        raise KeyError(call_id)

    def is_ahead(self, call_id: str) -> bool:
        """Whether an identical call of the same message must end before this one."""
        call, before = self._split(call_id)
        return any(
            one.kind == "open" and one.signature == call.signature
            for one in before
            if one.answer == call.answer
        )

    def is_early(self, call_id: str) -> bool:
        """Whether open calls of the same message may change what a check would say."""
        call, before = self._split(call_id)
        return self.is_ahead(call_id) or any(
            one.kind == "open" and one.tool is not None and one.tool.mutating
            for one in before
            if one.answer == call.answer
        )

    def check(self, call_id: str, now: FileNow | None = None) -> Verdict:
        """Whether the call may run. `now` is the file that a `read_file` would read."""
        if not self.on:
            return RUN
        call, before = self._split(call_id)
        verdict = self._check_read(call, before, now)
        if verdict is None and not (call.tool and call.tool.poll):
            verdict = self._check_row(call, before) or self._check_scan(call, before)
        return verdict or RUN

    def _sees(self, past: Past, call: Past) -> bool:
        """Whether a full result stands whole in the request after this call."""
        if past.seq is None:
            return past.answer == call.answer and past.kind == "full"
        return past.seq in self.visible

    def _check_read(
        self, call: Past, before: Sequence[Past], now: FileNow | None
    ) -> Verdict | None:
        """Rule 1; None when the file has to be read."""
        if call.name != "read_file" or now is None:
            return None
        reads = [one for one in before if _same_lines(one, call, now.path)]
        full = next((one for one in reversed(reads) if one.kind == "full"), None)
        if full is None or full.meta.get("sha256") != now.sha256:
            return None
        later = before[before.index(full) + 1 :]
        if not self._sees(full, call) or any(_writes(one, now.path) for one in later):
            return None
        stubs = [
            one
            for one in later
            if one.kind == "stub" and one in reads and one.epoch == call.epoch
        ]
        said = call.values.get("path", now.path)
        if len(stubs) >= STUBS:
            return _block(
                full,
                f"STOP calling read_file on {said}: these lines are unchanged (sha256 "
                f"{now.sha256[:8]}) and stand whole in your result of round "
                f"{full.round}. Use that, or read something else.",
            )
        text = (
            f"unchanged since your earlier read_file of {said} ({full.lines} lines, "
            f"sha256 {now.sha256[:8]}); the content in that result is still current"
        )
        # The hash counts as read again: a write that follows is not stale.
        meta = {**full.meta, "guard": _guard("stub", full)}
        return Verdict("stub", ToolResult(True, text, meta=meta), full)

    def _check_row(self, call: Past, before: Sequence[Past]) -> Verdict | None:
        """Rule 2: the fourth identical call in a row."""
        row = _row(call, before)
        full = next((one for one in row if one.kind == "full"), None)
        if len(row) < BLOCK_AT - 1 or full is None or not self._sees(full, call):
            return None
        return _block(
            full,
            f"STOP calling {call.name} with these arguments: {len(row)} calls in a row "
            "came to the same. Change the arguments or the approach, or finish with "
            "what you have.",
        )

    def _check_scan(self, call: Past, before: Sequence[Past]) -> Verdict | None:
        """Rule 2: the fourth scan that would find the same."""
        if not (call.tool and call.tool.scan):
            return None
        same = _same_texts(call, before)
        full = next((one for one in same if one.kind == "full"), None)
        if len(same) < BLOCK_AT - 1 or full is None or not self._sees(full, call):
            return None
        return _block(
            full,
            f"STOP calling {call.name} with these arguments: it gave the same "
            f"{full.lines} lines every time; they stand in your result of round "
            f"{full.round}. Change something first, or finish with what you have.",
        )

    def remark(self, call_id: str, result: ToolResult) -> Remark:
        """What to add to the outcome of a call, whether it ran or not.

        `result` is raw: before caps, and before anything else is added to it.
        """
        if not self.on:
            return Remark()
        call, before = self._split(call_id)
        guard = result.meta.get("guard") or _guard("full")
        blocked = guard["kind"] == "blocked"
        ended = ended_as(call, result, guard)
        stub = None
        if guard["kind"] == "full" and (full := self._same_text(ended, before)):
            stub = f"same result as your earlier {call.name} call ({full.lines} lines)"
            guard = _guard("stub", full)
        if not blocked:
            lines = guard.get("lines", result.meta.get("lines", ended.lines))
            guard = {**guard, "digest": ended.digest, "lines": lines}
        notes = [] if blocked else _warning(ended, before)
        count, is_first = _suspicion(call, before)
        if count:
            notes.append(
                f"loop suspected: {call.name} with the same arguments has run {count} "
                "times this turn; change approach or finish with what you have"
            )
        suspected = (call.name, count) if is_first else None
        return Remark(stub, tuple(notes), guard, suspected)

    def _same_text(self, ended: Past, before: Sequence[Past]) -> Past | None:
        """The full earlier result that a scan's output repeats, if it is visible."""
        tool = ended.tool
        if tool is None or not tool.scan or tool.poll or not ended.ok:
            return None
        same = [one for one in _same_texts(ended, before) if one.digest == ended.digest]
        full = next((one for one in same if one.kind == "full"), None)
        return full if full and self._sees(full, ended) else None


def _guard(kind: Kind, full: Past | None = None) -> dict[str, Any]:
    """What an outcome's meta says of the guard; `of` is where the full result is."""
    if full is None:
        return {"kind": kind}
    return {
        "kind": kind,
        "of": full.seq,
        "of_call": full.call_id if full.seq is None else "",
        "round": full.round,
        "digest": full.digest,
        "lines": full.lines,
    }


def _block(full: Past, message: str) -> Verdict:
    guard = _guard("blocked", full)
    return Verdict("block", ToolResult.failed(BLOCKED, message, guard=guard), full)


def _same_lines(one: Past, call: Past, path: str) -> bool:
    """Whether an earlier read showed the same lines of the same file."""
    if one.name != "read_file" or not one.ok or one.meta.get("path") != path:
        return False
    total = int(one.meta.get("total_lines") or 0)
    return one.lines_of(total) == call.lines_of(total)


def _writes(one: Past, path: str) -> bool:
    is_write = one.tool is not None and one.tool.mutating
    return is_write and one.ok and one.meta.get("path") == path


def _row(call: Past, before: Sequence[Past]) -> list[Past]:
    """The identical calls right before it that came to the same, newest first."""
    row: list[Past] = []
    outcome = None
    for one in reversed(before):
        if one.signature != call.signature or one.epoch != call.epoch:
            break
        if one.kind == "open":
            continue
        if one.kind != "blocked":
            if outcome is not None and one.outcome != outcome:
                break
            outcome = one.outcome
        row.append(one)
    return row


def _same_texts(call: Past, before: Sequence[Past]) -> list[Past]:
    """The identical scans that found the same text last, newest first.

    A change of the world in between ends the row; other calls do not.
    """
    same: list[Past] = []
    for one in reversed(before):
        if one.epoch != call.epoch:
            break
        if one.signature != call.signature:
            if one.changes_world:
                break
            continue
        if one.kind in ("blocked", "open"):
            continue
        if not one.ok or (same and one.digest != same[0].digest):
            break
        same.append(one)
    return same


def _warning(ended: Past, before: Sequence[Past]) -> list[str]:
    """The line after the third identical call in a row."""
    is_read_stub = ended.name == "read_file" and ended.kind == "stub"
    if is_read_stub or (ended.tool and ended.tool.poll):
        return []
    row = _row(ended, before)
    known = [one for one in row if one.kind != "blocked"]
    if len(row) != WARN_AT - 1 or any(one.outcome != ended.outcome for one in known):
        return []
    return [
        f"this is the 3rd identical {ended.name} call in a row; the result has not "
        "changed"
    ]


def _suspicion(call: Past, before: Sequence[Past]) -> tuple[int, bool]:
    """How often the call came in the turn's window, 0 below the limit; is it news?"""
    turn = [one.signature for one in before if one.epoch == call.epoch]
    turn.append(call.signature)
    counts = [_times(turn, index) for index in range(len(turn))]
    *earlier, count = counts
    if count < SUSPECT_AT:
        return 0, False
    return count, all(one < SUSPECT_AT for one in earlier)


def _times(turn: Sequence[str], index: int) -> int:
    """How often a call came within the window that ends with it."""
    return turn[max(0, index - WINDOW + 1) : index + 1].count(turn[index])
