"""Every write to the tool policy, with its refusals."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.config.layers import effective
from agents.context.startup import canonical, declaration
from agents.context.tokens import count
from agents.models import ModeToolPolicy
from agents.policies import BLOCKS, FOR_MODE, Block, made_of, rows_of
from agents.surface.modes import MODES, TIERS
from agents.surface.policy import DISCOVERY, Policy
from agents.tools.base import Tool
from agents.tools.registry import Catalogue, catalogue, resolve
from workspace import audit
from workspace.access import require
from workspace.errors import BadInput, Conflict, NotAllowed
from workspace.models import User, Workspace

#: Each mode stays below so many resident tools (spec: surface).
TOO_MANY = 40
HEAVIEST = 5  # named in the refusal


@dataclass(frozen=True, slots=True)
class BlockValues:
    """What a person chose for a block; `ceiling` and `allowed` are a mode's alone."""

    names: tuple[str, ...]
    ceiling: str = ""
    allowed: tuple[str, ...] | None = None


def save_block(
    *,
    by: User,
    workspace: Workspace | None,
    block: str,
    values: BlockValues,
    seen: int,
) -> tuple[ModeToolPolicy, list[str]]:
    """Set a block for a workspace, without one for the server.

    `seen` is the version of the layer's row that the person decided upon, 0 for none:
    Conflict when it has changed since. Returns the row and warnings. Open conversations
    keep what they declare until their next start.
    """
    _require(by, workspace)
    warnings: list[str] = []
    values = checked(
        block, values, warnings, catalogue(workspace.pk if workspace else None)
    )
    try:
        with transaction.atomic():
            row = _locked(workspace, block, seen)
            _refuse_crowds(workspace, block, values)
            old = _told(row) if row else None
            row = _stored(row, workspace, block, values)
            _note(by, workspace, block, old, _told(row))
    except IntegrityError:  # two people set the block for the first time
        raise _somebody_else() from None
    return row, warnings


@transaction.atomic
def reset_block(*, by: User, workspace: Workspace, block: str, seen: int) -> None:
    """Take a workspace's block back to the server's."""
    _require(by, workspace)
    row = _locked(workspace, block, seen)
    if row is not None:
        _note(by, workspace, block, _told(row), None)
        row.delete()


def checked(
    block: str, values: BlockValues, warnings: list[str], known: Catalogue
) -> BlockValues:
    """The values with each tool by its one name, once. Refuses what cannot be."""
    if block not in BLOCKS:
        raise BadInput(_("There is no block %(name)s.") % {"name": repr(block)})
    if values.ceiling and values.ceiling not in TIERS:
        raise BadInput(
            _("The ceiling is one of %(names)s.") % {"names": ", ".join(TIERS)}
        )
    names = _canonical(block, values.names, warnings, known)
    missing = [name for name in DISCOVERY if name not in names]
    if block == Block.DISCOVERY and missing:
        raise BadInput(
            _(
                "%(names)s must stay: without all three an agent can neither find nor "
                "call the tools on demand, and they would silently be gone."
            )
            % {"names": ", ".join(missing)}
        )
    allowed = values.allowed
    if allowed is not None:
        allowed = _canonical(f"{FOR_MODE}allowed", allowed, warnings, known)
    return BlockValues(names, values.ceiling, allowed)


def _canonical(
    block: str, names: Iterable[str], warnings: list[str], known: Catalogue
) -> tuple[str, ...]:
    words = [name.strip() for name in names if name.strip()]
    found = [_known(block, word, warnings, known) for word in words]
    return tuple(dict.fromkeys(found))


def _known(block: str, name: str, warnings: list[str], known: Catalogue) -> str:
    """The tool's own name. A disconnected server's tool is taken, with a warning."""
    tool = known.resolve(name)
    if tool is not None and tool.name in DISCOVERY and block != Block.DISCOVERY:
        raise BadInput(_("%(name)s is resident already.") % {"name": tool.name})
    if block == Block.DISCOVERY and (tool is None or tool.name not in DISCOVERY):
        raise BadInput(
            _("This block holds the three tools that find others. Choose another one.")
        )
    if tool is not None:
        return tool.name
    if name in shipped_names():
        return name
    if name.startswith("mcp__"):
        warnings.append(
            _("%(name)s belongs to a server that is not connected now.")
            % {"name": name}
        )
        return name
    near = nearest(name, [tool.name for tool in known.tools])
    hint = _(" Did you mean %(names)s?") % {"names": ", ".join(near)} if near else ""
    raise BadInput(_("No tool is called %(name)s.") % {"name": repr(name)} + hint)


def nearest(name: str, names: Sequence[str]) -> list[str]:
    """Up to three names that are spelled alike, or made of the same words."""
    words = set(name.lower().split("_"))
    same = [one for one in sorted(names) if words == set(one.split("_"))]
    alike = difflib.get_close_matches(name, names, n=3)
    return list(dict.fromkeys((*same, *alike)))[:3]


def shipped_names() -> frozenset[str]:
    """What this release itself puts into a block, also where no tool has the name yet."""
    shipped = Policy()
    of_modes = [name for block in shipped.modes.values() for name in block]
    return frozenset((*shipped.builtins, *of_modes))


def _refuse_crowds(
    workspace: Workspace | None, block: str, values: BlockValues
) -> None:
    """The 40th tool of a mode is refused, in every workspace that the block is for."""
    for one in _concerned(workspace, block):
        rows = rows_of(one.pk if one else None)
        row = rows.get(block) or ModeToolPolicy(block=block)
        row.names = list(values.names)
        policy = made_of([*(rows | {block: row}).values()])
        for mode in _modes_of(block):
            residents = resident_names(policy, mode, one)
            if len(residents) >= TOO_MANY:
                raise BadInput(_crowded(mode, residents, one))


def _concerned(workspace: Workspace | None, block: str) -> list[Workspace | None]:
    """Those in which the block would hold: a workspace with its own keeps that."""
    if workspace is not None:
        return [workspace]
    others = Workspace.objects.filter(deleted_at=None).exclude(
        tool_policies__block=block
    )
    return [None, *others]


def _modes_of(block: str) -> Sequence[str]:
    return [block.removeprefix(FOR_MODE)] if block.startswith(FOR_MODE) else list(MODES)


def resident_names(policy: Policy, mode: str, workspace: Workspace | None) -> list[str]:
    """What a mode declares by policy and settings: the union that is counted."""
    visible = effective(workspace).settings.tools.visible
    known = catalogue(workspace.pk if workspace else None)
    found = [tool.name for name in visible if (tool := known.resolve(name))]
    of_mode = policy.mode(mode)
    return sorted({*policy.names_for(of_mode), *of_mode.pinned, *found})


def schema_tokens(tool: Tool) -> int:
    """What declaring it costs in every request."""
    return count(canonical(declaration(tool)))


def _crowded(mode: str, residents: Sequence[str], workspace: Workspace | None) -> str:
    known = catalogue(workspace.pk if workspace else None)
    tools = [tool for name in residents if (tool := known.resolve(name))]
    costs = sorted(((schema_tokens(tool), tool.name) for tool in tools), reverse=True)
    heaviest = ", ".join(f"{name} ({tokens})" for tokens, name in costs[:HEAVIEST])
    where = (
        _(" in the workspace %(name)s") % {"name": workspace.name} if workspace else ""
    )
    return _(
        "The mode %(mode)s would declare %(count)d tools%(where)s; a mode stays below "
        "%(most)d. Leave some on demand. The heaviest, in tokens: %(heaviest)s."
    ) % {
        "mode": MODES[mode].title,
        "count": len(residents),
        "where": where,
        "most": TOO_MANY,
        "heaviest": heaviest,
    }


def _locked(
    workspace: Workspace | None, block: str, seen: int
) -> ModeToolPolicy | None:
    rows = ModeToolPolicy.objects.select_for_update().filter(
        workspace=workspace, block=block
    )
    row = rows.first()
    if (row.version if row else 0) != seen:
        raise _somebody_else()
    return row


def _stored(
    row: ModeToolPolicy | None,
    workspace: Workspace | None,
    block: str,
    values: BlockValues,
) -> ModeToolPolicy:
    if row is None:
        row = ModeToolPolicy(workspace=workspace, block=block, version=0)
    row.names = list(values.names)
    if block.startswith(FOR_MODE):
        row.ceiling = values.ceiling
        row.allowed = None if values.allowed is None else list(values.allowed)
    row.version += 1
    row.changed_at = timezone.now()
    row.save()
    return row


def _told(row: ModeToolPolicy) -> dict[str, object]:
    told: dict[str, object] = {"tools": row.names}
    if row.block.startswith(FOR_MODE):
        told |= {"ceiling": row.ceiling, "allowed": row.allowed}
    return told


def _note(
    by: User,
    workspace: Workspace | None,
    block: str,
    old: Mapping[str, object] | None,
    new: Mapping[str, object] | None,
) -> None:
    audit.record(
        "policy.tools", by=by, workspace=workspace, subject=block, old=old, new=new
    )


def _require(by: User, workspace: Workspace | None) -> None:
    if workspace is not None:
        require(by, workspace, "manage_agents")
    elif not by.is_staff:
        raise NotAllowed(
            _("This belongs to the whole server. Server staff can change it.")
        )


def _somebody_else() -> Conflict:
    return Conflict(
        _(
            "Somebody else changed this block in the meantime. What you chose is still "
            "ticked below, beside what holds now; look at it, then save again."
        )
    )


def removed_names() -> list[tuple[ModeToolPolicy, str]]:
    """Stored names that no tool has: a release removed it. Servers' tools come and go."""
    return [
        (row, name)
        for row in ModeToolPolicy.objects.select_related("workspace")
        for name in (*row.names, *(row.allowed or ()))
        if resolve(name) is None
        and not name.startswith("mcp__")
        and name not in shipped_names()
    ]
