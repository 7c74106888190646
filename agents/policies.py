"""The stored tool policy: the server's blocks, and a workspace's in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from django.db.models import Q

from agents.models import ModeToolPolicy
from agents.surface.modes import MODES, TIERS
from agents.surface.policy import Policy
from agents.tools.base import Tag
from workspace.prepared import Select, given

Block = ModeToolPolicy.Block
FOR_MODE = "mode:"
#: Every block, in the order of the page.
BLOCKS = (*Block.values, *(f"{FOR_MODE}{name}" for name in MODES))


_ROWS = Select[ModeToolPolicy](
    lambda: ModeToolPolicy.objects.filter(
        Q(workspace__isnull=True)
        | Q(workspace=given("workspace", ModeToolPolicy, "workspace"))
    )
)


def rows_of(workspace_id: UUID | None) -> dict[str, ModeToolPolicy]:
    """The row in force for each block that has one. One query."""
    rows = _ROWS.all(workspace=workspace_id)
    # The workspace's own come last, and so replace the server's.
    ordered = sorted(rows, key=lambda row: row.workspace_id is not None)
    return {row.block: row for row in ordered}


def policy_of(workspace_id: UUID | None = None) -> Policy:
    """What holds in a workspace, without one on the server. One query."""
    return made_of(rows_of(workspace_id).values())


def made_of(rows: Iterable[ModeToolPolicy]) -> Policy:
    """The policy that these rows are; blocks without a row are as shipped."""
    found = {row.block: row for row in rows}
    shipped = Policy()
    policy = Policy(
        builtins=_names(found, Block.BUILTINS, shipped.builtins),
        discovery=_names(found, Block.DISCOVERY, shipped.discovery),
        mcp=_names(found, Block.MCP, shipped.mcp),
        modes={
            name: _names(found, f"{FOR_MODE}{name}", residents)
            for name, residents in shipped.modes.items()
        },
    )
    of_modes = {
        name: found[f"{FOR_MODE}{name}"]
        for name in MODES
        if f"{FOR_MODE}{name}" in found
    }
    return replace(
        policy,
        ceilings={
            name: tier
            for name, row in of_modes.items()
            if (tier := _tier(row.ceiling)) is not None
        },
        allowed={
            name: frozenset(row.allowed)
            for name, row in of_modes.items()
            if row.allowed is not None
        },
    )


def _names(
    found: Mapping[str, ModeToolPolicy], block: str, shipped: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(found[block].names) if block in found else shipped


def _tier(word: str) -> Tag | None:
    return next((tag for tag in TIERS if tag == word), None)


def block_names(policy: Policy, block: str) -> tuple[str, ...]:
    """The names of one block of a policy."""
    if block.startswith(FOR_MODE):
        return policy.modes.get(block.removeprefix(FOR_MODE), ())
    return {
        Block.BUILTINS.value: policy.builtins,
        Block.DISCOVERY.value: policy.discovery,
        Block.MCP.value: policy.mcp,
    }[block]
