"""The audit log: every change that people make to what others rely on.

`record` is called inside the transaction of the change. Secrets are never passed to it;
whatever looks like one is masked all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from workspace.models import Change, Conversation, User, Workspace
from workspace.redaction import redact_data

LONGEST_SUBJECT = 300  # characters

#: What each action is called on the page. The apps above add theirs.
_TITLES: dict[str, str | Promise] = {
    "workspace.created": _("Workspace made"),
    "workspace.changed": _("General settings changed"),
    "workspace.deleted": _("Workspace deleted"),
    "workspace.transferred": _("Workspace given to another owner"),
    "member.joined": _("Member joined"),
    "member.role": _("Role changed"),
    "member.removed": _("Member removed"),
    "invitation.made": _("Invitation made"),
    "invitation.withdrawn": _("Invitation withdrawn"),
}


def name_actions(titles: Mapping[str, str | Promise]) -> None:
    """Tell the page what an app's actions are called; done once, when it is ready."""
    _TITLES.update(titles)


def title_of(action: str) -> str:
    return str(_TITLES.get(action, action))


def record(
    action: str,
    *,
    by: User | None,
    workspace: Workspace | None,
    subject: object = "",
    old: Any = None,
    new: Any = None,
    conversation: Conversation | None = None,
) -> Change:
    """Note a change. `old` and `new` are plain JSON; of mappings only what differs.

    The log is never rewritten, so nothing that was said goes into it: a title repeats a
    message, and is shown from the conversation as long as it is there.
    """
    old, new = differing(old, new)
    return Change.objects.create(
        action=action,
        by=by,
        workspace=workspace,
        conversation=conversation,
        subject=str(subject)[:LONGEST_SUBJECT],
        old=redact_data(old),
        new=redact_data(new),
    )


def differing(old: Any, new: Any) -> tuple[Any, Any]:
    """Two mappings without what they share; anything else as it is."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return old, new
    names = [
        name for name in {**old, **new} if old.get(name, ...) != new.get(name, ...)
    ]
    return (
        {name: old[name] for name in names if name in old},
        {name: new[name] for name in names if name in new},
    )


def changes_of(
    workspace: Workspace,
    viewer: User,
    *,
    words: str = "",
    action: str = "",
    before: int | None = None,
) -> QuerySet[Change]:
    """The workspace's changes, newest first; `action` is a whole name or its noun.

    What was done in conversations that the viewer may not see is left out.
    """
    visible = Conversation.objects.visible_to(viewer).filter(workspace=workspace)
    found = Change.objects.filter(
        Q(conversation=None) | Q(conversation__in=visible.values("pk")),
        workspace=workspace,
    )
    if action:
        found = found.filter(Q(action=action) | Q(action__startswith=f"{action}."))
    if words:
        people = Q(by__username__icontains=words) | Q(by__display_name__icontains=words)
        title = Q(conversation__title__icontains=words)
        found = found.filter(Q(subject__icontains=words) | title | people)
    if before is not None:
        found = found.filter(pk__lt=before)
    return found.select_related("by", "conversation").order_by("-pk")


def nouns(workspace: Workspace) -> list[str]:
    """What the workspace's log speaks of, for a choice: member, endpoint …"""
    actions = Change.objects.filter(workspace=workspace).values_list(
        "action", flat=True
    )
    return sorted({action.split(".")[0] for action in actions.distinct()})
