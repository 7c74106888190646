"""A conversation as its page shows it: entries turned into items, in order.

Results join the card of the call they answer. What a later retry replaced is folded.
A turn that failed or was stopped says so where it ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from workspace import transcript
from workspace.diffs import Row, rows_of
from workspace.folds import Fold, folds
from workspace.models import Conversation, Entry, Turn, User

#: Entries that a page opens with, and that each step upwards adds.
WINDOW = 60
#: Entries among which the newest todo list is looked for.
TODO_REACH = 600
#: Arguments that tell best what a call is about, the first one found wins.
MAIN_ARGUMENTS = (
    "command",
    "pattern",
    "query",
    "path",
    "url",
    "name",
    "task",
    "title",
    "message",
    "code",
)

ItemKind = Literal[
    "user", "assistant", "notice", "startup", "summary", "redaction", "turn", "folded"
]
CardState = Literal["running", "waiting", "ok", "failed", "ended", "lost"]
#: Errors that are no fault of the tool: somebody, or nobody, decided so.
DECIDED = frozenset(
    ["interrupted", "not_run", "denied", "approval_expired", "not_answered"]
)


@dataclass
class Card:
    """One tool call with what came of it so far."""

    key: str
    call_id: str
    name: str
    argument: str
    arguments: str
    state: CardState
    result: dict[str, Any] = field(default_factory=dict)
    result_seq: int = 0

    def answer(self, result: dict[str, Any], seq: int) -> None:
        """Take in what came of the call; a bridged call learns its tool's name."""
        self.result, self.result_seq = result, seq
        if self.meta.get("tool"):
            self.name = str(self.meta["tool"])
        if result.get("ok"):
            self.state = "ok"
        else:
            self.state = "ended" if self.code in DECIDED else "failed"

    @property
    def output(self) -> str:
        return str(self.result.get("output", ""))

    @property
    def error(self) -> str:
        return str((self.result.get("error") or {}).get("message", ""))

    @property
    def code(self) -> str:
        return str((self.result.get("error") or {}).get("code", ""))

    @property
    def hits(self) -> list[str]:
        """The names that a search found."""
        found = self.meta.get("hits")
        if not isinstance(found, list):
            return []
        return [str(hit[0]) for hit in found if isinstance(hit, list) and hit]

    @property
    def notes(self) -> list[str]:
        found = self.result.get("notes")
        return [str(note) for note in found] if isinstance(found, list) else []

    @property
    def meta(self) -> dict[str, Any]:
        return self.result.get("meta") or {}

    @property
    def duration_ms(self) -> int | None:
        return self.result.get("duration_ms")

    @property
    def diff(self) -> list[Row]:
        return rows_of(str(self.meta.get("diff") or ""))

    @property
    def exit(self) -> int | None:
        found = self.meta.get("exit")
        return found if isinstance(found, int) else None

    @property
    def lines(self) -> int:
        return self.output.count("\n") + (not self.output.endswith("\n"))

    @property
    def whole(self) -> bool:
        """False if the output shown is a part of what is stored."""
        return not self.result.get("output_sha256")


@dataclass
class Item:
    """One thing on the page. `update` says that it replaces cards already shown."""

    kind: ItemKind
    seq: int
    at: datetime
    turn: Turn | None = None
    author: User | None = None
    body: dict[str, Any] = field(default_factory=dict)
    cards: list[Card] = field(default_factory=list)
    opens: bool = False
    update: bool = False
    count: int = 0
    client_id: str = ""

    @property
    def text(self) -> str:
        return str(self.body.get("text", ""))

    @property
    def erased(self) -> bool:
        return not self.body and self.kind in ("user", "assistant")


@dataclass
class Thread:
    """A window of a conversation."""

    items: list[Item]
    first: int
    last: int
    head: int
    earlier: bool


def newest(conversation: Conversation, *, everything: bool = False) -> Thread:
    """The end of the conversation, where a reader begins."""
    return before(conversation, conversation.head_seq + 1, everything=everything)


def before(
    conversation: Conversation,
    seq: int,
    limit: int = WINDOW,
    *,
    everything: bool = False,
) -> Thread:
    """The entries before a seq, begun early enough for results to meet their calls."""
    found = transcript.entries(conversation.pk, before=seq, limit=limit)
    if found and found[0].kind == Entry.Kind.TOOL_RESULT:
        asked = _asking(found[0])
        if asked is not None:
            after = asked.seq - 1
            found = transcript.entries(conversation.pk, after=after, before=seq)
    previous = _previous(found[0]) if found else None
    return _thread(conversation, found, previous, everything=everything)


def after(conversation: Conversation, seq: int, limit: int = WINDOW * 5) -> Thread:
    """What is new since a seq; results whose call was shown before come as updates."""
    found = transcript.entries(conversation.pk, after=seq, limit=limit)
    previous = _previous(found[0]) if found else None
    return _thread(conversation, found, previous, everything=False)


def around(conversation: Conversation, seq: int) -> Thread:
    """The window in which a linked entry stands in the middle."""
    return before(conversation, min(seq + WINDOW // 2, conversation.head_seq + 1))


def _previous(entry: Entry) -> Entry | None:
    return Entry.objects.filter(
        conversation=entry.conversation_id, seq=entry.seq - 1
    ).first()


def _asking(result: Entry) -> Entry | None:
    """The assistant message whose calls this result belongs to."""
    return (
        Entry.objects.filter(
            conversation=result.conversation_id,
            kind=Entry.Kind.ASSISTANT,
            seq__lt=result.seq,
        )
        .select_related("stored", "author")
        .order_by("-seq")
        .first()
    )


def _thread(
    conversation: Conversation,
    found: list[Entry],
    previous: Entry | None,
    *,
    everything: bool,
) -> Thread:
    builder = _Builder(conversation, found, previous)
    first = found[0].seq if found else 0
    hidden = [] if everything else folds(conversation.pk, since=first)
    items = list(_folded(builder.items(), hidden))
    last = found[-1].seq if found else 0
    return Thread(items, first, last, conversation.head_seq, earlier=first > 1)


def _folded(items: Iterable[Item], waiting: list[Fold]) -> Iterator[Item]:
    """The items with what was replaced as single lines, each at its fold's end."""
    item: Item | None = None
    for item in items:
        while waiting and waiting[0].last < item.seq:
            yield _line(waiting.pop(0), item)
        if not (waiting and waiting[0].first <= item.seq):
            yield item
    if item and waiting and waiting[0].first <= item.seq:
        yield _line(waiting[0], item)


def _line(fold: Fold, near: Item) -> Item:
    return Item("folded", fold.first, near.at, count=fold.count)


class _Builder:
    """Turns one window's entries into items."""

    def __init__(
        self, conversation: Conversation, found: list[Entry], previous: Entry | None
    ) -> None:
        self.conversation = conversation
        self.found = found
        self.previous = previous
        self.bodies = transcript.bodies(found)
        ids = {entry.turn_id for entry in (*found, *([previous] if previous else []))}
        self.turns = Turn.objects.in_bulk([pk for pk in ids if pk])
        self.cards: list[Card] = []
        #: Keys of the cards whose call stands in this window.
        self.own: set[str] = set()

    def items(self) -> Iterator[Item]:
        before_it = self.previous
        for entry, body in zip(self.found, self.bodies, strict=True):
            yield from self._turn_end(before_it, entry)
            if entry.kind == Entry.Kind.TOOL_RESULT:
                yield from self._result(entry, body)
            elif not _is_hidden(entry, body):
                yield self._item(entry, body, before_it)
            before_it = entry

    def _turn_end(self, earlier: Entry | None, entry: Entry) -> Iterator[Item]:
        """The line that says how the turn before this entry ended, unless well."""
        if earlier is None or earlier.turn_id in (None, entry.turn_id):
            return
        turn = self.turns.get(earlier.turn_id)
        if turn and turn.state in (Turn.State.FAILED, Turn.State.STOPPED):
            yield Item("turn", earlier.seq, turn.ended_at or earlier.created_at, turn)

    def _item(self, entry: Entry, body: dict[str, Any], earlier: Entry | None) -> Item:
        goes_on = (
            earlier is not None
            and earlier.turn_id == entry.turn_id
            and earlier.kind in (Entry.Kind.ASSISTANT, Entry.Kind.TOOL_RESULT)
        )
        item = Item(
            _kind(entry),
            entry.seq,
            entry.created_at,
            self.turns.get(entry.turn_id) if entry.turn_id else None,
            entry.author,
            body,
            opens=not goes_on,
            client_id=entry.client_id or "",
        )
        if entry.kind == Entry.Kind.ASSISTANT:
            item.cards = self._asked(entry, body)
            self.cards.extend(item.cards)
            self.own.update(card.key for card in item.cards)
        return item

    def _asked(self, entry: Entry, body: dict[str, Any]) -> list[Card]:
        state = self._open_state(entry)
        return [
            card_of(f"card-{entry.seq}-{index}", call, state)
            for index, call in enumerate(body.get("tool_calls") or [])
        ]

    def _open_state(self, entry: Entry) -> CardState:
        """The state of a call of this message that has no result."""
        turn = self.turns.get(entry.turn_id) if entry.turn_id else None
        if turn is None or turn.state not in Turn.OPEN:
            return "lost"
        return "waiting" if turn.state == Turn.State.WAITING else "running"

    def _result(self, entry: Entry, body: dict[str, Any]) -> Iterator[Item]:
        """Join the card; a card that is on the page already comes as an update."""
        card = self._open_card(body)
        if card is None:
            self._recall(entry)
            card = self._open_card(body)
        if card is None:
            card = Card(
                f"card-{entry.seq}", str(body.get("call_id", "")), "", "", "", "lost"
            )
            card.name = str(body.get("name", ""))
        card.answer(body, entry.seq)
        if card.key not in self.own:
            turn = self.turns.get(entry.turn_id) if entry.turn_id else None
            yield Item(
                "assistant",
                entry.seq,
                entry.created_at,
                turn,
                cards=[card],
                update=True,
                body={"text": ""},
            )

    def _open_card(self, body: dict[str, Any]) -> Card | None:
        call_id = body.get("call_id")
        for card in self.cards:
            if card.call_id == call_id and not card.result_seq:
                return card
        return None

    def _recall(self, result: Entry) -> None:
        """Bring back the cards of the message before this window.

        Those that have their result already are marked, so that a second call of the
        same id meets its own card.
        """
        asking = _asking(result)
        if asking is None or any(
            card.key.startswith(f"card-{asking.seq}-") for card in self.cards
        ):
            return
        cards = self._asked(asking, transcript.body(asking))
        answered = transcript.entries(
            self.conversation.pk, after=asking.seq, before=self.found[0].seq
        )
        results = [e for e in answered if e.kind == Entry.Kind.TOOL_RESULT]
        self.cards.extend(cards)
        for entry, body in zip(results, transcript.bodies(results), strict=True):
            card = self._open_card(body)
            if card is not None:
                card.result_seq = entry.seq


def _is_hidden(entry: Entry, body: dict[str, Any]) -> bool:
    """What is of no use to readers: declarations, and steps that follow every round."""
    return entry.kind == Entry.Kind.SURFACE or (
        body.get("type") == "prune" and body.get("cause") == "literal"
    )


def _kind(entry: Entry) -> ItemKind:
    kinds: dict[str, ItemKind] = {
        Entry.Kind.USER: "user",
        Entry.Kind.ASSISTANT: "assistant",
        Entry.Kind.STARTUP: "startup",
        Entry.Kind.SUMMARY: "summary",
        Entry.Kind.REDACTION: "redaction",
    }
    return kinds.get(entry.kind, "notice")


def parsed(arguments: Any) -> Any:
    """The arguments as values; a text that is no JSON stays text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def card_of(key: str, call: dict[str, Any], state: CardState) -> Card:
    """The card of a call; one through the bridge shows the tool that it reaches."""
    name, arguments = str(call.get("name", "")), call.get("arguments")
    if name == "tool_call":
        given = parsed(arguments)
        inner = given.get("name") if isinstance(given, dict) else None
        if isinstance(inner, str) and inner:
            name, arguments = inner, given.get("arguments")
    return Card(
        key=key,
        call_id=str(call.get("call_id", "")),
        name=name,
        argument=main_argument(arguments),
        arguments=pretty(arguments),
        state=state,
    )


def main_argument(arguments: Any) -> str:
    """What a folded card says of its call: one line, at most 200 characters."""
    values = parsed(arguments)
    if not isinstance(values, dict):
        return str(values or "")[:200]
    texts = [values.get(name) for name in MAIN_ARGUMENTS] + list(values.values())
    for text in texts:
        if isinstance(text, str) and text.strip():
            return " ".join(text.split())[:200]
    return ""


def pretty(arguments: Any) -> str:
    """The exact arguments: a single text as it is, everything else as JSON."""
    values = parsed(arguments)
    if isinstance(values, str):
        return values
    if isinstance(values, dict) and len(values) == 1:
        [only] = values.values()
        if isinstance(only, str):
            return only
    return json.dumps(values, ensure_ascii=False, indent=2)


def todo_list(conversation: Conversation) -> list[dict[str, Any]]:
    """The agent's newest list of steps; empty if it made none lately."""
    entry = (
        Entry.objects.filter(
            conversation=conversation,
            seq__gt=conversation.head_seq - TODO_REACH,
            kind=Entry.Kind.TOOL_RESULT,
            stored__text__contains='"name":"todo_write"',
        )
        .select_related("stored")
        .order_by("-seq")
        .first()
    )
    steps = (transcript.body(entry).get("meta") or {}).get("todo") if entry else None
    return [step for step in steps or [] if isinstance(step, dict)]
