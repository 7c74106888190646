"""Before each request: old outputs are pruned, and what happened is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from agents import events
from agents.context.assemble import Assembled
from agents.context.governance import Maker, governed
from agents.endpoints import Choice
from agents.reach import read_on
from agents.runs import Hold
from workspace.events import Event, emit
from workspace.models import Entry
from workspace.transcript import Draft


def next_request(hold: Hold, choice: Choice) -> Assembled:
    """The run's next request; every step that it takes is stored before it is made."""
    run = hold.run
    maker = Maker.of(run.conversation, choice, run.agent.effort)

    def record(kind: str, body: dict[str, Any]) -> None:
        append_step(hold, Entry.Kind(kind), body)

    return governed(read_on(hold), maker, record)


def append_step(hold: Hold, kind: Entry.Kind, body: dict[str, Any]) -> None:
    """Store a step and its event, and read what came up to it."""
    with transaction.atomic():
        hold.append(Draft(kind=kind, body=body, turn=hold.run.turn))
        emit(_event(hold, body))
    read_on(hold)


def _event(hold: Hold, body: Mapping[str, Any]) -> Event:
    return events.OutputsPruned(
        **hold.ids,
        cause=body["cause"],
        outputs=len(body["stubs"]),
        images=len(body["images"]),
        saved=body["saved_tokens"],
    )
