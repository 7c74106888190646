"""Whom a task can be handed to: the built-in agents, and the workspace's own."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from agents.children.family import MOST_ROUNDS
from agents.errors import ToolError
from agents.models import Agent
from agents.seeding import DEFAULT_AGENT
from workspace.models import Workspace


@dataclass(frozen=True, slots=True)
class Builtin:
    """An agent that every workspace has; it gets a row when it is first asked."""

    title: str
    description: str
    persona: str
    read_only: bool = True


BUILTIN: Mapping[str, Builtin] = {
    "general": Builtin(
        "General",
        "Does a task of its own: it reads, writes and runs commands.",
        "",
        read_only=False,
    ),
    "explore": Builtin(
        "Explore",
        "Looks for something in the files and says where it is; changes nothing.",
        "You look for things. Search wide first, then read what matters. Report places "
        "(path and line) with a sentence each; quote little.",
    ),
    "reviewer": Builtin(
        "Reviewer",
        "Reviews work and names what is wrong with it; changes nothing.",
        "You review. Name each finding with its place, why it matters and what would "
        "mend it, the gravest first. Say so when you find nothing.",
    ),
    "planner": Builtin(
        "Planner",
        "Plans work that another agent can carry out; changes nothing.",
        "You plan. Look until you understand, then write steps that somebody else can "
        "carry out, each with the files it touches and how to check it.",
    ),
}


def targets(workspace_id: UUID) -> dict[str, str]:
    """Names of the agents that take tasks here, with what each is for. One query."""
    rows = Agent.objects.filter(workspace=workspace_id).exclude(name=DEFAULT_AGENT)
    found = {name: one.description for name, one in BUILTIN.items()}
    for agent in rows.order_by("name"):
        if agent.deleted_at:
            found.pop(agent.name, None)
        else:
            found[agent.name] = agent.description or agent.title
    return found


def target(workspace: Workspace, name: str) -> Agent:
    """The agent with this name. Raises ToolError, which names those that there are."""
    names = targets(workspace.pk)
    wanted = name.strip().lower()
    if wanted not in names:
        near = difflib.get_close_matches(wanted, names, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ToolError(
            f"There is no agent named {name!r} to hand a task to.{hint} There are: "
            f"{', '.join(sorted(names))}.",
            code="unknown_agent",
        )
    return _row(workspace, wanted)


def _row(workspace: Workspace, name: str) -> Agent:
    built = BUILTIN.get(name)
    if built is None:
        return Agent.objects.get(workspace=workspace, name=name)
    agent, _created = Agent.objects.get_or_create(
        workspace=workspace,
        name=name,
        defaults={
            "title": built.title,
            "description": built.description,
            "persona": built.persona,
            "max_rounds": MOST_ROUNDS,
            "read_only": built.read_only,
        },
    )
    return agent
