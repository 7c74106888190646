"""A stand-in for MCP servers: their rows are real, what they answer is scripted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agents.mcp import health
from agents.mcp.listing import listing
from agents.models import McpServer
from agents.tools.base import ToolContext, ToolResult
from workspace.models import Workspace


def tool(name: str, description: str = "", **facts: Any) -> dict[str, Any]:
    """A tool as a server lists it; keyword arguments that are types are its arguments."""
    hints = facts.pop("hints", {})
    required = facts.pop("required", [])
    properties = {key: {"type": kind} for key, kind in facts.items()}
    return {
        "name": name,
        "description": description or f"Does what {name} says",
        "schema": {"type": "object", "properties": properties, "required": required},
        "hints": hints,
    }


def tools(count: int, verb: str = "job") -> list[dict[str, Any]]:
    reads = {"readOnlyHint": True}
    return [
        tool(f"{verb}_{number:03}", f"Runs {verb} number {number}", hints=reads)
        for number in range(count)
    ]


def serve(
    workspace: Workspace,
    name: str,
    offered: Iterable[Mapping[str, Any]] = (),
    instructions: str = "",
) -> McpServer:
    """A server that is ready; called again, it lists something else."""
    server, _ = McpServer.objects.get_or_create(
        workspace=workspace, name=name, deleted_at=None, defaults={"trusted": True}
    )
    health.listed(server.pk, listing(instructions, offered))
    server.refresh_from_db()
    return server


@dataclass
class Ledger:
    """Answers every call and writes down what really ran."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    text: str = "done"

    def call(
        self,
        server_id: UUID,
        tool: str,
        arguments: Mapping[str, Any],
        ctx: ToolContext,
    ) -> ToolResult:
        self.calls.append((tool, dict(arguments)))
        return ToolResult(True, f"{self.text} {len(self.calls)}")
