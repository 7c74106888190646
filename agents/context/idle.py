"""What a new conversation's requests begin with, and what that costs when idle."""

from __future__ import annotations

from dataclasses import dataclass

from agents.config.schema import Settings
from agents.context.startup import (
    BASE,
    SAFETY,
    canonical,
    declaration,
    in_wire_order,
)
from agents.context.tokens import count
from agents.permissions import whole_tool_denials
from agents.surface.index import index_text
from agents.surface.modes import MODES
from agents.surface.policy import Policy, surface_for
from agents.tools.registry import catalogue
from workspace.models import Workspace


@dataclass(frozen=True, slots=True)
class Prefix:
    """The declared tools, those that nobody can reach, and the tokens of it all.

    `tool_tokens` are those of the declared schemas alone.
    """

    declared: frozenset[str]
    gone: frozenset[str]
    tool_tokens: int
    tokens: int


def prefix_of(
    workspace: Workspace | None, chosen: Settings, policy: Policy, mode: str = "chat"
) -> Prefix:
    """The prefix as far as settings, policy and mode decide it."""
    known = catalogue(workspace.pk if workspace else None)
    denials = whole_tool_denials(workspace.permission_rules if workspace else {})
    surface = surface_for(
        known.tools, known.absent, denials, mode, chosen=chosen, policy=policy
    )
    declared = in_wire_order(known.tools, surface, chosen)
    hidden = [tool for tool in known.tools if tool.name in surface.deferred]
    said = {one.group: one.offer.instructions for one in known.ready.values()}
    index = index_text(hidden, chosen.tools.index_budget, count, said)
    tool_tokens = sum(count(canonical(declaration(tool))) for tool in declared)
    base = chosen.agent.system_prompt or BASE
    return Prefix(
        frozenset(tool.name for tool in declared),
        frozenset((*surface.denied, *surface.absent, *surface.withheld)),
        tool_tokens,
        tool_tokens + sum(map(count, (base, SAFETY, MODES[mode].text, index))),
    )
