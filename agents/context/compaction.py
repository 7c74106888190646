"""When the old part of a conversation becomes a summary, and what is kept of it.

Rare and deep: a compaction takes away at least a quarter of the window, and at least
five rounds lie between two. What cannot be had by a summary is had by pruning harder,
then by leaving out images; when nothing helps and the request would not fit, the run
stops with a sentence that names what fills the window.

The `summary` entry says what it stands for, so every worker sends the same:

`covers`    first and last seq that it stands for; later entries are sent as they are
`kept`      seqs within it that are still sent word for word: the last request, rules
`restored`  result seq to the seq of the covered result that it points to and shows now
`skills`    name and text of the loaded skills: their bodies, or where to get them again
`text`      the summary; `source` is model or mechanical
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agents.context import pruning
from agents.context.pruning import Count, Find, Step, estimate, seq_of
from agents.context.summary import ASKING_TOKENS, FRAME_TOKENS, asking, mechanical
from agents.context.view import Item, Round, rounds_of, standing
from agents.providers.base import Message
from agents.tools.registry import resolve

#: Of the cap: where compaction begins, the room left before the reserve, the least gain.
_BEGIN, _SLACK, _GAIN = 0.70, 0.05, 0.25

#: Rounds between two summaries, at least.
APART = 5

#: Of the cap: what the newest rounds may fill after a compaction, tried in this order.
_TAILS = (0.15, 0.05, 0.0)

#: Characters up to which a skill's body survives whatever its age.
SMALL_SKILL = 5_000

#: Notices that hold instructions: never summarised.
PINNED = frozenset(("rules", "skill"))

Strategy = Literal["summarise", "prune", "images", "stop", "refuse"]


class Segment(Protocol):
    """What an assembled request says of each of its parts."""

    @property
    def kind(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def tokens(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens: the window, what is kept free for the answer, where compaction begins."""

    cap: int
    reserved: int
    compact_at: int

    @classmethod
    def of(cls, cap: int, reserved: int, compact_at: int | None = None) -> Limits:
        """`compact_at` is the absolute override of `context.compactAt`."""
        least = min(_BEGIN * cap, cap - reserved - _SLACK * cap)
        return cls(cap, reserved, compact_at if compact_at else int(least))

    @property
    def gain(self) -> int:
        """Tokens that a compaction must take away."""
        return int(_GAIN * self.cap)

    @property
    def summary(self) -> int:
        """Tokens that a summary may have."""
        return max(300, min(8_000, self.cap // 32))

    def fits(self, used: int) -> bool:
        return used + self.reserved <= self.cap

    def overflowed(self, used: int) -> Limits:
        """The limits that a service has which refused `used` tokens as too many."""
        cap = max(1, min(self.cap, used))
        reserved = max(1, min(self.reserved, cap // 4))
        return Limits(cap, reserved, min(self.compact_at, cap))


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of a request: its fixed parts by kind, and each entry's by seq."""

    fixed: Mapping[str, int]
    entries: Mapping[int, int]
    images: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, segments: Iterable[Segment], factor: float = 1.0) -> Counts:
        """From an assembled request; `factor` is the model's calibration."""
        fixed: dict[str, int] = {}
        entries: dict[int, int] = {}
        for one in segments:
            kind, _, rest = one.id.partition(":")
            seq = rest.partition(":")[0]
            tokens = round(one.tokens * factor)
            if kind == "entry" and seq.isdecimal():
                entries[int(seq)] = entries.get(int(seq), 0) + tokens
            else:
                fixed[one.kind] = fixed.get(one.kind, 0) + tokens
        return cls(fixed, entries)

    @property
    def prefix(self) -> int:
        return sum(self.fixed.values())

    @property
    def total(self) -> int:
        return self.prefix + sum(self.entries.values())

    def of_rows(self, rows: Iterable[Item]) -> int:
        return sum(self.entries.get(row.seq, 0) for row in rows)

    @property
    def largest(self) -> tuple[str, int]:
        """The row that fills most, in words for people, and its tokens."""
        names = {
            "tools": "Tool definitions",
            "system": "System prompt",
            "startup": "Startup context and rules",
            "envelope": "Request format",
        }
        rows = {names.get(kind, kind): size for kind, size in self.fixed.items()}
        rows["Messages"] = sum(self.entries.values())
        name = max(rows, key=lambda row: rows[row])
        return name, rows[name]


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
        and (row.seq > covered or row.seq in kept or _is_record(row))
    ]
    return Folded(summary, left)


def _is_record(row: Item) -> bool:
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


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do before the next request; tokens are estimates of the whole request.

    `summarise`: get a text (from the model if `by_model`), append `body(...)`.
    `prune`, `images`: append the notice `step.body()`.
    `stop`: the run cannot go on; `refuse`: nothing to do for who asked. Both `sentence`.
    """

    strategy: Strategy
    before: int
    after: int
    covers: tuple[int, int] = (0, 0)
    kept: tuple[int, ...] = ()
    restored: Mapping[int, int] = field(default_factory=dict)
    skills: tuple[tuple[str, str], ...] = ()
    budget: int = 0
    most: int = 0
    by_model: bool = False
    focus: str = ""
    step: Step | None = None
    sentence: str = ""

    @property
    def gain(self) -> int:
        return self.before - self.after

    def body(self, folded: Folded, text: str, count: Count) -> dict[str, Any]:
        """The body of the `summary` entry.

        A text that is empty, or so long that too little is gained, is not used: the
        mechanical summary takes its place.
        """
        old = [row for row in folded.rows if row.seq <= self.covers[1]]
        said, source = text.strip(), "model"
        if not said or count(said) > self.most:
            previous = folded.summary.body["text"] if folded.summary else ""
            said, source = (
                mechanical(old, previous, self.budget, count, open_end=bool(self.kept)),
                "mechanical",
            )
        return {
            "type": "summary",
            "covers": list(self.covers),
            "kept": list(self.kept),
            "restored": {str(seq): of for seq, of in self.restored.items()},
            "skills": [{"name": name, "text": body} for name, body in self.skills],
            "text": said,
            "source": source,
            "focus": self.focus,
            "folded": sum(row.kind != "notice" for row in old),
            "before": self.before,
            "after": self.after - self.budget + count(said),
        }

    def asking(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages of the request for the summary: a prefix of those sent last.

        Tools, system prompt and options stay as they are, so that the cache is read.
        """
        last = max(
            (
                index
                for index, message in enumerate(messages)
                if 0 < _number(message) <= self.covers[1]
            ),
            default=-1,
        )
        return (*messages[: last + 1], asking(self.budget, self.focus))


def _number(message: Message) -> int:
    """The entry a message belongs to, also of what stands for a missing result."""
    if seq := seq_of(message):
        return seq
    seq_text = message.owner.id.partition(":")[2].partition(":")[0]
    return int(seq_text) if seq_text.isdecimal() else 0


def plan(
    items: Sequence[Item],
    counts: Counts,
    limits: Limits,
    *,
    asked: bool = False,
    overflow: bool = False,
    focus: str = "",
    find: Find = resolve,
    count: Count = estimate,
) -> Plan | None:
    """What must happen before the next request; None when it can be sent as it is.

    `asked`: a person wants it (`/compact`). `overflow`: the service refused the request
    as too large. `count` must be the count that `counts` were made with.
    """
    used = counts.total
    if overflow:
        limits = limits.overflowed(used)
    over = not limits.fits(used)
    if not (asked or over or used >= limits.compact_at):
        return None
    desk = _Desk(items, counts, limits, asked, find, count)
    ways = [desk.summarise(focus), desk.prune(over, overflow), desk.images()]
    if overflow:
        ways = [ways[1], ways[0], ways[2]]
    chosen = _choose([way for way in ways if way], limits, over=over, asked=asked)
    if chosen is not None:
        return chosen
    if over:
        return Plan("stop", used, used, sentence=_stop_sentence(counts, limits))
    if asked:
        return Plan("refuse", used, used, sentence=desk.refusal())
    return None


def _choose(
    ways: Sequence[Plan], limits: Limits, *, over: bool, asked: bool
) -> Plan | None:
    """The first way that helps enough.

    A summary and dropped images must gain a quarter of the cap. So must pruning, unless
    it alone makes the request fit.
    """
    deep = [way for way in ways if way.gain >= limits.gain]
    if not over:
        if deep:
            return deep[0]
        return next(
            (way for way in ways if asked and way.strategy == "summarise"), None
        )
    fitting = [
        way
        for way in ways
        if limits.fits(way.after) and (way in deep or way.strategy != "summarise")
    ]
    if fitting:
        return fitting[0]
    return max(deep, key=lambda way: way.gain, default=None)


def _stop_sentence(counts: Counts, limits: Limits) -> str:
    name, size = counts.largest
    return (
        f"The conversation no longer fits the model's window of {limits.cap:,} tokens, "
        f"and compacting it cannot reclaim enough. Most is taken by {name} "
        f"({size:,} tokens). Shorten that, choose a model with a larger window, or "
        "start a new conversation."
    )


class _Desk:
    """One decision's material, and the ways to gain room."""

    def __init__(
        self,
        items: Sequence[Item],
        counts: Counts,
        limits: Limits,
        asked: bool,
        find: Find,
        count: Count,
    ) -> None:
        folded = fold(items)
        self.all, self.rows, self.summary = items, folded.rows, folded.summary
        self.counts, self.limits, self.asked = counts, limits, asked
        self.find, self.count = find, count
        self.rounds = rounds_of(self.rows)
        self.done = pruning.recorded(self.rows)

    @property
    def rounds_since(self) -> int:
        """Rounds played since the last summary; many when there is none."""
        if self.summary is None:
            return APART
        seq = self.summary.seq
        return sum(one.answer.seq > seq for one in self.rounds)

    def refusal(self) -> str:
        if self.rounds_since < APART:
            return (
                f"This conversation was compacted {self.rounds_since} rounds ago. "
                f"It can be compacted again after {APART} rounds."
            )
        return "Nothing in this conversation is old enough to be compacted yet."

    def summarise(self, focus: str) -> Plan | None:
        """The summary that keeps most and still gains enough; else the deepest."""
        if self.rounds_since < APART:
            return None
        best: Plan | None = None
        for share in _TAILS:
            cut = self._cut(int(share * self.limits.cap))
            best = self._summary_to(cut, focus) if cut else None
            if best and best.gain >= self.limits.gain and self.limits.fits(best.after):
                return best
        return best if best and best.gain > 0 else None

    def _cut(self, tail: int) -> int:
        """The last seq to cover, so that the newest rounds fill at most `tail` tokens.

        0 when that would cover no round: a summary alone is never summarised.
        """
        kept = 1
        while kept < len(self.rounds):
            end = self.rounds[-kept - 2].end if kept + 1 < len(self.rounds) else 0
            if self.counts.of_rows(row for row in self.rows if row.seq > end) > tail:
                break
            kept += 1
        return self.rounds[-kept - 1].end if kept < len(self.rounds) else 0

    def _summary_to(self, cut: int, focus: str) -> Plan:
        """The plan to cover everything up to `cut`."""
        old = [row for row in self.rows if row.seq <= cut]
        tail = [row for row in self.rows if row.seq > cut]
        kept = self._kept(old)
        restored = self._restored(cut)
        skills = self._skills(old)
        budget = self.limits.summary
        before = self.counts.total
        after = self.counts.prefix + FRAME_TOKENS + budget
        after += self.counts.of_rows(tail) + self.counts.of_rows(kept)
        after += sum(self._shown_size(seq, of) for seq, of in restored.items())
        after += sum(self.count(text) + 20 for _, text in skills)
        asks = self.counts.prefix + self.counts.of_rows(old) + ASKING_TOKENS
        if self.summary:
            asks += self.counts.entries.get(self.summary.seq, 0)
        spare = before - after - (0 if self.asked else self.limits.gain)
        return Plan(
            "summarise",
            before,
            after,
            covers=(self._first(old), cut),
            kept=tuple(row.seq for row in kept),
            restored=restored,
            skills=skills,
            budget=budget,
            most=budget + max(0, min(budget, spare)),
            by_model=self.limits.fits(asks),
            focus=focus,
        )

    def _shown_size(self, seq: int, of: int) -> int:
        """Tokens that a restored result adds to those it is counted with already."""
        original = next((row for row in self.all if row.seq == of), None)
        text = original.body.get("output", "") if original else ""
        return max(0, self.count(text) - self.counts.entries.get(seq, 0))

    def _first(self, old: Sequence[Item]) -> int:
        if self.summary:
            return int(self.summary.body["covers"][0])
        return next(row.seq for row in old if not _is_record(row))

    def _kept(self, old: Sequence[Item]) -> list[Item]:
        """Covered entries that are still sent: the last request, rules in force."""
        said = [row for row in self.rows if row.kind == "user"]
        kept = {said[-1].seq} if said else set()
        newest = {
            row.body.get("path", row.seq): row.seq
            for row in old
            if row.kind == "notice" and row.body.get("type") in PINNED
        }
        kept |= set(newest.values())
        return [row for row in old if row.seq in kept]

    def _restored(self, cut: int) -> dict[int, int]:
        """Results that must show what they point to, for it is covered now.

        Those the model has not read yet, and those that an earlier summary restored.
        """
        known = self.summary.body.get("restored", {}) if self.summary else {}
        shown = {int(seq): of for seq, of in known.items()}
        found = {seq: of for seq, of in shown.items() if seq > cut}
        for row in self.rounds[-1].results.values():
            of = ((row.body.get("meta") or {}).get("guard") or {}).get("of")
            if not of or of > cut:
                continue
            if (origin := shown.get(of, of)) not in found.values():
                found[row.seq] = origin
        return found

    def _skills(self, old: Sequence[Item]) -> tuple[tuple[str, str], ...]:
        """Loaded skills that would be lost: bodies, or where to get them again."""
        known = self.summary.body.get("skills", ()) if self.summary else ()
        skills = {one["name"]: one["text"] for one in known}
        for name, row in _skill_views(rounds_of(old)):
            body = row.body.get("output", "")
            recent = row.seq >= self._recent_from
            if not recent and len(body) >= SMALL_SKILL:
                body = (
                    "[SKILL_PRUNED: content lost in compaction; reload with "
                    f'skill_view(name="{name}")]'
                )
            skills[name] = body
        return tuple(sorted(skills.items()))

    @property
    def _recent_from(self) -> int:
        """Where the last two turns of people begin (`skills.protectRecentViews`)."""
        said = [row.seq for row in self.rows if row.kind == "user"]
        return said[-2] if len(said) > 1 else 0

    def prune(self, over: bool, overflow: bool) -> Plan | None:
        """Stub every older result; the newest too, when nothing else makes it fit."""
        used = self.counts.total
        need = used + self.limits.reserved - self.limits.cap if over else 0
        if overflow:
            need = max(need, self.limits.gain)
        step = pruning.squeeze(self.rows, need=need, find=self.find, count=self.count)
        if step is None:
            return None
        return Plan("prune", used, used - step.saved_tokens, step=step)

    def images(self) -> Plan | None:
        """Send no images but those of the newest message that has some."""
        left = sorted(set(self.counts.images) - self.done.images)[:-1]
        if not left:
            return None
        saved = sum(self.counts.images[seq] for seq in left)
        step = Step("squeeze", left[-1], images=tuple(left), saved_tokens=saved)
        used = self.counts.total
        return Plan("images", used, used - saved, step=step)


def _skill_views(rounds: Sequence[Round]) -> list[tuple[str, Item]]:
    """Skills that were shown, with the result that shows each."""
    found = []
    for one in rounds:
        for call in one.answer.body.get("tool_calls", ()):
            row = one.results.get(call["call_id"])
            guarded = row and (row.body.get("meta") or {}).get("guard", {}).get("of")
            if call["name"] == "skill_view" and row and row.body.get("ok"):
                name = _skill_name(call["arguments"])
                if name and not guarded:
                    found.append((name, row))
    return found


def _skill_name(arguments: str) -> str:
    try:
        values = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return ""
    return str(values.get("name", "")) if isinstance(values, dict) else ""
