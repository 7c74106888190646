"""What a conversation is for and how far its agent may go: mode and approval level."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from agents import runs
from agents.levels import PLAN, shift_level
from agents.models import Wait
from agents.surface.modes import MODES
from workspace import audit, live, transcript
from workspace.access import require
from workspace.actions import conversations
from workspace.errors import BadInput
from workspace.models import ApprovalLevel, Conversation, Entry, User
from workspace.transcript import Draft


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


def decide_change(wait: Wait, user: User) -> None:
    """What a person has agreed to happens with the answer, in its transaction.

    A plan ends planning; if somebody ended that already, their level stays.
    """
    conversation, change = wait.run.conversation, wait.payload["change"]
    if mode := change.get("mode"):
        set_mode(conversation=conversation, user=user, mode=mode)
    elif level := change.get("level"):
        now = Conversation.objects.get(pk=conversation.pk).approval_level
        if "plan" not in wait.payload or now == PLAN:
            set_level(conversation=conversation, user=user, level=level)


def _require_may_raise(
    user: User, conversation: Conversation, old: str, new: str
) -> None:
    """Approving less than before is approving: for another's turn it needs the right."""
    order = ApprovalLevel.values
    run = runs.at_work(conversation)
    if run and order.index(new) > order.index(old):
        runs.require_own(user, run, "approve_any")
