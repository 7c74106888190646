"""What the calls of a run can reach, and which deferred tools it has loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from agents import events
from agents.context.assemble import items_of
from agents.context.folding import fold
from agents.context.reaching import reach_of
from agents.context.startup import canonical, declaration
from agents.context.tokens import count
from agents.context.view import Item
from agents.mcp.servers import Server
from agents.models import LoadedTool, ToolCall
from agents.runs import Hold
from agents.surface.bridge import Bridge, digest_of
from agents.surface.index import group_of, is_one_line
from agents.surface.search import Document, index_of
from agents.surface.search.documents import arguments_of
from agents.tools.base import Tool, ToolResult
from agents.tools.registry import catalogue
from workspace.events import emit


def read_on(hold: Hold) -> list[Item]:
    """The run's transcript, with what was appended since it was last read."""
    hold.items += items_of(hold.run.conversation, after=hold.seen_seq)
    return hold.items


def bridge_of(hold: Hold) -> Bridge:
    """What the conversation declares and what it can find, as of now."""
    reach = reach_of(hold.run.conversation, hold.items)
    found = [reach.known.resolve(name) for name in reach.surface.deferred]
    hidden = [tool for tool in found if tool and tool.name not in reach.declared]
    return Bridge(
        reach.surface,
        reach.declared,
        {tool.name: tool for tool in reach.known.tools},
        lambda: index_of(map(document_of, hidden)),
        unsaid(reach.known.ready.values(), hold.items),
    )


def unsaid(servers: Iterable[Server], items: Sequence[Item]) -> dict[str, str]:
    """Instructions that the model has not seen whole, by group of tools.

    The first line stands in the index; the whole comes with the first tool loaded.
    """
    said: dict[str, str] = {}
    for item in fold(items).rows:
        if item.kind == "tool_result":
            said |= (item.body.get("meta") or {}).get("instructions") or {}
    return {
        one.group: one.offer.instructions
        for one in servers
        if not is_one_line(one.offer.instructions)
        and said.get(one.group) != digest_of(one.offer.instructions)
    }


def document_of(tool: Tool) -> Document:
    """A tool as the search sees it: every word that says what it does."""
    return Document(
        tool.name,
        group_of(tool).removeprefix("mcp:"),
        tool.description,
        tool.hints,
        arguments_of(json.loads(tool.schema)),
    )


def record_loads(
    hold: Hold, call: ToolCall, tool: Tool, result: ToolResult, bridge: Bridge
) -> list[str]:
    """Store which tools this call loaded; returns notes for the model.

    Inside the transaction of the call's outcome.
    """
    found = [name for name in result.meta.get("loaded", {}) if name != tool.name]
    tools = [bridge.tools[name] for name in found]
    if tools:
        query = str(result.meta.get("query", ""))
        load(hold, tools, LoadedTool.Cause.SEARCH, call.round, query)
    if "query" in result.meta and tool.name == "tool_search":
        emit(
            events.ToolSearched(
                **hold.ids,
                query=str(result.meta["query"])[:500],
                hits=result.meta.get("hits", []),
            )
        )
    if not result.meta.get("direct"):
        return []
    notes = bridge.introductions([tool])
    if load(hold, [tool], LoadedTool.Cause.DIRECT, call.round):
        notes.append(f"loaded {tool.name} for this session")
    return notes


def load(
    hold: Hold,
    tools: Sequence[Tool],
    cause: LoadedTool.Cause,
    round: int,
    query: str = "",
) -> list[str]:
    """Store the tools that are not loaded yet, and say so; returns their names.

    Inside the transaction of what loads them. One query if they all are.
    """
    conversation_id = hold.run.conversation_id
    rows = LoadedTool.objects.filter(
        conversation_id=conversation_id, tool__in=[tool.name for tool in tools]
    )
    if (
        cause == LoadedTool.Cause.RESUME
    ):  # it says more of a tool than how it first came
        rows.exclude(cause=cause).delete()
    known = set(rows.values_list("tool", flat=True))
    new = [tool for tool in tools if tool.name not in known]
    LoadedTool.objects.bulk_create(
        LoadedTool(
            conversation_id=conversation_id,
            run=hold.run,
            tool=tool.name,
            schema_digest=tool.digest,
            cause=cause,
            query=query[:500],
            round=round,
            tokens=count(canonical(declaration(tool))),
        )
        for tool in new
    )
    names = tuple(sorted(tool.name for tool in new))
    if new:
        emit(events.ToolLoaded(**hold.ids, names=names, cause=cause, query=query[:500]))
    return list(names)


def load_named(hold: Hold, names: Sequence[str], cause: str) -> None:
    """The same for tools by their names; those that are gone are left out."""
    known = catalogue(hold.run.workspace_id)
    tools = [tool for tool in map(known.resolve, names) if tool]
    if tools:
        load(hold, tools, LoadedTool.Cause(cause), round=hold.run.round)
