"""What happens once before the first request of a run: the surface is made whole.

A conversation's very first request may wait for servers that are still connecting
(`mcp.waitAtStart`). What a surface declares beyond its policy is told with the first
request that carries it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.db import transaction

from agents.context.assemble import declaring
from agents.context.reaching import reach_of
from agents.context.startup import present_servers, startup_body, surface_body
from agents.context.surroundings import look_around
from agents.context.view import Item
from agents.models import McpServer
from agents.reach import load_named, read_on
from agents.runs import Hold
from agents.surface.arrivals import told
from workspace.models import Entry
from workspace.transcript import Draft

_LOOK = 0.2  # seconds between two looks at servers that connect


def begin(hold: Hold) -> None:
    """Before the first request of a run. No query unless there is something to do."""
    items = read_on(hold)
    if not _has_answer(items):
        await_servers(hold)
    tell_of_loads(hold)


def _has_answer(items: Sequence[Item]) -> bool:
    return any(item.kind == "assistant" for item in items)


def await_servers(hold: Hold) -> None:
    """Wait as long as the settings say; then begin with the servers that are there."""
    kept = declaring(hold.items)[0].get("settings") or {}
    seconds = kept.get("mcp.waitAtStart") or 0
    if not seconds:
        return
    hold.expect(seconds)
    deadline = time.monotonic() + seconds
    connecting = McpServer.objects.filter(
        workspace_id=hold.run.workspace_id,
        state=McpServer.State.CONNECTING,
        deleted_at=None,
    )
    while connecting.exists() and time.monotonic() < deadline:
        hold.interrupt.sleep(_LOOK)
    conversation = hold.run.conversation
    reach = reach_of(conversation, hold.items)
    there = present_servers(reach.known, reach.surface)
    if told(hold.items) != {name: one.known for name, one in there.items()}:
        around = look_around(conversation, reach.settings)
        surface = surface_body(hold.run.agent, conversation)
        startup = startup_body(conversation, around)
        hold.append(
            Draft(Entry.Kind.SURFACE, surface), Draft(Entry.Kind.STARTUP, startup)
        )
        read_on(hold)


def tell_of_loads(hold: Hold) -> None:
    """Store which tools the surface declares beyond its policy, once."""
    loaded = declaring(hold.items)[0].get("loaded") or {}
    if not any(loaded.values()):
        return
    with transaction.atomic():
        hold.guard()
        for cause, names in loaded.items():
            load_named(hold, names, cause)
