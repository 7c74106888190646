"""Every tool: the built-in ones by an explicit list, and those of a workspace's servers.

A built-in name said twice is a start-up error; a server's tools cannot take one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from agents.mcp.servers import Server, servers_of
from agents.tools import (
    delegation,
    discovery,
    execution,
    files,
    git,
    images,
    listing,
    memory,
    planning,
    search,
    skills,
    talking,
)
from agents.tools.base import Tool

#: In the order in which they are declared.
BUILTIN: tuple[Tool, ...] = (
    *files.TOOLS,
    *images.TOOLS,
    *listing.TOOLS,
    *search.TOOLS,
    *execution.TOOLS,
    *talking.TOOLS,
    *skills.TOOLS,
    *delegation.TOOLS,
    *planning.TOOLS,
    *git.TOOLS,
    *memory.TOOLS,
    *discovery.TOOLS,
)


def index(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Names and aliases to tools; raises on any collision."""
    by_name: dict[str, Tool] = {}
    for tool in tools:
        for name in (tool.name, *tool.aliases):
            if name in by_name:
                raise RuntimeError(
                    f"Two tools claim the name {name!r}: {by_name[name].name!r} and "
                    f"{tool.name!r}. Rename one or drop the alias."
                )
            by_name[name] = tool
    return by_name


_BY_NAME = index(BUILTIN)


@dataclass(frozen=True)
class Catalogue:
    """Every tool that one workspace knows: built-in ones, then its servers' by name.

    `absent` says of some why they cannot run now. The order of servers, and that in
    which they came, never matters.
    """

    tools: tuple[Tool, ...]
    absent: Mapping[str, str]
    servers: tuple[Server, ...] = ()

    @cached_property
    def _served(self) -> dict[str, Tool]:
        return {tool.name: tool for one in self.servers for tool in one.offer.tools}

    def resolve(self, name: str) -> Tool | None:
        """The tool with this exact name or alias, also one that is absent now."""
        return _BY_NAME.get(name) or self._served.get(name)

    @cached_property
    def present(self) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.tools if tool.name not in self.absent)

    @cached_property
    def ready(self) -> dict[str, Server]:
        """The servers whose tools can be called, by name."""
        return {one.name: one for one in self.servers if not one.absent}


def catalogue(workspace_id: UUID | None = None) -> Catalogue:
    """The tools of a workspace; without one, those that every workspace has.

    One query, one more for each listing that this process has not seen yet.
    """
    reasons = {tool.name: tool.conditional() for tool in BUILTIN}
    servers = servers_of(workspace_id) if workspace_id else ()
    served = [(one, tool) for one in servers for tool in one.offer.tools]
    reasons |= {tool.name: one.absent for one, tool in served}
    return Catalogue(
        (*BUILTIN, *(tool for _, tool in served)),
        {name: reason for name, reason in reasons.items() if reason},
        servers,
    )


def resolve(name: str) -> Tool | None:
    """The built-in tool with this exact name or alias."""
    return _BY_NAME.get(name)


def present(
    workspace_id: UUID | None = None,
) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """The tools that can run in a workspace, and why the others cannot, by name."""
    found = catalogue(workspace_id)
    return found.present, dict(found.absent)
