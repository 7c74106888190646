"""`manage.py tools list`: every tool, what becomes of it, what its schema costs."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.models import Agent
from agents.surface.modes import MODES
from agents.tool_list import Listed, list_tools
from workspace.models import Conversation

BAD_USAGE = 2  # the exit status


class Command(BaseCommand):
    """Asks no model and changes nothing."""

    help = "List every registered tool with its state and the tokens of its schema."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list")
        listing = verbs.add_parser("list", help="Print the tools, sorted by name.")
        listing.add_argument("--json", action="store_true", help="Print a JSON array.")
        listing.add_argument(
            "--agent", help="As this agent sees them: NAME or WORKSPACE/NAME."
        )
        listing.add_argument("--mode", help="In this mode.")
        listing.add_argument("--conversation", help="In the conversation with this id.")

    def handle(self, *args: Any, **options: Any) -> None:
        _check_mode(options["mode"])
        agent = _agent(options["agent"]) if options["agent"] else None
        wanted = options["conversation"]
        conversation = _conversation(wanted) if wanted else None
        if agent and conversation and agent.workspace_id != conversation.workspace_id:
            raise _refused("That agent and that conversation are in two workspaces.")
        rows = list_tools(agent, conversation, options["mode"] or "")
        self.stdout.write(_as_json(rows) if options["json"] else _as_text(rows))


def _refused(message: str) -> CommandError:
    return CommandError(message, returncode=BAD_USAGE)


def _check_mode(mode: str | None) -> None:
    if mode is not None and mode not in MODES:
        known = ", ".join(sorted(MODES))
        raise _refused(f"There is no mode {mode!r}. Modes: {known}.")


def _agent(text: str) -> Agent:
    slug, _slash, name = text.rpartition("/")
    agents = Agent.objects.filter(name=name, deleted_at=None)
    if slug:
        agents = agents.filter(workspace__slug=slug)
    found = list(agents.select_related("workspace").order_by("workspace__slug")[:20])
    if not found:
        raise _refused(f"There is no agent {text!r}.")
    if len(found) > 1:
        names = ", ".join(f"{agent.workspace.slug}/{agent.name}" for agent in found)
        raise _refused(
            f"Several workspaces have an agent {text!r}. Write one: {names}."
        )
    return found[0]


def _conversation(text: str) -> Conversation:
    try:
        wanted = UUID(text)
    except ValueError:
        raise _refused(
            f"{text!r} is not a conversation's id. Copy it from the page's address."
        ) from None
    conversations = Conversation.objects.filter(pk=wanted, deleted_at=None)
    found = conversations.select_related("workspace").first()
    if found is None:
        raise _refused(f"There is no conversation {text}.")
    return found


def _as_json(rows: list[Listed]) -> str:
    return json.dumps([row.as_json() for row in rows], indent=2, ensure_ascii=False)


def _as_text(rows: list[Listed]) -> str:
    """Columns: name, tag, state, deferred, tokens of the schema, description."""
    if not rows:
        return "No tools are registered."
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row, line in zip(rows, cells, strict=True):
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        padded[-1] = line[-1].rjust(widths[-1])
        lines.append("  ".join([*padded, _about(row)]))
    return "\n".join(lines)


def _cells(row: Listed) -> tuple[str, ...]:
    mark = "loaded" if row.loaded else "deferred" if row.deferred else ""
    return row.name, row.tag, row.state, mark, str(row.schema_tokens)


def _about(row: Listed) -> str:
    """The description's first line; for a tool that cannot be used, why."""
    about = " ".join(row.description.split())
    return about if row.state == "active" else f"({row.reason}) {about}"
