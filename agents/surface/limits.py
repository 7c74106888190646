"""What a child may use: never more than its parent, and what its task names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from agents.tools.base import Tool

#: Levels of children below a conversation of people.
MOST_LEVELS = 2

#: What hands work on, asks for it, or ends it.
DELEGATION = ("delegate_task", "agent", "list_agents", "task_stop")

#: What belongs to the conversation of people: its mode, its level, its goal.
NEVER = (
    "set_mode",
    "enter_plan_mode",
    "exit_plan_mode",
    "get_goal",
    "update_goal",
    "propose_goal",
)

#: What a child that only reads is declared.
READ_ONLY = ("read_file", "grep", "glob", "shell", "tool_search", "tool_call")

#: A skill can always be read by its name.
BY_NAME = "skill_view"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one child.

    `exact`: the tools that its task names; it is declared these and has no others.
    `denied`: what its parent may not use, with the reason. `confined`: whether the
    shell can be kept from writing.
    """

    depth: int = 1
    read_only: bool = False
    exact: tuple[str, ...] | None = None
    denied: Mapping[str, str] = field(default_factory=dict)
    confined: bool = True

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        exact = stored["exact"]
        return cls(**{**stored, "exact": None if exact is None else tuple(exact)})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def refuses(self, tool: Tool) -> str:
        """Why the child may not use the tool; "" when it may."""
        name = tool.name
        if name in NEVER:
            return "it belongs to the conversation that handed out this task"
        if name in DELEGATION and self.depth >= MOST_LEVELS:
            return f"children are at most {MOST_LEVELS} levels deep"
        if reason := self.denied.get(name, ""):
            return f"the agent that handed out this task has no right to it: {reason}"
        if self.exact is not None and name not in (*self.exact, BY_NAME):
            return "not among the tools that this task was given"
        return self._refuses_to_write(tool) if self.read_only else ""

    def _refuses_to_write(self, tool: Tool) -> str:
        if tool.tag == "read" or (tool.name == "shell" and self.confined):
            return ""
        if tool.name == "shell":
            return "this agent only reads, and without a sandbox a command could write"
        return "this agent only reads"

    def residents(self, by_policy: frozenset[str]) -> frozenset[str]:
        """What its requests declare of the tools that it may use."""
        if self.exact is not None:
            return frozenset(self.exact)
        return frozenset(READ_ONLY) if self.read_only else by_policy
