"""What a run can learn of the agents here, and of the tasks that it handed out."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from agents import runs
from agents.children.builtin import targets
from agents.errors import ToolError
from agents.models import Delegation, Run
from agents.tools.base import ToolResult


@dataclass(frozen=True, slots=True)
class Desk:
    """For the tools of one run."""

    run: Run

    def listing(self) -> ToolResult:
        """The agents by name, then the run's tasks with their states."""
        agents = [
            f"- {name}: {what}"
            for name, what in sorted(targets(self.run.workspace_id).items())
        ]
        tasks = [_line(task) for task in self._tasks()]
        lines = ["Agents:", *agents, "Tasks:", *(tasks or ["(none)"])]
        return ToolResult(True, "\n".join(lines))

    def stop(self, number: int) -> ToolResult:
        """Stop one of the run's tasks. Raises ToolError for a number that is none."""
        task = next((one for one in self._tasks() if one.pk == number), None)
        if task is None or task.run is None:
            raise ToolError(
                f"You have started no task {number}; list_agents shows yours.",
                code="not_found",
            )
        if task.run.state not in Run.OPEN:
            return ToolResult(
                True, f"Task {number} has ended already: {task.run.state}."
            )
        with transaction.atomic():
            runs.request_stop(task.run, None)
        return ToolResult(True, f"Task {number} is told to stop.")

    def _tasks(self) -> list[Delegation]:
        found = Delegation.objects.filter(parent_run=self.run.pk)
        return list(found.select_related("run__conversation", "agent").order_by("pk"))


def _line(task: Delegation) -> str:
    state = task.run.state if task.run else "queued"
    rounds = task.run.round if task.run else 0
    return (
        f"- task {task.pk}, {task.agent.name}: {task.title} ({state}, round {rounds} of "
        f"{task.rounds})"
    )
