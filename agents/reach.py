"""What the calls of a run can reach, and which deferred tools it has loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from agents import events
from agents.config.layers import effective, thawed
from agents.config.schema import Settings
from agents.context.assemble import items_of
from agents.context.startup import canonical, declaration
from agents.context.tokens import count
from agents.context.view import Item, standing
from agents.models import LoadedTool, ToolCall
from agents.permissions import whole_tool_denials
from agents.runs import Hold
from agents.surface.bridge import Bridge, schema_digest
from agents.surface.index import group_of
from agents.surface.policy import surface_for
from agents.surface.search import Document, index_of
from agents.surface.search.documents import arguments_of
from agents.tools.base import Tool, ToolResult
from agents.tools.registry import BUILTIN, present
from workspace.events import emit


def read_on(hold: Hold) -> list[Item]:
    """The run's transcript, with what was appended since it was last read."""
    hold.items += items_of(hold.run.conversation, after=hold.seen_seq)
    return hold.items


def bridge_of(hold: Hold) -> Bridge:
    """What the conversation declares and what it can find, as of now."""
    conversation = hold.run.conversation
    tools, absent = present()
    denials = whole_tool_denials(conversation.workspace.permission_rules)
    surface = surface_for(
        tools, absent, denials, conversation.mode, chosen=settings_of(hold)
    )
    declared = declared_names(hold.items)
    by_name = {tool.name: tool for tool in BUILTIN}
    hidden = [
        tool
        for tool in BUILTIN
        if tool.name in surface.deferred and tool.name not in declared
    ]
    return Bridge(
        surface, declared, by_name, lambda: index_of(map(document_of, hidden))
    )


def settings_of(hold: Hold) -> Settings:
    """The settings that the conversation began with; those of now if it kept none."""
    bodies = [item.body for item in hold.items if item.kind == "surface"]
    kept = bodies[-1].get("settings")
    return effective(hold.run.conversation).settings if kept is None else thawed(kept)


def declared_names(items: Iterable[Item]) -> frozenset[str]:
    """What the requests of a conversation declare: the tools of its last surface."""
    bodies = [item.body for item in items if item.kind == "surface"]
    return frozenset(tool["name"] for tool in bodies[-1]["tools"])


def document_of(tool: Tool) -> Document:
    """A tool as the search sees it: every word that says what it does."""
    return Document(
        tool.name,
        group_of(tool).removeprefix("mcp:"),
        tool.description,
        tool.hints,
        arguments_of(json.loads(tool.schema)),
    )


def reviewed(items: Sequence[Item]) -> dict[str, str]:
    """Schema digests that the model was shown and that are still in its view."""
    shown: dict[str, str] = {}
    for item in standing(items):
        if item.kind == "tool_result":
            meta: Mapping[str, Mapping[str, str]] = item.body.get("meta") or {}
            shown |= meta.get("loaded") or {}
    return shown


def record_loads(hold: Hold, call: ToolCall, tool: Tool, result: ToolResult) -> str:
    """Store which tools this call loaded; returns the note for the model, or "".

    Inside the transaction of the call's outcome.
    """
    found = [name for name in result.meta.get("loaded", {}) if name != tool.name]
    if found:
        query = str(result.meta.get("query", ""))
        _load(hold, call, found, LoadedTool.Cause.SEARCH, query)
    if "query" in result.meta and tool.name == "tool_search":
        emit(
            events.ToolSearched(
                **hold.ids,
                query=str(result.meta["query"])[:500],
                hits=result.meta.get("hits", []),
            )
        )
    if not result.meta.get("direct"):
        return ""
    new = _load(hold, call, [tool.name], LoadedTool.Cause.DIRECT, "")
    return f"loaded {tool.name} for this session" if new else ""


def _load(
    hold: Hold,
    call: ToolCall,
    names: Sequence[str],
    cause: LoadedTool.Cause,
    query: str,
) -> list[str]:
    """Store the names that are not loaded yet, and say so; returns them."""
    conversation_id = hold.run.conversation_id
    known = set(
        LoadedTool.objects.filter(
            conversation_id=conversation_id, tool__in=names
        ).values_list("tool", flat=True)
    )
    new = [tool for tool in BUILTIN if tool.name in names and tool.name not in known]
    LoadedTool.objects.bulk_create(
        LoadedTool(
            conversation_id=conversation_id,
            run=hold.run,
            tool=tool.name,
            schema_digest=schema_digest(tool),
            cause=cause,
            query=query[:500],
            round=call.round,
            tokens=count(canonical(declaration(tool))),
        )
        for tool in new
    )
    if new:
        loaded = tuple(sorted(tool.name for tool in new))
        emit(
            events.ToolLoaded(**hold.ids, names=loaded, cause=cause, query=query[:500])
        )
    return [tool.name for tool in new]
