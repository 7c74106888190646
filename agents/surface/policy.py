"""Which tools a request declares: one pure function, asked by all who need to know."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from django.conf import settings

from agents.config.schema import Settings
from agents.surface.limits import BY_NAME, Limits
from agents.surface.modes import BRIDGE as BRIDGE
from agents.surface.modes import DISCOVERY as DISCOVERY
from agents.surface.modes import MODES, Mode
from agents.tools.base import Tag, Tool

#: What `tools.eager` never demotes (qwen-code's rule; see the surface's specification).
EXEMPT = (
    *DISCOVERY,
    "structured_output",
    "enter_plan_mode",
    "exit_plan_mode",
    "ask_user",
    "task_stop",
    "mcp__*",
    "computer_use__*",
)


@dataclass(frozen=True, slots=True)
class Policy:
    """Names that are declared in every request; a mode adds its own block.

    `ceilings` and `allowed` replace what the modes bring along.
    """

    builtins: tuple[str, ...] = (
        "read_file",
        "view_image",
        "write_file",
        "edit_file",
        "shell",
        "execute_code",
        "grep",
        "glob",
        "ask_user",
        "delegate_task",
        "skill_view",
        "set_mode",
    )
    discovery: tuple[str, ...] = DISCOVERY
    mcp: tuple[str, ...] = ()
    modes: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {mode.name: mode.residents for mode in MODES.values()}
    )
    ceilings: Mapping[str, Tag] = field(default_factory=dict)
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def mode(self, name: str) -> Mode:
        """The mode with the ceiling and the allow-list that are set for it."""
        mode = MODES[name]
        return replace(
            mode,
            ceiling=self.ceilings.get(name, mode.ceiling),
            allowed=self.allowed.get(name, mode.allowed),
        )

    def names_for(self, mode: Mode) -> frozenset[str]:
        block = self.modes.get(mode.name, ())
        return frozenset((*self.builtins, *self.discovery, *self.mcp, *block))


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """The `tools.*` settings. `eager=None` (unset) differs from an empty list.

    `index_budget` is in tokens. `deferral=False` declares everything.
    """

    eager: tuple[str, ...] | None = None
    eager_policy: Literal["allowlist", "additive"] = "allowlist"
    visible: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    search_enabled: bool = True
    deferral: bool = True
    index_budget: int = 250


@dataclass(frozen=True, slots=True)
class Surface:
    """Tool names by what becomes of them, and why; every tool has a reason.

    `withheld` are tools that run by their name alone: a child's skills, and demoted ones
    that nobody can find while the bridge is incomplete;
    `demoted` all that `tools.eager` holds back, withheld or deferred.
    """

    resident: tuple[str, ...]
    deferred: tuple[str, ...]
    withheld: tuple[str, ...]
    denied: tuple[str, ...]
    absent: tuple[str, ...]
    reasons: Mapping[str, str]
    demoted: frozenset[str] = frozenset()


Place = Literal["absent", "denied", "resident", "demoted", "named", "deferred"]


@dataclass(frozen=True, slots=True)
class Rules:
    """All that decides about a tool, as values."""

    mode: Mode = MODES["chat"]
    policy: Policy = field(default_factory=Policy)
    settings: ToolSettings = field(default_factory=ToolSettings)
    absent: Mapping[str, str] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    denials: Mapping[str, str] = field(default_factory=dict)
    agent_tools: frozenset[str] = frozenset()
    child: Limits | None = None

    def place(self, tool: Tool) -> tuple[Place, str]:
        """Where one tool belongs, and why. First match wins."""
        name, chosen = tool.name, self.settings
        if reason := self.absent.get(name, ""):
            return "absent", reason
        if _named(tool, chosen.disabled):
            return "absent", "switched off by tools.disabled"
        if name in self.excluded:
            return "denied", "excluded by --exclude-tools"
        if rule := self.denials.get(name, ""):
            return "denied", f"denied by the rule {rule}"
        if self.child and (reason := self.child.refuses(tool)):
            return "denied", reason
        if reason := self.mode.refuses(tool):
            return "denied", reason
        if name in BRIDGE and not chosen.search_enabled:
            return "denied", "tools.toolSearch.enabled is off"
        return self._admitted(tool)

    def _admitted(self, tool: Tool) -> tuple[Place, str]:
        name, chosen = tool.name, self.settings
        if name in self.mode.pinned and self.child is None:
            return "resident", f"pinned in the mode {self.mode.name}"
        if _called(tool, chosen.visible):
            return "resident", "named by tools.visible"
        if name in self.agent_tools:
            return "resident", "named by the agent"
        if self.child and self.child.exact is not None:
            return self._exact(name)
        if chosen.eager is not None and chosen.eager_policy == "additive":
            if _called(tool, chosen.eager):
                return "resident", "added by tools.eager"
        elif (
            chosen.eager is not None
            and not _exempt(name)
            and not _called(tool, chosen.eager)
        ):
            return "demoted", "not named by tools.eager"
        by_policy = self.policy.names_for(self.mode)
        if name in (self.child.residents(by_policy) if self.child else by_policy):
            return "resident", f"resident by the policy of the mode {self.mode.name}"
        return "deferred", "on demand"

    def _exact(self, name: str) -> tuple[Place, str]:
        """A child's own list: these are declared, and a skill is read by its name."""
        assert self.child, "only a child's task names its tools"
        if name == BY_NAME and name not in self.child.residents(frozenset()):
            return "named", "a skill is read by its name"
        return "resident", "named by the task"


def surface(tools: Sequence[Tool], rules: Rules) -> Surface:
    """Decide for every tool. Pure: equal arguments, equal surfaces."""
    reasons: dict[str, str] = {}
    places: dict[Place, list[str]] = {
        place: []
        for place in ("absent", "denied", "resident", "demoted", "named", "deferred")
    }
    for tool in tools:
        place, reasons[tool.name] = rules.place(tool)
        places[place].append(tool.name)
    return _closed(places, reasons, rules.settings)


def raisable(surface: Surface, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that are not declared and may be; never what is denied."""
    return tuple(
        name for name in names if name in {*surface.deferred, *surface.withheld}
    )


def raised(surface: Surface, names: Collection[str], why: str) -> Surface:
    """The surface with these tools declared, and the reason for it."""
    return replace(
        surface,
        resident=tuple(sorted({*surface.resident, *names})),
        deferred=tuple(name for name in surface.deferred if name not in names),
        withheld=tuple(name for name in surface.withheld if name not in names),
        reasons={**surface.reasons, **dict.fromkeys(names, why)},
    )


def _closed(
    places: dict[Place, list[str]], reasons: dict[str, str], chosen: ToolSettings
) -> Surface:
    """What the switches and an incomplete bridge make of the places."""
    resident, ordinary, demoted = (
        places["resident"],
        places["deferred"],
        places["demoted"],
    )
    withheld: list[str] = []
    if not chosen.deferral:
        everything = [*resident, *ordinary, *demoted]
        resident = [name for name in everything if name not in DISCOVERY]
        ordinary, demoted = [], []
        reasons |= dict.fromkeys(resident, "deferral is off: every tool is declared")
        reasons |= dict.fromkeys(DISCOVERY, "deferral is off: nothing to find")
    elif not set(BRIDGE) <= {*resident}:
        reasons |= dict.fromkeys(ordinary, "declared: half of the bridge is missing")
        resident, withheld = [*resident, *ordinary], demoted
        reasons |= dict.fromkeys(withheld, "withheld: half of the bridge is missing")
        ordinary, demoted = [], []
    return Surface(
        tuple(sorted(resident)),
        tuple(sorted((*ordinary, *demoted))),
        tuple(sorted((*withheld, *places["named"]))),
        tuple(sorted(places["denied"])),
        tuple(sorted(places["absent"])),
        reasons,
        frozenset(places["demoted"] if chosen.deferral else ()),
    )


def _named(tool: Tool, patterns: Iterable[str]) -> bool:
    """Whether a list of names, `group:…` and globs speaks of the tool."""
    return any(
        pattern in (f"group:{tool.group}", *tool.aliases)
        or fnmatch.fnmatchcase(tool.name, pattern)
        for pattern in patterns
    )


def _exempt(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in EXEMPT)


def _called(tool: Tool, names: Iterable[str]) -> bool:
    """Whether a list has the tool's name, or one that it is also known by."""
    return not {tool.name, *tool.aliases}.isdisjoint(names)


def tool_settings(chosen: Settings) -> ToolSettings:
    """What the settings say of the surface."""
    tools = chosen.tools
    return ToolSettings(
        eager=None if tools.eager is None else tuple(tools.eager),
        eager_policy=tools.eager_policy,
        visible=tuple(tools.visible),
        disabled=tuple(tools.disabled),
        search_enabled=tools.tool_search.enabled,
        deferral=tools.deferred,
        index_budget=tools.index_budget,
    )


def surface_for(
    tools: Sequence[Tool],
    absent: Mapping[str, str],
    denials: Mapping[str, str] | None = None,
    mode: str = "chat",
    *,
    chosen: Settings,
    policy: Policy | None = None,
    child: Limits | None = None,
) -> Surface:
    """The surface under these settings and what the server excludes."""
    policy = policy or Policy()
    return surface(
        tools,
        Rules(
            mode=policy.mode(mode).for_child() if child else policy.mode(mode),
            policy=policy,
            child=child,
            settings=tool_settings(chosen),
            absent=absent,
            excluded=frozenset(settings.EXCLUDE_TOOLS),
            denials=denials or {},
        ),
    )
