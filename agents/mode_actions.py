"""How far the agent may go in a conversation: the approval level."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from agents import events, runs
from workspace import audit, live
from workspace.access import require
from workspace.errors import BadInput
from workspace.events import emit
from workspace.models import ApprovalLevel, Conversation, User


@transaction.atomic
def set_level(*, conversation: Conversation, user: User, level: str) -> None:
    """Set who is asked from now on; it never changes what the model is sent."""
    require(user, conversation.workspace, "post")
    runs.require_people(conversation)
    if level not in ApprovalLevel.values:
        raise BadInput(
            _("The approval level is one of %(names)s.")
            % {"names": ", ".join(ApprovalLevel.values)}
        )
    locked = runs.lock(conversation.pk)
    old = locked.approval_level
    _require_may_raise(user, conversation, old, level)
    Conversation.objects.filter(pk=locked.pk).update(approval_level=level)
    conversation.approval_level = level
    if old != level:
        audit.record(
            "conversation.level",
            by=user,
            workspace=conversation.workspace,
            conversation=conversation,
            subject=conversation.title,
            old=old,
            new=level,
        )
    if (run := runs.at_work(conversation)) and old != level:
        emit(events.LevelChanged(**runs.ids_of(run), old=old, new=level, by=str(user)))
    live.push_on_commit(
        live.conversation_group(conversation.pk), {"type": "conversation.changed"}
    )


def _require_may_raise(
    user: User, conversation: Conversation, old: str, new: str
) -> None:
    """Approving less than before is approving: for another's turn it needs the right."""
    order = ApprovalLevel.values
    run = runs.at_work(conversation)
    if run and order.index(new) > order.index(old):
        runs.require_own(user, run, "approve_any")
