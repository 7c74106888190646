"""What the page shows of children at work: a tree of cards, read in few queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from agents.models import Delegation, Run, ToolCall
from workspace.models import Conversation


@dataclass(frozen=True)
class ChildCard:
    """One child as it stands. `tool`: the name of the call that it carries out now."""

    delegation: Delegation
    tool: str = ""
    below: list[ChildCard] = field(default_factory=list)

    @property
    def run(self) -> Run | None:
        return self.delegation.run

    @property
    def state(self) -> str:
        """As the run's; a child without a place among its siblings is queued."""
        return self.run.state if self.run else Run.State.QUEUED.value

    @property
    def is_open(self) -> bool:
        return self.state in Run.OPEN

    @property
    def rounds(self) -> int:
        return self.run.round if self.run else 0

    @property
    def tokens(self) -> int:
        """Input and output of the child and all below it."""
        own = self.run.tokens_in + self.run.tokens_out if self.run else 0
        return own + sum(card.tokens for card in self.below)

    @property
    def cost(self) -> Decimal | None:
        own = self.run.cost if self.run else None
        costs = [own, *(card.cost for card in self.below)]
        known = [one for one in costs if one is not None]
        return sum(known, Decimal()) if known else None


def cards_of(conversation: Conversation) -> list[ChildCard]:
    """The children of the turn that is at work, in call order. Up to four queries."""
    tasks = _tasks(Run.objects.filter(conversation=conversation, state__in=Run.OPEN))
    below = _tasks(task.run_id for task in tasks if task.run_id)
    tools = _at_work(task.run_id for task in (*tasks, *below) if task.run_id)
    return [
        ChildCard(
            task,
            _tool(task, tools),
            [
                ChildCard(one, _tool(one, tools))
                for one in below
                if one.parent_run_id == task.run_id
            ],
        )
        for task in tasks
    ]


def _tasks(parents: Iterable[object]) -> list[Delegation]:
    found = Delegation.objects.filter(parent_run__in=list(parents))
    return list(
        found.select_related("run", "agent", "conversation", "tool_call").order_by("pk")
    )


def _at_work(run_ids: Iterable[UUID]) -> dict[UUID, str]:
    """The call that each run carries out now, by the run."""
    calls = ToolCall.objects.filter(run__in=list(run_ids)).exclude(
        state=ToolCall.State.ENDED
    )
    return dict(calls.order_by("-pk").values_list("run_id", "name"))


def _tool(task: Delegation, tools: dict[UUID, str]) -> str:
    return tools.get(task.run_id, "") if task.run_id else ""
