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

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.context import pruning
from agents.context.budget import Counts, Limits
from agents.context.folding import Folded, fold, is_record
from agents.context.kept_skills import kept_skills
from agents.context.pruning import Count, Find, Step, estimate, seq_of
from agents.context.squeezing import squeeze
from agents.context.summary import ASKING_TOKENS, FRAME_TOKENS, asking, mechanical
from agents.context.view import Item, rounds_of
from agents.providers.base import Message
from agents.tools.registry import resolve

#: Turns of people whose skills survive word for word, unless the settings say otherwise.
RECENT_TURNS = 2

#: Rounds between two summaries, at least.
APART = 5

#: Tokens that a compaction saves at least when a person wants it.
LEAST_WANTED = 1_000

#: Of a request: what a compaction takes away, if it can, when a person wants it.
_SHARE = 0.25

#: A summary, of what it stands for; and tokens that it may have in any case.
_SUMMARY, _SHORTEST = 0.25, 300

#: Of the cap: what the newest rounds may fill after a compaction, tried in this order.
_TAILS = (0.15, 0.05, 0.0)

#: Notices that hold instructions, or what there is to reach: never summarised.
PINNED = frozenset(("rules", "skill", "server"))

Strategy = Literal["summarise", "prune", "images", "stop", "refuse"]


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

    @property
    def refusal(self) -> str:
        """Why nothing can be done, in a sentence; "" when something can."""
        return self.sentence if self.strategy in ("stop", "refuse") else ""

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
    restated: Callable[[], int] = lambda: 0,
    recent_turns: int = RECENT_TURNS,
) -> Plan | None:
    """What must happen before the next request; None when it can be sent as it is.

    `asked`: a person wants it (`/compact`). `overflow`: the service refused the request
    as too large. `count` must be the count that `counts` were made with. `restated`
    tells the tokens of the schemas that are stated again behind a summary. Skills read in
    the last `recent_turns` turns of people stay whole.
    """
    used = counts.total
    if overflow:
        limits = limits.overflowed(used)
    over = not limits.fits(used)
    if not (asked or over or used >= limits.compact_at):
        return None
    desk = _Desk(items, counts, limits, asked, find, count, restated, recent_turns)
    ways = [desk.summarise(focus), desk.prune(over, overflow), desk.images()]
    if overflow:
        ways = [ways[1], ways[0], ways[2]]
    chosen = _choose([way for way in ways if way], limits, over=over, asked=asked)
    if chosen is not None:
        return chosen
    if over:
        sentence = _stop_sentence(counts, limits, overflow=overflow)
        return Plan("stop", used, used, sentence=sentence)
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
        wanted = [
            way
            for way in ways
            if asked and way.strategy == "summarise" and way.gain >= LEAST_WANTED
        ]
        return next((way for way in ways if way in deep or way in wanted), None)
    fitting = [
        way
        for way in ways
        if limits.fits(way.after) and (way in deep or way.strategy != "summarise")
    ]
    if fitting:
        return fitting[0]
    return max(deep, key=lambda way: way.gain, default=None)


def _stop_sentence(counts: Counts, limits: Limits, *, overflow: bool) -> str:
    """Why there is no way on; after a refusal it follows the service's own words."""
    if overflow:
        return f"Compacting the conversation cannot make it fit. {counts.advice}"
    return (
        f"The conversation no longer fits the model's window of {limits.cap:,} tokens, "
        f"and compacting it cannot reclaim enough. {counts.advice}"
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
        restated: Callable[[], int],
        recent_turns: int,
    ) -> None:
        folded = fold(items)
        self.all, self.rows, self.summary = items, folded.rows, folded.summary
        self.counts, self.limits, self.asked = counts, limits, asked
        self.find, self.count, self.restated = find, count, restated
        self.recent_turns = recent_turns
        self.rounds = rounds_of(self.rows)
        self.done = pruning.recorded(self.rows)

    @property
    def rounds_since(self) -> int:
        """Rounds played since the last summary; many when there is none."""
        if self.summary is None:
            return APART
        seq = self.summary.seq
        return sum(one.answer.seq > seq for one in self.rounds)

    @property
    def enough(self) -> int:
        """Tokens worth a summary; for who asks a quarter of what there is."""
        if not self.asked:
            return self.limits.gain
        wanted = max(LEAST_WANTED, int(_SHARE * self.counts.total))
        return min(self.limits.gain, wanted)

    def refusal(self) -> str:
        if self.rounds_since < APART:
            return ngettext(
                "This conversation was compacted %(n)d round ago. It can be compacted "
                "again after %(apart)d rounds.",
                "This conversation was compacted %(n)d rounds ago. It can be compacted "
                "again after %(apart)d rounds.",
                self.rounds_since,
            ) % {"n": self.rounds_since, "apart": APART}
        return _("Nothing in this conversation is old enough to be compacted yet.")

    def summarise(self, focus: str) -> Plan | None:
        """The summary that keeps most and still gains enough; else the deepest."""
        if self.rounds_since < APART:
            return None
        best: Plan | None = None
        for share in _TAILS:
            cut = self._cut(int(share * self.limits.cap))
            best = self._summary_to(cut, focus) if cut else None
            if best and best.gain >= self.enough and self.limits.fits(best.after):
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
        budget = self._budget(old)
        before = self.counts.total
        after = self.counts.prefix + FRAME_TOKENS + budget + self.restated()
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

    def _budget(self, old: Sequence[Item]) -> int:
        """Tokens for the summary: a part of what it stands for."""
        whole = self.counts.of_rows(old)
        return min(self.limits.summary, max(_SHORTEST, int(_SUMMARY * whole)))

    def _shown_size(self, seq: int, of: int) -> int:
        """Tokens that a restored result adds to those it is counted with already."""
        original = next((row for row in self.all if row.seq == of), None)
        text = original.body.get("output", "") if original else ""
        return max(0, self.count(text) - self.counts.entries.get(seq, 0))

    def _first(self, old: Sequence[Item]) -> int:
        if self.summary:
            return int(self.summary.body["covers"][0])
        return next(row.seq for row in old if not is_record(row))

    def _kept(self, old: Sequence[Item]) -> list[Item]:
        """Covered entries that are still sent: the last request, rules in force."""
        said = [row for row in self.rows if row.kind == "user"]
        kept = {said[-1].seq} if said else set()
        newest = {
            row.body.get("path") or row.body.get("server") or row.seq: row.seq
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
        return kept_skills(old, known, self._recent_from)

    @property
    def _recent_from(self) -> int:
        """Where the turns begin whose skills stay (`skills.protectRecentViews`)."""
        said = [row.seq for row in self.rows if row.kind == "user"]
        if self.recent_turns == 0:
            return sys.maxsize
        return said[-self.recent_turns] if len(said) >= self.recent_turns else 0

    def prune(self, over: bool, overflow: bool) -> Plan | None:
        """Stub every older result; the newest too, when nothing else makes it fit."""
        used = self.counts.total
        need = used + self.limits.reserved - self.limits.cap if over else 0
        if overflow:
            need = max(need, self.limits.gain)
        step = squeeze(self.rows, need=need, find=self.find, count=self.count)
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
