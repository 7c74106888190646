"""delegate_task and its kin: handing work to other agents."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from agents.errors import ToolError
from agents.tools.base import AgentDesk, Arguments, Tool, ToolContext, ToolResult

#: Characters of a task and of a title; tools and parts of context that one may name.
LONGEST_TASK, LONGEST_TITLE, MOST_NAMES = 50_000, 200, 100
MOST_ROUNDS = 50
PARTS = ("memory", "skills", "files")


# Bounds are checked by validators: a schema that states them costs every request.
class DelegateTask(Arguments):
    also_called: ClassVar[dict[str, str]] = {
        "prompt": "task",
        "description": "title",
        "subagent_type": "agent",
        "agent_name": "agent",
        "max_rounds": "rounds",
        "allowed_tools": "tools",
    }

    task: str
    title: str = Field(default_factory=str)
    agent: str = Field(default_factory=lambda: "general")
    tools: list[str] = Field(default_factory=list)
    context: dict[str, list[str]] = Field(
        default_factory=dict, description="names: memory, skills, files"
    )
    rounds: int = Field(default_factory=lambda: MOST_ROUNDS)

    @field_validator("task")
    @classmethod
    def _says_something(cls, task: str) -> str:
        if not task.strip() or len(task) > LONGEST_TASK:
            raise ValueError(f"a task has 1 to {LONGEST_TASK} characters")
        return task.strip()

    @field_validator("title")
    @classmethod
    def _fits(cls, title: str) -> str:
        return " ".join(title.split())[:LONGEST_TITLE]

    @field_validator("context")
    @classmethod
    def _is_known(cls, context: dict[str, list[str]]) -> dict[str, list[str]]:
        if unknown := sorted({*context} - {*PARTS}):
            raise ValueError(f"{unknown[0]!r} is not one of {', '.join(PARTS)}")
        return context

    @field_validator("rounds")
    @classmethod
    def _in_bounds(cls, rounds: int) -> int:
        if not 1 <= rounds <= MOST_ROUNDS:
            raise ValueError(f"rounds is 1 to {MOST_ROUNDS}")
        return rounds

    @model_validator(mode="after")
    def _few_names(self) -> Self:
        for names in (self.tools, *self.context.values()):
            if len(names) > MOST_NAMES:
                raise ValueError(f"at most {MOST_NAMES} names")
        return self


DELEGATE_TASK = Tool(
    name="delegate_task",
    group="agents",
    description=(
        "Hand a task to another agent, which sees only that text, and get its report. "
        "Agents: general (default); explore, reviewer, planner only read. Several calls in "
        "one message run in parallel."
    ),
    tag="delegate",
    arguments=DelegateTask,
    waits_for="children",
    main_argument="task",
    hints=(
        "subagent",
        "assign",
        "hand off",
        "give to",
        "위임",
        "맡기기",
        "하위 에이전트",
    ),
    aliases=("task", "delegate", "spawn_agent"),
)


class AgentTask(DelegateTask):
    also_called: ClassVar[dict[str, str]] = {
        **DelegateTask.also_called,
        "run_in_background": "background",
    }

    background: bool = Field(
        False, description="go on meanwhile; the report comes as a notice"
    )


class ListAgents(Arguments):
    pass


class TaskStop(Arguments):
    also_called: ClassVar[dict[str, str]] = {"task_id": "id", "agent_id": "id"}

    id: int = Field(description="the number that agent or list_agents gave")


def list_agents(ctx: ToolContext, args: ListAgents) -> ToolResult:
    return _desk(ctx).listing()


def task_stop(ctx: ToolContext, args: TaskStop) -> ToolResult:
    return _desk(ctx).stop(args.id)


def _desk(ctx: ToolContext) -> AgentDesk:
    if ctx.agents is None:
        raise ToolError("There are no other agents here.")
    return ctx.agents


AGENT = Tool(
    name="agent",
    group="agents",
    description=(
        "Hand a task to another agent like delegate_task, or start it in the background "
        "and go on: its report then comes as a notice, and your turn ends after it."
    ),
    tag="delegate",
    arguments=AgentTask,
    waits_for="children",
    tier="deferred",
    main_argument="task",
    hints=(
        "subagent",
        "background",
        "assign",
        "spawn",
        "launch",
        "에이전트",
        "백그라운드",
    ),
)
LIST_AGENTS = Tool(
    name="list_agents",
    group="agents",
    description="List the agents that take tasks, and the tasks you handed out.",
    tag="read",
    arguments=ListAgents,
    run=list_agents,
    tier="deferred",
    poll=True,
    idempotent=True,
    hints=("who", "subagents", "status", "progress", "에이전트 목록", "진행"),
)
TASK_STOP = Tool(
    name="task_stop",
    group="agents",
    description="Stop a task that you started in the background.",
    tag="delegate",
    arguments=TaskStop,
    run=task_stop,
    tier="deferred",
    idempotent=True,
    main_argument="id",
    hints=("cancel", "kill", "abort", "중지", "취소"),
)
TOOLS = (DELEGATE_TASK, AGENT, LIST_AGENTS, TASK_STOP)
