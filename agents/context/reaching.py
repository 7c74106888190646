"""What a conversation can reach as of now, and what it must be told of that.

The declared tools are fixed with the surface. What comes later is reached through the
bridge; it is declared, at the end of the list, where there is no bridge to reach it by,
where the setting `tools.loadMode` says so, and where history called it by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agents.config.schema import Settings
from agents.context.assemble import declaring
from agents.context.startup import (
    catalogue_and_surface,
    declared_rows,
    mode_in,
    present_servers,
    settings_in,
)
from agents.context.view import Item, standing
from agents.surface.arrivals import changes, told
from agents.surface.policy import BRIDGE, DISCOVERY, Surface
from agents.tools.base import Tool
from agents.tools.registry import Catalogue
from workspace.models import Conversation


@dataclass(frozen=True)
class Reach:
    """The tools that are known, what becomes of each, and which are declared."""

    known: Catalogue
    surface: Surface
    declared: frozenset[str]
    settings: Settings

    def find(self, name: str) -> Tool | None:
        """The tool with this name or alias, whatever becomes of it here."""
        return self.known.resolve(name)

    @property
    def has_bridge(self) -> bool:
        return set(BRIDGE) <= {*self.surface.resident}

    @property
    def hidden(self) -> dict[str, Tool]:
        """Tools that may be called and are not declared, by name."""
        reachable = {*self.surface.deferred, *self.surface.resident}
        return {
            tool.name: tool
            for tool in sorted(self.known.tools, key=lambda one: one.name)
            if tool.name in reachable
            and tool.name not in self.declared
            and tool.name not in DISCOVERY
        }


def reach_of(conversation: Conversation, items: Sequence[Item]) -> Reach:
    """One query, for the workspace's servers."""
    begun = declaring(items)[0]
    chosen = settings_in(conversation, begun)
    mode = mode_in(conversation, begun)
    known, surface = catalogue_and_surface(conversation, chosen, mode)
    return Reach(known, surface, declared_names(items), chosen)


def declared_names(items: Sequence[Item]) -> frozenset[str]:
    """What the next request of the conversation declares."""
    return frozenset(
        tool["name"] for body in declaring(items) for tool in body["tools"]
    )


def loaded_names(items: Iterable[Item]) -> list[str]:
    """Tools whose schemas came into the conversation, in the order of their coming."""
    names: dict[str, None] = {}
    for item in standing(items):
        if item.kind == "tool_result":
            meta = item.body.get("meta") or {}
            # Stored objects have their keys sorted; the hits tell which came first.
            names |= dict.fromkeys(name for name, _ in meta.get("hits") or ())
            names |= dict.fromkeys(meta.get("loaded") or ())
    return list(names)


def steps(reach: Reach, items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    """The notices to be stored before the next request. Pure.

    1. One for each server that came, went or changed.
    2. One that declares what can be reached in no other way.
    3. Once, for people: which tools nobody can find, and the ways out.
    """
    servers = present_servers(reach.known, reach.surface)
    reasons = {one.name: one.absent for one in reach.known.servers}
    yield from changes(told(items), servers, reasons)
    for cause, names in _to_declare(reach, items):
        tools = [reach.hidden[name] for name in names]
        yield {"type": "declared", "cause": cause, **declared_rows(tools)}
    if reach.surface.demoted & {*reach.surface.withheld} and not _warned(items):
        yield withheld_notice(reach.surface)


def _to_declare(reach: Reach, items: Sequence[Item]) -> Iterator[tuple[str, list[str]]]:
    """Names that join the declared list now, in their order, and why."""
    begun, hidden = declaring(items)[0], reach.hidden
    if not reach.has_bridge:
        had_bridge = set(BRIDGE) <= {tool["name"] for tool in begun["tools"]}
        late = [name for name in hidden if hidden[name].source != "builtin"]
        if names := list(hidden) if had_bridge else late:
            yield "fallback", names
        return
    resumed = [name for name in begun.get("resume") or () if name in hidden]
    if resumed:
        yield "resume", resumed
    if reach.settings.tools.load_mode == "declare":
        loaded = [one for one in loaded_names(items) if one in hidden]
        if new := [one for one in loaded if one not in resumed]:
            yield "load", new


def _warned(items: Iterable[Item]) -> bool:
    return any(item.body.get("type") == "withheld" for item in items)


def withheld_notice(surface: Surface) -> dict[str, Any]:
    """For people, once a conversation; a direct call of these still runs."""
    missing = " and ".join(name for name in BRIDGE if name not in surface.resident)
    why = next(
        (surface.reasons.get(name, "") for name in BRIDGE if name in missing), ""
    )
    names = ", ".join(surface.withheld)
    return {
        "type": "withheld",
        "tools": list(surface.withheld),
        "text": (
            f"Agents cannot find these tools here: {names}. tools.eager holds them back, "
            f"and {missing} is missing ({why or 'not registered'}). Name them in "
            "tools.eager or tools.visible, or allow tool_search and tool_call again; "
            "then start a new conversation."
        ),
        "to_model": False,
    }
