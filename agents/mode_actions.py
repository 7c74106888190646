"""What a conversation is for and how far its agent may go: mode and approval level."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from agents import events, runs
from agents.surface.modes import MODES, PLANS
from workspace import audit, live, transcript
from workspace.access import require
from workspace.actions import conversations
from workspace.errors import BadInput
from workspace.events import emit
from workspace.models import ApprovalLevel, Conversation, Entry, User
from workspace.transcript import Draft

PLAN = ApprovalLevel.PLAN.value
PLANNING = (
    "The approval level is plan now: look, and change nothing. Only plan files "
    f"({PLANS}NAME.md) can be written. Show the plan to the people before anything is "
    "carried out."
)


def known_mode(name: str) -> str:
    """The name. Raises BadInput with those that there are."""
    if name not in MODES:
        raise BadInput(
            _("There is no mode %(name)s. The modes are %(names)s.")
            % {"name": repr(name), "names": ", ".join(MODES)}
        )
    return name


@transaction.atomic
def set_mode(*, conversation: Conversation, user: User, mode: str) -> Entry | None:
    """Choose the mode from the next turn on; None if it was chosen already.

    What requests begin with is made anew then: a turn at work keeps its own. A notice
    says so to people; the model is told by its new instructions.
    """
    require(user, conversation.workspace, "post")
    runs.require_people(conversation)
    conversation.mode = known_mode(mode)
    old = runs.lock(conversation.pk).mode
    if old == mode:
        return None
    Conversation.objects.filter(pk=conversation.pk).update(mode=mode)
    _note(conversation, user, "conversation.mode", old, mode)
    body = {
        "type": "mode",
        "old": old,
        "mode": mode,
        "by": str(user),
        "to_model": False,
        "text": f"{user} chose the mode {mode}. It holds from the next turn on.",
    }
    return _append_notice(conversation, user, body)


def _note(
    conversation: Conversation, user: User, action: str, old: str, new: str
) -> None:
    audit.record(
        action,
        by=user,
        workspace=conversation.workspace,
        conversation=conversation,
        subject=conversation.title,
        old=old,
        new=new,
    )


def _append_notice(
    conversation: Conversation, user: User, body: dict[str, Any]
) -> Entry:
    """Inside a transaction: say it in the transcript, and have pages look again."""
    [entry] = transcript.append(
        conversation.pk, Draft(kind=Entry.Kind.NOTICE, body=body, author=user)
    )
    conversations.push_appended(conversation.pk, [entry])
    live.push_on_commit(
        live.conversation_group(conversation.pk), {"type": "conversation.changed"}
    )
    return entry


@transaction.atomic
def set_level(*, conversation: Conversation, user: User, level: str) -> Entry | None:
    """Set who is asked from now on; no byte of what requests begin with changes.

    The model is told at the end of what is sent, when the level plan begins or ends:
    returns that notice, or None.
    """
    require(user, conversation.workspace, "post")
    runs.require_people(conversation)
    if level not in ApprovalLevel.values:
        raise BadInput(
            _("The approval level is one of %(names)s.")
            % {"names": ", ".join(ApprovalLevel.values)}
        )
    old = runs.lock(conversation.pk).approval_level
    conversation.approval_level = level
    _require_may_raise(user, conversation, old, level)
    if old == level:
        return None
    body = shift_level(conversation, old, level, str(user))
    _note(conversation, user, "conversation.level", old, level)
    return _append_notice(conversation, user, body) if body else None


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


def _require_may_raise(
    user: User, conversation: Conversation, old: str, new: str
) -> None:
    """Approving less than before is approving: for another's turn it needs the right."""
    order = ApprovalLevel.values
    run = runs.at_work(conversation)
    if run and order.index(new) > order.index(old):
        runs.require_own(user, run, "approve_any")
