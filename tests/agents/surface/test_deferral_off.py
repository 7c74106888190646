"""With deferral off the request is the one that was sent before there was deferral.

`golden/deferral_off.json` is the whole body for a fixed catalogue: tools in the registry's
order, no bridge, no index. A change of it is a change of every such request out there.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.actions import start_conversation
from agents.config.schema import Settings
from agents.context.assemble import assemble
from agents.context.startup import declared_rows, in_wire_order
from agents.context.view import Item
from agents.mcp.listing import listing
from agents.mcp.servers import tools_of
from agents.models import LanguageModel
from agents.providers.scripted import ScriptedProvider, says
from agents.surface.index import index_text
from agents.surface.policy import Rules, ToolSettings, surface
from agents.tools import discovery
from agents.tools.base import Arguments, Tool
from agents.tools.registry import BUILTIN
from tests.agents.conftest import Stage
from tests.agents.servers import serve, tool, tools

GOLDEN = Path(__file__).parent / "golden" / "deferral_off.json"
OFF = Settings.model_validate({"tools": {"deferred": False, "eager": []}})


class OnePath(Arguments):
    path: str


def stand_in(name: str, group: str) -> Tool:
    return Tool(
        name=name, group=group, description=f"{name} it", tag="read", arguments=OnePath
    )


def catalogue() -> tuple[Tool, ...]:
    offered = listing("", [tool("b", "Does b", n="integer"), tool("a", "Does a")])
    return (
        stand_in("write_file", "files"),
        stand_in("shell", "execution"),
        stand_in("git_log", "git"),
        *discovery.TOOLS,
        *tools_of(None, "hub", offered.tools),
    )


def request_body(provider: ScriptedProvider) -> bytes:
    known = catalogue()
    found = surface(known, Rules(settings=ToolSettings(deferral=False, eager=())))
    hidden = [one for one in known if one.name in found.deferred]
    index = index_text(hidden, 250, len)
    parts = [{"id": "environment", "title": "", "text": "Linux."}]
    assert index == ""
    system = [{"id": "base", "title": "Base", "text": "Be brief."}]
    declared = declared_rows(in_wire_order(known, found, OFF))
    items = [
        Item(1, "surface", declared | {"system": system}),
        Item(2, "startup", {"text": "Linux.", "parts": parts}),
        Item(3, "user", {"text": "Hi"}),
    ]
    model = LanguageModel(name="golden", window=100_000, max_output=4_000)
    return assemble(
        items, provider=provider, language_model=model, cap=100_000
    ).request.body


def test_deferral_off_is_the_golden_request_byte_for_byte():
    assert request_body(ScriptedProvider()) == GOLDEN.read_bytes().rstrip(b"\n")


@pytest.mark.django_db
@pytest.mark.parametrize("switch", ["server", "setting"])
def test_with_deferral_off_every_tool_is_declared_servers_last(
    owner, workspace, settings, switch
):
    from agents.config_actions import save_settings

    serve(workspace, "zoo", tools(2))
    serve(workspace, "ape", tools(1))
    values = {"tools.eager": [], "tools.toolSearch.threshold": 50.0}
    if switch == "server":
        settings.TOOL_DEFERRAL = False
    else:
        values["tools.deferred"] = False
    save_settings(by=owner, scope=workspace, values=values)
    stage = Stage(start_conversation(workspace=workspace, author=owner), owner)
    provider = stage.provider = ScriptedProvider(says("Hi."))
    stage.post("Hi")
    stage.play()
    body = json.loads(provider.requests[0].body)
    expected = [
        *(
            one.name
            for one in BUILTIN
            if one.group != "discovery" and not one.conditional()
        ),
        "mcp__ape__job_000",
        "mcp__zoo__job_000",
        "mcp__zoo__job_001",
    ]
    assert [one["function"]["name"] for one in body["tools"]] == expected
    assert b"Deferred (load with" not in provider.requests[0].body
    assert [one["type"] for one in stage.entries("notice")] == []
