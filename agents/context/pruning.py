"""Old tool outputs become stubs in what is sent; the transcript never changes.

Each step is recorded as a notice of type `prune` with the very text of each stub, so any
worker, also one of a later version, renders the same bytes: a stub, once sent, stays.
What is not named in such a notice is sent whole. The body of the notice:

`upto_seq`   results up to this entry were looked at
`stubs`      the text that stands for a result, by the result's seq
`arguments`  call id to arguments that stand for larger ones, by the message's seq
`images`     seqs of entries whose images are no longer sent
`restore`    true when the setting was switched off: what was stubbed before is whole again
`cause`, `saved_tokens` and `text` (a line for people, never sent) explain it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agents.context.cadence import REMEMBERED, Prices, RoundSize, worth_moving
from agents.context.pictures import without
from agents.context.view import Item, pictures_of, result_text
from agents.providers.base import Message
from agents.tools.base import Tool
from agents.tools.registry import resolve

#: Their outputs stay: they are instructions, schemas, answers and reports.
EXEMPT = frozenset(("skill_view", "tool_search", "ask_user", "delegate_task", "agent"))

#: Characters from which a string argument of an old write is worth replacing.
LARGE_ARGUMENT = 400

#: Of an image, roughly: enough to weigh rounds against each other.
PIXELS_PER_TOKEN = 750

Cause = Literal["literal", "batch", "pays", "cold", "squeeze", "restore"]
Find = Callable[[str], Tool | None]
Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Settings:
    """`agent.pruneToolOutputs`, `agent.keepToolRounds`, `agent.pruneBatchRounds`."""

    on: bool = True
    keep_rounds: int = 6
    batch_rounds: int | Literal["auto"] = "auto"

    @property
    def keep(self) -> int:
        """At least one round: a model must see what it asked for."""
        return max(1, self.keep_rounds)


@dataclass(frozen=True, slots=True)
class Step:
    """A move of the boundary, as the loop records it before it sends."""

    cause: Cause
    upto_seq: int
    stubs: Mapping[int, str] = field(default_factory=dict)
    arguments: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    images: tuple[int, ...] = ()
    saved_tokens: int = 0

    def body(self) -> dict[str, Any]:
        """The body of the notice entry."""
        return {
            "type": "prune",
            "cause": self.cause,
            "upto_seq": self.upto_seq,
            "stubs": {str(seq): text for seq, text in self.stubs.items()},
            "arguments": {str(seq): dict(row) for seq, row in self.arguments.items()},
            "images": list(self.images),
            "restore": self.cause == "restore",
            "saved_tokens": self.saved_tokens,
            "text": self.text,
        }

    def item(self, seq: int) -> Item:
        """The entry it will become: for a preview of the request that follows."""
        return Item(seq, "notice", self.body())

    @property
    def is_empty(self) -> bool:
        return not (self.stubs or self.arguments or self.images)

    @property
    def text(self) -> str:
        if self.cause == "restore":
            return "Old tool outputs are sent whole again."
        if self.images and not self.stubs:
            return f"Images of {len(self.images)} older messages are no longer sent."
        if self.arguments and not self.stubs:
            return (
                f"Large arguments of {len(self.arguments)} messages are sent as size "
                f"and hash (about {self.saved_tokens:,} tokens less)."
            )
        return (
            f"Outputs of {len(self.stubs)} older tool calls are sent as one line each "
            f"(about {self.saved_tokens:,} tokens less)."
        )


@dataclass(slots=True)
class Pruned:
    """What the recorded steps replace, taken together."""

    upto_seq: int = 0
    stubs: dict[int, str] = field(default_factory=dict)
    arguments: dict[int, dict[str, str]] = field(default_factory=dict)
    images: set[int] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return not (self.stubs or self.arguments)


def recorded(rows: Iterable[Item]) -> Pruned:
    """Read the steps of a conversation's standing entries. A first stub stays."""
    pruned = Pruned()
    for row in rows:
        if row.kind != "notice" or row.body.get("type") != "prune":
            continue
        if row.body.get("restore"):
            pruned = Pruned(images=pruned.images)
        pruned.upto_seq = max(pruned.upto_seq, row.body.get("upto_seq", 0))
        for seq, text in row.body.get("stubs", {}).items():
            pruned.stubs.setdefault(int(seq), text)
        for seq, by_call in row.body.get("arguments", {}).items():
            known = pruned.arguments.setdefault(int(seq), {})
            pruned.arguments[int(seq)] = {**by_call, **known}
        pruned.images.update(row.body.get("images", ()))
    return pruned


def apply(messages: Sequence[Message], pruned: Pruned) -> tuple[Message, ...]:
    """The messages with their stubs in place."""
    return tuple(applied(message, pruned) for message in messages)


def applied(message: Message, pruned: Pruned) -> Message:
    """One message with its stubs, and with the names of images that are left out."""
    return without(_stubbed(message, pruned), pruned.images)


def _stubbed(message: Message, pruned: Pruned) -> Message:
    seq = seq_of(message)
    if message.role == "tool" and seq in pruned.stubs:
        return replace(message, text=pruned.stubs[seq])
    smaller = pruned.arguments.get(seq) if message.tool_calls else None
    if not smaller:
        return message
    calls = tuple(
        replace(call, arguments=smaller.get(call.call_id, call.arguments))
        for call in message.tool_calls
    )
    return replace(message, tool_calls=calls)


def seq_of(message: Message) -> int:
    """The entry that a message renders; 0 for what stands for a missing result."""
    kind, _, seq = message.owner.id.partition(":")
    return int(seq) if kind == "entry" and seq.isdecimal() else 0


@dataclass(slots=True)
class ToolRound:
    """An answer that called tools, its results, and what was said until the next."""

    answer: Item
    results: list[Item] = field(default_factory=list)
    others: list[Item] = field(default_factory=list)

    @property
    def end(self) -> int:
        return max((row.seq for row in self.results), default=self.answer.seq)

    def call_of(self, result: Item) -> dict[str, Any]:
        calls = self.answer.body.get("tool_calls", ())
        wanted = result.body.get("call_id")
        return next((call for call in calls if call["call_id"] == wanted), {})


def tool_rounds(rows: Iterable[Item]) -> list[ToolRound]:
    """The tool rounds of standing entries, oldest first."""
    rounds: list[ToolRound] = []
    for row in rows:
        if row.kind == "assistant" and row.body.get("tool_calls"):
            rounds.append(ToolRound(row))
        elif rounds and row.kind == "tool_result":
            rounds[-1].results.append(row)
        elif rounds and row.kind in ("assistant", "user"):
            rounds[-1].others.append(row)
    return rounds


def estimate(text: str) -> int:
    """Tokens of a text, roughly: enough to weigh rounds against each other."""
    return (len(text) + 3) // 4


def decide(
    rows: Sequence[Item],
    settings: Settings,
    prices: Prices,
    *,
    cold: bool = False,
    find: Find = resolve,
    count: Count = estimate,
) -> Step | None:
    """The step to record before the next request, or None.

    `rows` are the entries that are sent (see `folding.fold`). `cold` says that the
    cache holds nothing of the conversation: its lifetime passed, or the model, the mode
    or a summary changed the prefix.
    """
    done = recorded(rows)
    if not settings.on:
        return None if done.is_empty else Step("restore", done.upto_seq)
    rounds = tool_rounds(rows)
    target = len(rounds) - settings.keep
    if target <= 0:
        return None
    work = Work(rounds, target, done, find, count)
    boundary = sum(one.end <= done.upto_seq for one in rounds)
    cause = _cause(work, boundary, target, settings, prices, cold)
    if cause is None:
        return None
    # What was exempt at an earlier step waits for a step that costs nothing more.
    first = boundary if cause == "pays" else 0
    step = work.step(cause, first, target)
    return None if step.is_empty else step


def _cause(
    work: Work,
    boundary: int,
    target: int,
    settings: Settings,
    prices: Prices,
    cold: bool,
) -> Cause | None:
    """Why the boundary moves now; None when it stays."""
    batch = settings.batch_rounds
    if batch == "auto":
        if not prices.caching:
            return "literal"
        if cold:
            return "cold"
        start = max(0, min(boundary, len(work.rounds) - REMEMBERED))
        sizes = work.sizes(start)
        moves = worth_moving(sizes, boundary - start, settings.keep, prices)
        return "pays" if moves else None
    if batch <= 1:
        return "literal"
    return "batch" if target - boundary >= batch else None


class Work:
    """What can be replaced in each round, and by which text."""

    def __init__(
        self,
        rounds: Sequence[ToolRound],
        target: int,
        done: Pruned,
        find: Find,
        count: Count,
    ) -> None:
        self.rounds, self.done, self.find, self.count = rounds, done, find, count
        self.spared = last_failures(rounds) | referred(rounds[target:])

    def stub(self, result: Item) -> str | None:
        """The line that would stand for a result; None when it stays whole."""
        if result.seq in self.done.stubs or result.seq in self.spared:
            return None
        if result.body.get("name", "") in EXEMPT:
            return None
        text = stub_of(result.body, self.find)
        return text if len(text) < len(result_text(result.body)) else None

    def seen(self, result: Item) -> int:
        """Tokens of the images that a result brought and that are still sent."""
        if result.seq in self.done.images:
            return 0
        pixels = (one.width * one.height for one in pictures_of(result))
        return sum(-(-one // PIXELS_PER_TOKEN) for one in pixels)

    def sizes(self, start: int) -> list[RoundSize]:
        """Tokens of rounds: what stays, and what a step would take away."""
        return [self._size(one) for one in self.rounds[start:]]

    def _size(self, one: ToolRound) -> RoundSize:
        said = [one.answer, *one.others]
        stays = sum(self.count(row.body.get("text") or "") for row in said)
        known = self.done.arguments.get(one.answer.seq, {})
        prunable = sum(map(self.seen, one.results))
        for call in one.answer.body.get("tool_calls", ()):
            stays += self.count(known.get(call["call_id"], call["arguments"]))
        for result in one.results:
            text = self.done.stubs.get(result.seq) or result_text(result.body)
            stub = self.stub(result)
            size = self.count(text)
            left = size if stub is None else min(size, self.count(stub))
            stays, prunable = stays + left, prunable + size - left
        return RoundSize(stays, prunable)

    def step(self, cause: Cause, first: int, target: int) -> Step:
        """The step that takes in the rounds from `first` to before `target`."""
        stubs: dict[int, str] = {}
        arguments: dict[int, dict[str, str]] = {}
        images: list[int] = []
        saved = 0
        for one in self.rounds[first:target]:
            for result in one.results:
                if size := self.seen(result):
                    images.append(result.seq)
                    saved += size
                if (text := self.stub(result)) is not None:
                    stubs[result.seq] = text
                    whole = result_text(result.body)
                    saved += self.count(whole) - self.count(text)
            smaller = self.smaller_arguments(one)
            if smaller:
                arguments[one.answer.seq] = smaller
                for call in one.answer.body["tool_calls"]:
                    text = smaller.get(call["call_id"], call["arguments"])
                    saved += self.count(call["arguments"]) - self.count(text)
        end = self.rounds[target - 1].end if target else 0
        return Step(cause, end, stubs, arguments, tuple(images), max(0, saved))

    def smaller_arguments(self, one: ToolRound) -> dict[str, str]:
        """Shorter arguments for the round's successful writes, by call id."""
        known = self.done.arguments.get(one.answer.seq, {})
        smaller: dict[str, str] = {}
        for result in one.results:
            call = one.call_of(result)
            tool = self.find(call.get("name", ""))
            writes = tool is not None and tool.tag in ("write", "config")
            if not writes or not result.body.get("ok") or call["call_id"] in known:
                continue
            text = shortened(call["arguments"])
            if text is not None:
                smaller[call["call_id"]] = text
        return smaller


def last_failures(rounds: Iterable[ToolRound]) -> set[int]:
    """The newest failed result of each tool: what a model that debugs looks back to."""
    failed = {
        result.body.get("name", ""): result.seq
        for one in rounds
        for result in one.results
        if not result.body.get("ok")
    }
    return set(failed.values())


def referred(rounds: Iterable[ToolRound]) -> set[int]:
    """The results that "you already have this" in one of these rounds points to."""
    found: set[int] = set()
    for one in rounds:
        by_call = {result.body.get("call_id"): result.seq for result in one.results}
        for result in one.results:
            guard = (result.body.get("meta") or {}).get("guard") or {}
            found.add(guard.get("of") or by_call.get(guard.get("of_call"), 0))
    return found - {0}


def stub_of(body: Mapping[str, Any], find: Find = resolve) -> str:
    """The one line that stands for an old result."""
    name = body.get("name") or "tool"
    size = len(result_text(dict(body)))
    rest = _afterwards(body, find(name))
    return f"[earlier {name} output pruned — {size} chars; {rest}]"


def _afterwards(body: Mapping[str, Any], tool: Tool | None) -> str:
    """What the stub says after the size: never an invitation to repeat an effect."""
    code = (body.get("error") or {}).get("code", "")
    if code == "repeat_blocked":
        return "the call was refused as a repeat"
    # A scan is run for its output; what an unknown or a remote tool did is unknown.
    invites = tool is not None and (
        not tool.mutating or (tool.scan and tool.source == "builtin")
    )
    if invites:
        return "re-run the tool if you need it again"
    if not body.get("ok"):
        return f"it failed ({code or 'error'})"
    return "it was carried out; do not repeat it to see this"


def shortened(arguments: str, word: str = "written earlier") -> str | None:
    """The same arguments with large texts as size and hash; None if none is large."""
    try:
        values = json.loads(arguments)
        small = _shortened_value(values, word)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or small == values:
        return None
    return json.dumps(small, ensure_ascii=False, separators=(",", ":"))


def _shortened_value(value: Any, word: str) -> Any:
    if isinstance(value, dict):
        return {key: _shortened_value(one, word) for key, one in value.items()}
    if isinstance(value, list):
        return [_shortened_value(one, word) for one in value]
    if not isinstance(value, str) or len(value) < LARGE_ARGUMENT:
        return value
    return in_place_of(value, word)


def in_place_of(text: str, word: str) -> str:
    """Size and hash of a text that is not sent; `word` says why."""
    sha256 = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"[{word} — {len(text)} chars, sha256 {sha256[:8]}]"
