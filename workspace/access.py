"""Who may do what in a workspace.

Every page, socket and API call asks here. What a person may not see is
`NotVisible` (404); what they may see but not do is `NotAllowed` (403).
"""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.utils.translation import gettext as _

from workspace.errors import NotAllowed, NotVisible
from workspace.models import Conversation, Membership, Role, User, Workspace
from workspace.prepared import Select, given

#: Whoever asks: a person, or nobody yet.
Person = User | AnonymousUser
Ability = Literal[
    "read",
    "post",
    "attach",
    "answer",
    "approve",
    "private",
    "approve_any",
    "stop_any",
    "manage_agents",
    "manage_endpoints",
    "manage_permissions",
    "manage_members",
    "manage_workspace",
    "transfer",
    "delete_workspace",
    "shred",
]

#: From the least to the most.
ROLES = (Role.VIEWER, Role.MEMBER, Role.ADMIN, Role.OWNER)

#: The lowest role that has the ability. "approve" and "answer" are about one's own
#: turns; those of others need "approve_any".
ABILITIES: dict[Ability, Role] = {
    "read": Role.VIEWER,
    "post": Role.MEMBER,
    "attach": Role.MEMBER,
    "answer": Role.MEMBER,
    "approve": Role.MEMBER,
    "private": Role.MEMBER,
    "approve_any": Role.ADMIN,
    "stop_any": Role.ADMIN,
    "manage_agents": Role.ADMIN,
    "manage_endpoints": Role.ADMIN,
    "manage_permissions": Role.ADMIN,
    "manage_members": Role.ADMIN,
    "manage_workspace": Role.ADMIN,
    "transfer": Role.OWNER,
    "delete_workspace": Role.OWNER,
    "shred": Role.OWNER,
}


def rank(role: str) -> int:
    """Its place among the roles, from 0 for a viewer."""
    return ROLES.index(Role(role))


def at_least(role: str, needed: str) -> bool:
    return rank(role) >= rank(needed)


#: User and workspace may have changed since the objects were read, by somebody else.
_PLACE = Select[Membership](
    lambda: Membership.objects.filter(
        user=given("user", Membership, "user"),
        workspace=given("workspace", Membership, "workspace"),
        user__is_active=True,
        workspace__deleted_at__isnull=True,
    )
)


def membership(user: Person, workspace: Workspace) -> Membership | None:
    """The person's place in the workspace; None for an outsider. One query."""
    if not user.is_authenticated or not user.is_active or workspace.deleted_at:
        return None
    return _PLACE.first(user=user.pk, workspace=workspace.pk)


def can(user: Person, workspace: Workspace, ability: Ability) -> bool:
    member = membership(user, workspace)
    return member is not None and at_least(member.role, ABILITIES[ability])


def require(user: Person, workspace: Workspace, ability: Ability) -> Membership:
    """The person's membership, if its role has the ability."""
    member = membership(user, workspace)
    if member is None:
        raise NotVisible
    needed = ABILITIES[ability]
    if not at_least(member.role, needed):
        raise NotAllowed(
            _(
                "This needs the role %(needed)s; you are %(role)s here. An owner or "
                "admin of the workspace can change that under Members."
            )
            % {"needed": needed.label, "role": Role(member.role).label}
        )
    return member


def workspace_for(user: Person, slug: str, ability: Ability = "read") -> Workspace:
    """The workspace at that address, if the person may see it and do this in it."""
    if not user.is_authenticated or not user.is_active:
        raise NotVisible
    workspace = Workspace.objects.visible_to(user).filter(slug=slug).first()
    if workspace is None:
        raise NotVisible
    if ability != "read":
        require(user, workspace, ability)
    return workspace


_VISIBLE = Select[Conversation](
    lambda: (
        Conversation.objects.visible_to(given("user", Membership, "user"))
        .filter(
            pk=given("pk", Conversation, "id"),
            workspace__slug=given("slug", Workspace, "slug"),
        )
        .select_related("workspace")
    )
)


def conversation_for(
    user: Person,
    slug: str,
    conversation_id: UUID | str,
    ability: Ability = "read",
) -> Conversation:
    """The conversation with its workspace, under the same two conditions."""
    if not user.is_authenticated or not user.is_active:
        raise NotVisible
    conversation = _VISIBLE.first(user=user.pk, slug=slug, pk=conversation_id)
    if conversation is None:
        raise NotVisible
    if ability != "read":
        require(user, conversation.workspace, ability)
    return conversation
