"""What the page of the tool policy shows: tools with their costs and use, and effects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, F, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agents.config.layers import effective
from agents.context.idle import Prefix, prefix_of
from agents.models import ModeToolPolicy, Run, ToolCall
from agents.policies import FOR_MODE, Block, block_names, made_of, policy_of, rows_of
from agents.policy_actions import (
    TOO_MANY,
    BlockValues,
    resident_names,
    schema_tokens,
)
from agents.surface.modes import MODES
from agents.surface.policy import DISCOVERY, Policy
from agents.tools.registry import Catalogue
from workspace.models import Workspace

DAYS = 30
#: Below this share of runs a resident tool costs more than finding it would; fewer runs
#: than that say nothing yet.
SELDOM, FEWEST_RUNS = 0.5, 10
#: Where the first sentence of a description ends.
_SENTENCE = re.compile(r"(?<!e\.g)\.(?:\s|$)")

TITLES: dict[str, str | Promise] = {
    Block.BUILTINS: _("Built-in tools"),
    Block.DISCOVERY: _("Finding tools"),
    Block.MCP: _("Tools of MCP servers"),
    **{f"{FOR_MODE}{mode.name}": _(mode.title) for mode in MODES.values()},
}
HELP: dict[str, str | Promise] = {
    Block.BUILTINS: _("Declared in every request, whatever the mode."),
    Block.DISCOVERY: _(
        "Find and call what is on demand. None of the three can be taken out."
    ),
    Block.MCP: _(
        "Tools of servers that every request declares. Empty is cheapest: they are "
        "found when they are needed."
    ),
}
FOR_ONE_MODE = _("Declared in this mode, besides the blocks for all modes.")


@dataclass(frozen=True, slots=True)
class Choice:
    """A tool in the picker. `tokens`: of its schema; `runs`: that called it."""

    name: str
    group: str
    tag: str
    summary: str
    tokens: int | None
    runs: int
    chosen: bool
    elsewhere: str = ""
    absent: str = ""
    seldom: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """What a mode declares with the chosen block, against what holds now. Tokens."""

    title: str
    count: int
    count_change: int
    tool_tokens: int
    idle_tokens: int
    idle_change: int
    most: int = TOO_MANY - 1

    @property
    def crowded(self) -> bool:
        return self.count > self.most


@dataclass(frozen=True, slots=True)
class Use:
    """Runs of the last days: all of them, and those that called a tool, by its name."""

    runs: int
    by_tool: Mapping[str, int]


def used(workspace: Workspace | None, mode: str = "") -> Use:
    """Two queries. A call through the bridge counts for the real tool."""
    runs: QuerySet[Run] = Run.objects.filter(
        created_at__gte=timezone.now() - timedelta(days=DAYS)
    )
    if workspace is not None:
        runs = runs.filter(workspace=workspace)
    if mode:
        runs = runs.filter(conversation__mode=mode)
    meant = KeyTextTransform("tool", KeyTransform("meta", "outcome"))
    calls = (
        ToolCall.objects.filter(run__in=runs)
        .annotate(meant=Coalesce(meant, F("name"), output_field=TextField()))
        .values_list("meant")
        .annotate(runs=Count("run", distinct=True))
    )
    return Use(runs.count(), dict(calls))


def choices(
    block: str, chosen: Iterable[str], policy: Policy, use: Use, known: Catalogue
) -> list[Choice]:
    """Every tool that the block may hold; the chosen first, then by name."""
    picked = set(chosen)
    names = {tool.name for tool in known.tools} | picked
    if block == Block.DISCOVERY:
        names = set(DISCOVERY)
    elif block == Block.MCP:
        names = {name for name in names if name.startswith("mcp__")}
    else:
        names -= set(DISCOVERY)
    found = [_choice(name, block, picked, policy, use, known) for name in names]
    return sorted(found, key=lambda one: (not one.chosen, one.name))


def _choice(
    name: str,
    block: str,
    picked: set[str],
    policy: Policy,
    use: Use,
    known: Catalogue,
) -> Choice:
    tool, runs = known.resolve(name), use.by_tool.get(name, 0)
    everywhere = {*policy.builtins, *policy.mcp}
    is_chosen = name in picked
    return Choice(
        name=name,
        group=tool.group if tool else "",
        tag=tool.tag if tool else "",
        summary=_SENTENCE.split(tool.description)[0] if tool else "",
        tokens=schema_tokens(tool) if tool else None,
        runs=runs,
        chosen=is_chosen,
        elsewhere=str(TITLES[Block.BUILTINS])
        if block.startswith(FOR_MODE) and name in everywhere
        else "",
        absent=known.absent.get(name, "") if tool else str(_("no such tool now")),
        seldom=is_chosen and use.runs >= FEWEST_RUNS and runs < use.runs * SELDOM,
    )


def effects(
    workspace: Workspace | None, block: str, values: BlockValues
) -> list[Effect]:
    """Per mode that the block is for, with the values instead of what holds now."""
    rows = rows_of(workspace.pk if workspace else None)
    row = ModeToolPolicy(
        block=block,
        names=list(values.names),
        ceiling=values.ceiling,
        allowed=None if values.allowed is None else list(values.allowed),
    )
    before, after = made_of(rows.values()), made_of((rows | {block: row}).values())
    chosen = effective(workspace).settings
    modes = [block.removeprefix(FOR_MODE)] if block.startswith(FOR_MODE) else MODES

    def prefix(policy: Policy, mode: str) -> Prefix:
        return prefix_of(workspace, chosen, policy, mode)

    return [
        _effect(
            mode, before, after, workspace, prefix(before, mode), prefix(after, mode)
        )
        for mode in modes
    ]


def _effect(
    mode: str,
    before: Policy,
    after: Policy,
    workspace: Workspace | None,
    old: Prefix,
    new: Prefix,
) -> Effect:
    count = len(resident_names(after, mode, workspace))
    return Effect(
        title=gettext(MODES[mode].title),
        count=count,
        count_change=count - len(resident_names(before, mode, workspace)),
        tool_tokens=new.tool_tokens,
        idle_tokens=new.tokens,
        idle_change=new.tokens - old.tokens,
    )


def current(workspace: Workspace | None, block: str) -> tuple[BlockValues, int, bool]:
    """What holds for a block, the version of the layer's own row (0: none), and
    whether the layer has one."""
    rows = rows_of(workspace.pk if workspace else None)
    row = rows.get(block)
    is_own = row is not None and row.workspace_id == (workspace and workspace.pk)
    names = block_names(policy_of(workspace.pk if workspace else None), block)
    values = BlockValues(
        names,
        row.ceiling if row else "",
        tuple(row.allowed) if row and row.allowed is not None else None,
    )
    return values, row.version if row and is_own else 0, is_own
