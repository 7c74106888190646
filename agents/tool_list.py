"""Every registered tool, with what becomes of it and what its declaration costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import DatabaseError

from agents.children.family import limits_of
from agents.config.layers import effective, of_server_alone
from agents.config.schema import Settings
from agents.context.startup import (
    begun_with,
    canonical,
    declaration,
    mode_in,
    settings_in,
)
from agents.context.tokens import count
from agents.models import Agent
from agents.permissions import whole_tool_denials
from agents.policies import policy_of
from agents.surface.policy import Policy, Surface, surface_for
from agents.tools.base import Tool
from agents.tools.registry import catalogue
from workspace import transcript
from workspace.models import Conversation, Entry


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool. `schema_tokens` is what it costs in every request that declares it.

    `state` is active, denied, withheld or absent; `reason` says why. `loaded` is a
    deferred tool whose schema the conversation has received.
    """

    name: str
    group: str
    category: str
    tag: str
    state: str
    source: str
    server: str
    description: str
    reason: str
    deferred: bool
    loaded: bool
    schema_tokens: int

    def as_json(self) -> dict[str, str | bool | int]:
        return {
            "name": self.name,
            "group": self.group,
            "category": self.category,
            "permissionTag": self.tag,
            "state": self.state,
            "source": self.source,
            "server": self.server,
            "description": self.description,
            "reason": self.reason,
            "deferred": self.deferred,
            "loaded": self.loaded,
            "schemaTokens": self.schema_tokens,
        }


def list_tools(
    agent: Agent | None = None,
    conversation: Conversation | None = None,
    mode: str = "",
) -> list[Listed]:
    """By name: as the server has them, or as an agent or a conversation sees them.

    A `mode` goes before the conversation's own.
    One query without an agent and a conversation, two with; no model call ever.
    """
    seen_by = conversation or agent
    found = catalogue(seen_by.workspace_id if seen_by else None)
    rules = seen_by.workspace.permission_rules if seen_by else {}
    begun = begun_with(conversation) if conversation else {}
    if not mode:
        mode = mode_in(conversation, begun) if conversation else "chat"
    surface = surface_for(
        found.tools,
        found.absent,
        whole_tool_denials(rules),
        mode,
        chosen=settings_in(conversation, begun) if conversation else _settings(agent),
        policy=_policy(seen_by.workspace_id if seen_by else None),
        child=limits_of(conversation) if conversation else None,
    )
    if conversation is None:
        return listed(found.tools, surface)
    loaded = conversation.loaded_tools.values_list("tool", flat=True)
    return listed(found.tools, surface, declared_names(conversation), frozenset(loaded))


def _policy(workspace_id: UUID | None) -> Policy:
    """As stored; as shipped while there is no database yet."""
    try:
        return policy_of(workspace_id)
    except DatabaseError:
        if workspace_id:
            raise
        return Policy()


def _settings(agent: Agent | None) -> Settings:
    """The command also lists tools before there is a database: the environment's hold."""
    try:
        return effective(agent).settings
    except DatabaseError:
        if agent:
            raise
        return of_server_alone().settings


def listed(
    tools: Sequence[Tool],
    surface: Surface,
    declared: frozenset[str] | None = None,
    loaded: frozenset[str] = frozenset(),
) -> list[Listed]:
    """The rows for a surface; `declared` are a conversation's tools, None without one."""
    rows = [_row(tool, surface, declared, loaded) for tool in tools]
    return sorted(rows, key=lambda row: row.name)


def declared_names(conversation: Conversation) -> frozenset[str]:
    """What its requests declare: the tools of its latest surface. One or two queries."""
    entry = (
        conversation.entries.filter(kind=Entry.Kind.SURFACE)
        .select_related("stored")
        .order_by("-seq")
        .first()
    )
    body: Mapping[str, Sequence[Mapping[str, str]]] = (
        transcript.body(entry) if entry else {}
    )
    return frozenset(tool["name"] for tool in body.get("tools", ()))


def _row(
    tool: Tool,
    surface: Surface,
    declared: frozenset[str] | None,
    loaded: frozenset[str],
) -> Listed:
    deferred = tool.name in surface.deferred
    state = _state(tool.name, surface)
    reason = surface.reasons.get(tool.name, "")
    if state == "active" and not deferred and declared and tool.name not in declared:
        reason = "not declared in this conversation, which began without it"
    server = tool.source.removeprefix("mcp:") if tool.source != "builtin" else ""
    return Listed(
        name=tool.name,
        group=tool.group,
        category=tool.source if server else tool.group,
        tag=tool.tag,
        state=state,
        source=tool.source,
        server=server,
        description=tool.description,
        reason=reason,
        deferred=deferred,
        loaded=deferred and tool.name in (loaded | (declared or frozenset())),
        schema_tokens=count(canonical(declaration(tool))),
    )


def _state(name: str, surface: Surface) -> str:
    for state in ("absent", "denied", "withheld"):
        if name in getattr(surface, state):
            return state
    return "active"
