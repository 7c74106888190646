"""Who belongs to whom: children, their limits, and what their runs add up to.

Reading only, and nothing of runs' ways through their states: `agents.runs` stands above.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Q, QuerySet

from agents.models import Agent, Delegation, Run, Wait
from agents.surface.limits import Limits
from workspace.models import Conversation

#: Children of one run that work at the same time.
MOST_AT_ONCE = 3
#: Tool rounds of a child, unless its task or its agent says less.
MOST_ROUNDS = 50


def limits_of(conversation: Conversation) -> Limits | None:
    """What a child may use; None for a conversation of people. One query for a child."""
    if conversation.parent_id is None:
        return None
    found = Delegation.objects.filter(conversation=conversation.pk)
    stored = found.values_list("limits", flat=True).first()
    return Limits.from_json(stored) if stored is not None else None


def is_read_only(conversation: Conversation) -> bool:
    """Whether a child may only read, so that its shell sees a root it cannot change."""
    limits = limits_of(conversation)
    return limits is not None and limits.read_only


def delegation_of(run: Run) -> Delegation | None:
    """The task that the run works on; None, without a query, for people's runs."""
    if run.trigger != "delegation":
        return None
    return Delegation.objects.select_related("parent_run").get(run=run.pk)


def rounds_of(run: Run) -> int:
    """The rounds that the run may take."""
    delegation = delegation_of(run)
    return delegation.rounds if delegation else run.agent.max_rounds


def effort_of(run: Run) -> str:
    """How hard its model shall think; a child inherits it."""
    delegation = delegation_of(run)
    return delegation.effort if delegation else run.agent.effort


def effort_in(conversation: Conversation, agent: Agent) -> str:
    """The same for what is looked at from outside; one query for a child."""
    if conversation.parent_id is None:
        return agent.effort
    found = Delegation.objects.filter(conversation=conversation.pk)
    return found.values_list("effort", flat=True).first() or ""


def of_people(conversation_id: UUID) -> Q:
    """A conversation of people and all its children, for a filter on waits."""
    return Q(run__conversation=conversation_id) | Q(
        run__conversation__top=conversation_id
    )


def level_of(conversation: Conversation) -> str:
    """The approval level that holds now: a child has that of the people it works for."""
    rows = Conversation.objects.filter(pk=conversation.people_id)
    return rows.values_list("approval_level", flat=True).get()


def open_children(run: Run) -> QuerySet[Run]:
    """The children of the run that have not ended."""
    return Run.objects.filter(delegation__parent_run=run, state__in=Run.OPEN)


def in_background(run: Run) -> QuerySet[Delegation]:
    """The tasks that the run started and went on."""
    return Delegation.objects.filter(parent_run=run, background=True)


def works_on(run: Run) -> bool:
    """Whether a task in the background is at work or waits for its place."""
    is_open = Q(run=None) | Q(run__state__in=Run.OPEN)
    return in_background(run).filter(is_open).exists()


def without_place(run: Run) -> QuerySet[Delegation]:
    """Tasks of the run that wait for one of its children to end, oldest first."""
    waiting = Delegation.objects.filter(parent_run=run, run=None)
    return waiting.select_related("agent", "conversation").order_by("pk")


def next_ones(parent: Run) -> list[Delegation]:
    """Tasks whose children may begin now; none once the parent has ended.

    Inside a transaction that holds the parent's conversation.
    """
    if not Run.objects.filter(pk=parent.pk, state__in=Run.OPEN).exists():
        return []
    free = MOST_AT_ONCE - open_children(parent).count()
    return list(without_place(parent)[:free]) if free > 0 else []


def all_ended(parent: Run) -> QuerySet[Wait]:
    """Waits for children that have ended without it being said: a sweeper's business."""
    return Wait.objects.filter(
        run=parent,
        kind=Wait.Kind.CHILDREN,
        outcome="",
        tool_call__delegation__run__state__in=Run.ENDED,
    )


def descendants(run_ids: Iterable[UUID]) -> QuerySet[Run]:
    """The runs below these, down to the deepest level."""
    ids = list(run_ids)
    return Run.objects.filter(
        Q(delegation__parent_run__in=ids)
        | Q(delegation__parent_run__delegation__parent_run__in=ids)
    )
