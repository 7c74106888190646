"""The servers of a workspace as values, and their tools as any other tool.

They are read from rows: no connection is needed to know them. What a server offers is
made into tools once per process and version of its listing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any
from uuid import UUID

from pydantic import ConfigDict

from agents.mcp import calling
from agents.mcp.names import full_names
from agents.models import McpServer
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult
from workspace.prepared import Select, given

_KEPT = 128  # listings whose tools a process holds; one of 300 tools is some 2 MB


class Given(Arguments):
    """Arguments of a server's tool: any keys; its own schema says which fit."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True)
class Offer:
    """What a server offers: instructions (its own words, untrusted) and tools."""

    instructions: str
    tools: tuple[Tool, ...]

    @cached_property
    def schemas(self) -> dict[str, str]:
        """Full names to digests of name and schema: what a review is bound to."""
        return {tool.name: tool.digest for tool in self.tools}

    @cached_property
    def words(self) -> str:
        """A digest of the instructions; "" when there are none."""
        if not self.instructions:
            return ""
        return hashlib.sha256(self.instructions.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Server:
    """One server of a workspace. `absent` says why its tools cannot run, or ""."""

    id: UUID
    name: str
    state: str
    reason: str
    offer: Offer

    @property
    def group(self) -> str:
        return f"mcp:{self.name}"

    @property
    def absent(self) -> str:
        if self.state == McpServer.State.READY:
            return ""
        if self.state == McpServer.State.CONNECTING:
            return f"the server {self.name} is still connecting"
        what = "has failed" if self.state == McpServer.State.FAILED else "is gone"
        return f"the server {self.name} {what}{f': {self.reason}' * bool(self.reason)}"


def servers_of(workspace_id: UUID) -> tuple[Server, ...]:
    """The workspace's servers by name. One query, one more for each new listing."""
    while True:
        try:
            return tuple(_read(workspace_id))
        except McpServer.DoesNotExist:
            continue  # a listing changed between two queries: look again


_SERVERS = Select[tuple[UUID, str, str, str, bool, str]](
    lambda: (
        McpServer.objects.filter(
            workspace=given("workspace", McpServer, "workspace"),
            deleted_at__isnull=True,
        )
        .order_by("name")
        .values_list("id", "name", "state", "reason", "trusted", "digest")
    )
)


def _read(workspace_id: UUID) -> Iterator[Server]:
    columns = _SERVERS.all(workspace=workspace_id)
    for id, name, state, reason, trusted, digest in columns:
        yield Server(id, name, state, reason, _offer(id, name, trusted, digest))


@lru_cache(maxsize=_KEPT)
def _offer(id: UUID, name: str, trusted: bool, digest: str) -> Offer:
    """The offer behind a digest. Raises DoesNotExist when the row has moved on."""
    if not digest:
        return Offer("", ())
    found = McpServer.objects.filter(digest=digest, deleted_at=None)
    instructions, rows = found.values_list("instructions", "tools").get(pk=id)
    return Offer(instructions, tools_of(id, name, rows, trusted=trusted))


def tools_of(
    server_id: UUID,
    server: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    trusted: bool = True,
) -> tuple[Tool, ...]:
    """A cleaned listing as tools, by full name."""
    names = full_names(server, (row["name"] for row in rows))
    tools = [
        _tool(names[row["name"]], server, row, trusted, _runner(server_id, row["name"]))
        for row in rows
    ]
    return tuple(sorted(tools, key=lambda tool: tool.name))


def _tool(
    name: str,
    server: str,
    row: Mapping[str, Any],
    trusted: bool,
    run: Callable[[ToolContext, Any], ToolResult],
) -> Tool:
    """Read-only is what a trusted server says so of; all else asks a person."""
    reads = trusted and row["read_only"]
    return Tool(
        name=name,
        group=f"mcp:{server}",
        description=row["description"] or row["name"],
        tag="read" if reads else "send",
        arguments=Given,
        run=run,
        tier="deferred",
        idempotent=reads or (trusted and row["idempotent"]),
        scan=True,
        source=f"mcp:{server}",
        served_schema=json.dumps(row["schema"]),
    )


def _runner(server_id: UUID, tool: str) -> Callable[[ToolContext, Any], ToolResult]:
    return partial(_run, server_id, tool)


def _run(server_id: UUID, tool: str, ctx: ToolContext, args: Given) -> ToolResult:
    return calling.caller().call(server_id, tool, args.model_dump(), ctx)
