"""What a round brings in besides its results: rules and skills for what it touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from agents import events
from agents.children import budget, family
from agents.context.frontmatter import admits
from agents.context.nested import Known, attachments, existing
from agents.context.skills import announcement, waiting
from agents.context.touching import Touch, touches
from agents.guarding import real_call
from agents.models import ToolCall
from agents.runs import Hold
from agents.tools.base import Tool
from agents.tools.paths import Root
from agents.tools.registry import resolve
from workspace.events import Event
from workspace.models import Entry
from workspace.transcript import Draft


@dataclass(frozen=True, slots=True)
class Brought:
    """Notices to append behind a round's results, and the events that tell of them."""

    drafts: tuple[Draft, ...] = ()
    events: tuple[Event, ...] = ()


def brought_in(hold: Hold, calls: Sequence[ToolCall]) -> Brought:
    """What these ended calls of a round bring in. Reads the disk, so before storing."""
    reminder = tuple(budget_notice(hold, calls))
    touched = [touch for call in calls for touch in touched_by(call)]
    if not touched:
        return Brought(reminder)
    root = hold.run.conversation.root
    there = list(existing(Root(root), touched))
    found = attachments(root, touched, Known.of(hold.items))
    bodies = [one.body() for one in found]
    rows = waiting(hold.items)
    if due := [row for row in rows if admits(row["paths"], there)]:
        bodies.append(announcement(due))
    drafts = tuple(
        Draft(kind=Entry.Kind.NOTICE, body=body, turn=hold.run.turn) for body in bodies
    )
    if not found:
        return Brought((*drafts, *reminder))
    paths = tuple(one.kept.file.path for one in found)
    told = events.RulesAttached(**hold.ids, paths=paths, cause=found[0].cause)
    return Brought((*drafts, *reminder), (told,))


def budget_notice(hold: Hold, calls: Sequence[ToolCall]) -> Iterator[Draft]:
    """A child's remaining rounds, where it is to be reminded of them."""
    task = family.delegation_of(hold.run)
    body = budget.notice(calls[0].round, task.rounds) if task else None
    if body:
        yield Draft(kind=Entry.Kind.NOTICE, body=body, turn=hold.run.turn)


def touched_by(call: ToolCall) -> list[Touch]:
    """The paths that a call worked on; none when it was refused or never ran."""
    outcome: Mapping[str, Any] = call.outcome or {}
    if not call.ok and "exit" not in (outcome.get("meta") or {}):
        return []
    name, arguments = real_call(call.name, call.arguments)
    tool = resolve(name)
    return touches(tool, _values(tool, arguments)) if tool else []


def _values(tool: Tool, arguments: str) -> dict[str, Any]:
    """The arguments by their declared names; {} for what does not fit."""
    try:
        return tool.arguments.model_validate_json(arguments or "{}").model_dump()
    except ValidationError:
        return {}
