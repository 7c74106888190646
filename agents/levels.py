"""The approval level of a conversation changes: the row, the event, what the model reads."""

from __future__ import annotations

from typing import Any

from agents import events, runs
from agents.surface.modes import PLANS
from workspace import live
from workspace.events import emit
from workspace.models import ApprovalLevel, Conversation

PLAN = ApprovalLevel.PLAN.value
PLANNING = (
    "The approval level is plan now: look, and change nothing. Only plan files "
    f"({PLANS}NAME.md) can be written. Show the plan to the people before anything is "
    "carried out."
)


def shift_level(
    conversation: Conversation, old: str, level: str, by: str
) -> dict[str, Any] | None:
    """Store the level and its event; returns the notice to append, if one is due.

    Inside a transaction, with the conversation locked.
    """
    Conversation.objects.filter(pk=conversation.pk).update(approval_level=level)
    if run := runs.at_work(conversation):
        emit(events.LevelChanged(**runs.ids_of(run), old=old, new=level, by=by))
    live.push_on_commit(
        live.conversation_group(conversation.pk), {"type": "conversation.changed"}
    )
    return level_notice(old, level, by)


def level_notice(old: str, level: str, by: str) -> dict[str, Any] | None:
    """What the model is told when planning begins or ends; None for other changes."""
    if level == PLAN:
        text = PLANNING
    elif old == PLAN:
        text = f"The approval level is {level} now: planning has ended."
    else:
        return None
    return {
        "type": "level",
        "old": old,
        "level": level,
        "by": by,
        "to_model": True,
        "text": text,
    }
