"""Forty turns: what every request begins with never moves, and each extends the last.

A fresh worker plays every turn: nothing that a process remembers is carried over. On the
way come searches, calls through the bridge and by name, servers that arrive late, change,
fail and come back, and midnight.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.actions import start_conversation
from agents.config_actions import save_settings
from agents.mcp import health, servers
from agents.mcp.calling import calls_go_to
from agents.models import McpServer, Run
from agents.providers.scripted import ScriptedProvider, Step, calls, says
from agents.surface import search
from observability.models import Record
from tests.agents.conftest import Stage
from tests.agents.servers import Ledger, serve, tool, tools
from workspace.models import Conversation

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]

TURNS = 40
READS = {"readOnlyHint": True}


def planned(turn: int) -> list[Step]:
    """What the model answers in a turn."""
    name = f"mcp__hub__job_{turn:03}"
    steps = {
        0: [calls("tool_search", query=f"runs job number {turn}")],
        1: [
            calls("tool_search", query=f"select:{name}"),
            calls("tool_call", name=name, arguments={}),
        ],
        2: [calls("mcp__late__ping", n=turn)],
        3: [calls("list_dir", path=".") + calls("read_file", path=f"{turn}.txt")],
        4: [calls("tool_call", name="mcp__hub__job_001", arguments={})],
    }
    return [*steps[turn % 5], says(f"Turn {turn} is done.")]


def happens(turn: int, workspace: Any) -> None:
    """What other people and servers do before a turn."""
    hub = McpServer.objects.get(workspace=workspace, name="hub")
    if turn == 7:
        serve(workspace, "late", [tool("ping", hints=READS)], "Ping gently.\nAlways.")
    if turn == 13:
        serve(
            workspace, "late", [tool("ping", n="integer", hints=READS)], "Ping gently."
        )
    if turn == 18:
        health.failed(hub.pk, "connection reset")
    if turn == 22:
        serve(workspace, "hub", reversed(tools(87)))
    if turn == 25:
        serve(workspace, "late", [tool("ping", n="integer", hints=READS)], "New words.")
    if turn == 30:
        values = {"tools.visible": ["mcp__hub__job_002"], "tools.indexBudget": 9}
        save_settings(
            by=workspace.memberships.get().user, scope=workspace, values=values
        )


def forget() -> None:
    """A new process knows nothing."""
    servers._offer.cache_clear()
    search._index_of.cache_clear()


@pytest.fixture
def played(workspace, owner, monkeypatch):
    workspace.root.mkdir(parents=True, exist_ok=True)
    serve(workspace, "hub", tools(87), "The hub.\nIt has many jobs.")
    stage = Stage(start_conversation(workspace=workspace, author=owner), owner)
    steps = [step for turn in range(TURNS) for step in planned(turn)]
    provider = stage.provider = ScriptedProvider(*steps)
    now = timezone.now
    with calls_go_to(Ledger()):
        for turn in range(TURNS):
            (workspace.root / f"{turn}.txt").write_text("harbour\n" * 100)
            happens(turn, workspace)
            forget()
            ahead = timedelta(hours=1) * turn
            monkeypatch.setattr(timezone, "now", lambda ahead=ahead: now() + ahead)
            stage.conversation = Conversation.objects.get(pk=stage.conversation.pk)
            stage.post(f"Turn {turn}")
            run = stage.play()
            assert run.state == Run.State.FINISHED, run.message
    return stage, provider


def begins_with(one: Any) -> str:
    """The digest of tools, system prompt and startup context of a request."""
    kinds = ("tools", "system", "startup")
    parts = [piece.data for piece in one.request.pieces if piece.owner.kind in kinds]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def unclosed(body: bytes) -> bytes:
    """A request's bytes without what closes its JSON."""
    return body.rstrip(b"]}")


def test_over_forty_turns_the_prefix_never_moves_and_every_request_extends_the_last(
    played,
):
    stage, provider = played
    assert len({begins_with(one) for one in provider.requests}) == 1
    steps = {
        body["upto_seq"]: body
        for body in stage.entries("notice")
        if body["type"] == "prune"
    }
    assert steps, "what is old is pruned on the way"
    broken = [
        number
        for number, (before, after) in enumerate(
            zip(provider.requests, provider.requests[1:], strict=False), 1
        )
        if not after.body.startswith(unclosed(before.body))
    ]
    assert (
        len(broken)
        == len(steps)
        == Record.objects.filter(kind="outputs.pruned").count()
    )
    assert not Record.objects.filter(kind="prefix.changed").exists()


def test_every_arrival_loss_and_change_was_told_exactly_once(played):
    stage, _provider = played
    told = [body for body in stage.entries("notice") if body["type"] == "server"]
    assert [(body["server"], body["now"] is not None) for body in told] == [
        ("late", True),
        ("late", True),
        ("hub", False),
        ("hub", True),
        ("late", True),
    ]
