"""Before each request: what is old is pruned or summed up, and that is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import transaction

from agents import events
from agents.children.family import effort_of
from agents.context.assemble import Assembled
from agents.context.budget import Counts
from agents.context.governance import Maker, compacted, governed
from agents.context.renewing import renewal_for
from agents.endpoints import Choice
from agents.errors import ContextOverflow, ProviderRejected
from agents.opening import begin
from agents.reach import load_named, read_on
from agents.runs import Hold
from agents.summarising import write_summary
from workspace.events import Event, emit
from workspace.models import Entry
from workspace.transcript import Draft


def next_request(
    hold: Hold, choice: Choice, refused: ContextOverflow | None = None
) -> Assembled:
    """The run's next request; every step that it takes is stored before it is made.

    `refused`: the service found the last one too large. Raises ContextOverflow with
    what fills the window when there is no way to make it smaller.
    """
    if hold.run.round == 0:
        begin(hold)
    desk = _Desk(hold, choice)
    try:
        return governed(
            read_on(hold),
            desk.maker,
            desk.record,
            desk.ask,
            overflow=refused is not None,
        )
    except ContextOverflow as error:
        said = f"{refused.message} {error.message}" if refused else error.message
        raise ContextOverflow(said) from refused


def compact(hold: Hold, choice: Choice, focus: str) -> None:
    """Sum up the older part, as a person asked. Raises ProviderRejected if it cannot."""
    desk = _Desk(hold, choice)
    if refusal := compacted(read_on(hold), desk.maker, desk.record, desk.ask, focus):
        raise ProviderRejected(refusal)


class _Desk:
    """What a run does with the steps of its maker: it stores them, and asks its model."""

    def __init__(self, hold: Hold, choice: Choice) -> None:
        run = hold.run
        self.hold, self.choice = hold, choice
        renew = renewal_for(run.conversation, run.agent, lambda: run.round == 0)
        self.maker = Maker.of(
            run.conversation, choice, effort_of(run), hold.kept, renew
        )

    def record(self, kind: str, body: dict[str, Any]) -> None:
        append_step(self.hold, Entry.Kind(kind), body)

    def ask(self, assembled: Assembled) -> str:
        return write_summary(self.hold, self.choice, assembled)


def too_large(request: Assembled, error: ContextOverflow) -> ContextOverflow:
    """The refusal of a request that was made smaller already, with what fills it."""
    return ContextOverflow(
        f"{error.message} {Counts.of(request.segments, request.factor).advice}"
    )


def append_step(hold: Hold, kind: Entry.Kind, body: dict[str, Any]) -> None:
    """Store a step and its event, and read what came up to it."""
    with transaction.atomic():
        hold.append(Draft(kind=kind, body=body, turn=hold.run.turn))
        if body.get("type") == "declared" and body["cause"] == "resume":
            load_named(hold, [tool["name"] for tool in body["tools"]], "resume")
        if kind == Entry.Kind.SURFACE:
            for cause, names in body["loaded"].items():
                load_named(hold, names, cause)
            old, by = body["switched"]["old"], body["switched"]["by"]
            emit(events.ModeChanged(**hold.ids, old=old, new=body["mode"], by=by))
        emit(*_events(hold, body))
    read_on(hold)


def _events(hold: Hold, body: Mapping[str, Any]) -> Iterator[Event]:
    """What a step is told as; the arrival of a server changes nothing that was sent."""
    kind = body.get("type")
    if kind == "summary":
        yield events.ContextCompacted(
            **hold.ids,
            before=body["before"],
            after=body["after"],
            source=body["source"],
            entries=body["folded"],
        )
    elif kind == "prune":
        yield events.OutputsPruned(
            **hold.ids,
            cause=body["cause"],
            outputs=len(body["stubs"]),
            images=len(body["images"]),
            saved=body["saved_tokens"],
        )
    elif kind == "declared":
        yield events.PrefixChanged(**hold.ids, segment="tools", cause=body["cause"])
