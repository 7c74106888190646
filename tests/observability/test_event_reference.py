"""The table of events in agents/README.md says what there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from django.conf import settings

from agents import events
from observability.queries import GROUPS
from workspace.events import Event

KINDS = {
    value.kind: value
    for value in vars(events).values()
    if isinstance(value, type) and issubclass(value, Event) and value is not Event
}
ROWS = {
    match[1]: match[0]
    for match in re.finditer(
        r"^\| `([a-z]+\.[a-z]+)` \|.*$",
        (Path(settings.BASE_DIR) / "agents" / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_event_is_described_with_all_its_data(kind):
    row = ROWS[kind]
    own = {field.name for field in fields(KINDS[kind])} - {"run_id", "conversation_id"}
    assert not {name for name in own if f"`{name}`" not in row}
    assert ("*pushed only*" in row) is not KINDS[kind].stored


def test_the_table_describes_nothing_that_is_not_there():
    assert set(ROWS) == set(KINDS)


def test_every_event_that_no_filter_shows_is_about_the_run_or_a_round():
    grouped = set().union(*(group.kinds for group in GROUPS))
    stored = {kind for kind, event in KINDS.items() if event.stored}
    ungrouped = {
        "run.queued",
        "run.started",
        "run.finished",
        "run.failed",
        "run.stopped",
        "round.started",
        "round.finished",
    }
    assert stored - grouped - {"level.changed"} == ungrouped
