"""Who may do what: the table, and the two ways of refusing."""

import pytest
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from workspace.access import (
    ABILITIES,
    can,
    conversation_for,
    membership,
    require,
    workspace_for,
)
from workspace.actions import people
from workspace.errors import NotAllowed, NotVisible
from workspace.models import Conversation, Role

#: The matrix of the product's description, told once more.
LOWEST = {
    "read": "viewer",
    "post": "member",
    "attach": "member",
    "answer": "member",
    "approve": "member",
    "private": "member",
    "approve_any": "admin",
    "stop_any": "admin",
    "manage_agents": "admin",
    "manage_endpoints": "admin",
    "manage_permissions": "admin",
    "manage_members": "admin",
    "manage_workspace": "admin",
    "transfer": "owner",
    "delete_workspace": "owner",
    "shred": "owner",
}


def test_every_ability_has_the_role_that_the_matrix_gives_it():
    assert {name: role.value for name, role in ABILITIES.items()} == LOWEST


@pytest.mark.parametrize("role", ["viewer", "member", "admin", "owner"])
def test_a_role_can_do_what_it_and_the_lower_ones_may_and_nothing_else(
    request, workspace, role
):
    user = request.getfixturevalue(role)
    order = ["viewer", "member", "admin", "owner"]
    for ability, lowest in LOWEST.items():
        allowed = order.index(role) >= order.index(lowest)
        assert can(user, workspace, ability) is allowed, ability


def test_a_refused_member_is_told_which_role_is_needed(workspace, viewer):
    with pytest.raises(NotAllowed, match="needs the role Member; you are Viewer"):
        require(viewer, workspace, "post")


def test_an_outsider_and_nobody_at_all_see_nothing(workspace, outsider):
    for stranger in (outsider, AnonymousUser()):
        assert membership(stranger, workspace) is None
        with pytest.raises(NotVisible):
            require(stranger, workspace, "read")
        with pytest.raises(NotVisible):
            workspace_for(stranger, workspace.slug)


def test_server_staff_are_outsiders_in_workspaces_they_did_not_join(
    workspace, owner, outsider
):
    outsider.is_staff = outsider.is_superuser = True
    outsider.save()
    with pytest.raises(NotVisible):
        workspace_for(outsider, workspace.slug)


def test_an_account_that_was_switched_off_sees_nothing(workspace, member):
    member.is_active = False
    member.save()
    assert not can(member, workspace, "read")
    with pytest.raises(NotVisible):
        workspace_for(member, workspace.slug)


def test_a_deleted_workspace_is_gone_for_its_owner_too(workspace, owner):
    people.delete_workspace(workspace=workspace, by=owner)
    assert not can(owner, workspace, "read")
    with pytest.raises(NotVisible):
        workspace_for(owner, workspace.slug)


def test_a_conversation_is_found_only_under_its_own_workspace(
    workspace, owner, member, outsider
):
    talk = Conversation.objects.create(workspace=workspace, created_by=member)
    assert conversation_for(owner, workspace.slug, talk.pk) == talk
    with pytest.raises(NotVisible):
        conversation_for(owner, "elsewhere", talk.pk)
    with pytest.raises(NotVisible):
        conversation_for(outsider, workspace.slug, talk.pk)


def test_a_private_conversation_is_unknown_even_to_the_owner_unless_invited(
    workspace, owner, member, admin
):
    talk = Conversation.objects.create(
        workspace=workspace, created_by=member, private=True
    )
    talk.invited.add(admin)
    assert conversation_for(member, workspace.slug, talk.pk, "post") == talk
    assert conversation_for(admin, workspace.slug, talk.pk, "post") == talk
    with pytest.raises(NotVisible):
        conversation_for(owner, workspace.slug, talk.pk)


def test_a_viewer_reads_a_conversation_and_cannot_post_in_it(workspace, owner, viewer):
    talk = Conversation.objects.create(workspace=workspace, created_by=owner)
    assert conversation_for(viewer, workspace.slug, talk.pk) == talk
    with pytest.raises(NotAllowed):
        conversation_for(viewer, workspace.slug, talk.pk, "post")


def test_a_hidden_conversation_is_gone(workspace, owner):
    talk = Conversation.objects.create(
        workspace=workspace, created_by=owner, deleted_at=timezone.now()
    )
    with pytest.raises(NotVisible):
        conversation_for(owner, workspace.slug, talk.pk)


def test_roles_are_ordered():
    assert list(Role) == [Role.VIEWER, Role.MEMBER, Role.ADMIN, Role.OWNER]
