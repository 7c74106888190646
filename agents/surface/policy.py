"""Which tools a request declares: one pure function, asked by all who need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings

from agents.tools.base import Tool


@dataclass(frozen=True, slots=True)
class Surface:
    """Tool names by what becomes of them, and why; every tool has a reason."""

    resident: tuple[str, ...]
    deferred: tuple[str, ...]
    denied: tuple[str, ...]
    absent: tuple[str, ...]
    reasons: Mapping[str, str]


def surface(
    tools: Sequence[Tool],
    *,
    absent: Mapping[str, str],
    excluded: frozenset[str] = frozenset(),
    denied_rules: Mapping[str, str] | None = None,
) -> Surface:
    """Decide for each tool, first match wins: absent, excluded, denied, resident.

    `absent` maps names to the reason why they cannot run here; `denied_rules` maps
    names to the whole-tool deny rule that names them.
    """
    reasons: dict[str, str] = dict(absent)
    resident: list[str] = []
    denied: list[str] = []
    for tool in tools:
        if tool.name in reasons:
            continue
        if tool.name in excluded:
            denied.append(tool.name)
            reasons[tool.name] = "excluded by --exclude-tools"
        elif rule := (denied_rules or {}).get(tool.name):
            denied.append(tool.name)
            reasons[tool.name] = f"denied by the rule {rule}"
        else:
            resident.append(tool.name)
            reasons[tool.name] = "declared in every request"
    return Surface(
        tuple(sorted(resident)), (), tuple(sorted(denied)), tuple(absent), reasons
    )


def surface_for(
    tools: Sequence[Tool],
    absent: Mapping[str, str],
    denied_rules: Mapping[str, str] | None = None,
) -> Surface:
    """The surface under this server's settings."""
    return surface(
        tools,
        absent=absent,
        excluded=frozenset(settings.EXCLUDE_TOOLS),
        denied_rules=denied_rules,
    )
