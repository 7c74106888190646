"""Workspaces, members and invitations: what the actions allow, refuse and undo."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.conftest import PASSWORD
from workspace import accounts
from workspace.actions import people
from workspace.errors import BadInput, Conflict, Gone, NotAllowed, NotVisible
from workspace.models import Invitation, Membership, Workspace


def role_of(user, workspace):
    found = Membership.objects.filter(user=user, workspace=workspace).first()
    return found and found.role


def place(user, workspace):
    return Membership.objects.get(user=user, workspace=workspace)


@pytest.fixture
def stranger(owner):
    """An account without any workspace."""
    token = people.invite(
        workspace=people.create_workspace(name="Lobby", by=owner),
        by=owner,
        role="viewer",
    ).token
    member = accounts.join(
        token=token,
        username="stranger",
        password=PASSWORD,
        email="stranger@example.org",
    )
    people.remove_member(member=member, by=owner)
    return member.user


@pytest.fixture
def pushed(monkeypatch):
    """What is pushed to people, as (group, type)."""
    sent = []
    monkeypatch.setattr(
        "workspace.live.push", lambda group, message: sent.append((group, message))
    )
    return sent


def test_seeding_twice_leaves_one_workspace_with_a_readme(db, var_dir):
    first = people.seed()
    assert people.seed() == first
    assert Workspace.objects.count() == 1
    readme = first.root / "README.md"
    assert "list the files" in readme.read_text(encoding="utf-8")


def test_a_workspace_belongs_to_whoever_made_it_and_keeps_its_files_private(owner):
    made = people.create_workspace(name="  Web  site ", by=owner)
    assert (made.name, made.slug, role_of(owner, made)) == (
        "Web site",
        "web-site",
        "owner",
    )
    assert made.root.stat().st_mode & 0o077 == 0


def test_two_workspaces_of_one_name_have_two_addresses(owner):
    names = [people.create_workspace(name="부산", by=owner).slug for _ in range(3)]
    assert names == ["workspace", "workspace-2", "workspace-3"]


def test_members_do_not_make_workspaces_unless_they_were_given_the_right(
    member, outsider
):
    with pytest.raises(NotAllowed, match="server staff"):
        people.create_workspace(name="Mine", by=member)
    assert people.create_workspace(name="Mine", by=outsider)


def test_a_folder_that_cannot_be_made_leaves_no_workspace(owner, settings, tmp_path):
    (tmp_path / "full").write_text("a file where a folder should be")
    settings.VAR_DIR = tmp_path / "full"
    with pytest.raises(Conflict, match="Nothing was stored"):
        people.create_workspace(name="Nowhere", by=owner)
    assert not Workspace.objects.filter(name="Nowhere").exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "visible character"),
        (" \t ", "visible character"),
        ("x" * 81, "at most 80"),
        ("evil\u202egpj.exe", "invisible"),
        ("nul\x00", "invisible"),
        ("\u200b", "invisible"),
    ],
)
def test_a_name_that_cannot_be_read_is_refused(owner, name, sentence):
    with pytest.raises(BadInput, match=sentence):
        people.create_workspace(name=name, by=owner)


def test_a_korean_name_is_stored_in_one_normal_form(owner):
    decomposed = "\u1112\u1161\u11ab\u1100\u1173\u11af"
    assert people.create_workspace(name=decomposed, by=owner).name == "한글"


def test_an_invitation_works_once(workspace, owner, stranger, outsider):
    token = people.invite(workspace=workspace, by=owner, role="member").token
    people.accept_invitation(token=token, user=stranger)
    assert role_of(stranger, workspace) == "member"
    with pytest.raises(Gone, match="was used"):
        people.accept_invitation(token=token, user=outsider)
    assert role_of(outsider, workspace) is None


def test_only_a_digest_of_the_link_is_stored(workspace, owner):
    invited = people.invite(workspace=workspace, by=owner, role="member")
    stored = Invitation.objects.get(pk=invited.invitation.pk)
    assert invited.token not in {str(value) for value in vars(stored).values()}


def test_a_withdrawn_an_old_and_an_unknown_link_say_what_they_are(
    workspace, owner, stranger
):
    withdrawn = people.invite(workspace=workspace, by=owner, role="member")
    people.revoke_invitation(invitation=withdrawn.invitation, by=owner)
    old = people.invite(workspace=workspace, by=owner, role="member")
    Invitation.objects.filter(pk=old.invitation.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    with pytest.raises(Gone, match="withdrawn"):
        people.accept_invitation(token=withdrawn.token, user=stranger)
    with pytest.raises(Gone, match="too old"):
        people.accept_invitation(token=old.token, user=stranger)
    with pytest.raises(NotVisible, match="copied whole"):
        people.accept_invitation(token="no-such-token", user=stranger)
    assert role_of(stranger, workspace) is None


def test_a_used_invitation_cannot_be_withdrawn(workspace, owner, stranger):
    invited = people.invite(workspace=workspace, by=owner, role="member")
    people.accept_invitation(token=invited.token, user=stranger)
    with pytest.raises(Conflict):
        people.revoke_invitation(invitation=invited.invitation, by=owner)


def test_an_invitation_for_one_address_refuses_the_account_of_another(
    workspace, owner, stranger
):
    invited = people.invite(
        workspace=workspace, by=owner, role="member", email="Someone@example.org"
    )
    with pytest.raises(NotAllowed, match=r"Someone@example\.org"):
        people.accept_invitation(token=invited.token, user=stranger)
    stranger.email = "someone@EXAMPLE.org"
    stranger.save()
    assert people.accept_invitation(token=invited.token, user=stranger)


def test_a_member_who_opens_another_invitation_does_not_use_it_up(
    workspace, owner, member
):
    invited = people.invite(workspace=workspace, by=owner, role="owner")
    with pytest.raises(Conflict, match="member of this workspace already"):
        people.accept_invitation(token=invited.token, user=member)
    assert role_of(member, workspace) == "member"
    assert people.find_invitation(invited.token)


def test_an_invitation_into_a_deleted_workspace_is_unknown(workspace, owner, stranger):
    token = people.invite(workspace=workspace, by=owner, role="member").token
    people.delete_workspace(workspace=workspace, by=owner)
    with pytest.raises(NotVisible):
        people.accept_invitation(token=token, user=stranger)


def test_a_set_up_link_is_no_invitation(db, var_dir):
    token = accounts.make_setup_link("http://x").rstrip("/").rsplit("/", 1)[1]
    with pytest.raises(NotVisible):
        people.find_invitation(token)


@pytest.mark.parametrize("role", ["member", "viewer"])
def test_members_and_viewers_invite_nobody(request, workspace, role):
    with pytest.raises(NotAllowed):
        people.invite(
            workspace=workspace, by=request.getfixturevalue(role), role="viewer"
        )


def test_an_admin_makes_no_owner_by_invitation_or_by_role(
    workspace, owner, admin, member
):
    with pytest.raises(NotAllowed, match="Only an owner"):
        people.invite(workspace=workspace, by=admin, role="owner")
    for target in (member, admin):
        with pytest.raises(NotAllowed, match="Only an owner"):
            people.change_role(member=place(target, workspace), role="owner", by=admin)
    assert role_of(admin, workspace) == "admin"


def test_an_admin_neither_lowers_nor_removes_an_owner(workspace, owner, admin):
    with pytest.raises(NotAllowed):
        people.change_role(member=place(owner, workspace), role="viewer", by=admin)
    with pytest.raises(NotAllowed):
        people.remove_member(member=place(owner, workspace), by=admin)
    assert role_of(owner, workspace) == "owner"


def test_nobody_raises_themselves(workspace, member, viewer):
    for user in (member, viewer):
        with pytest.raises(NotAllowed):
            people.change_role(member=place(user, workspace), role="admin", by=user)


def test_an_outsider_cannot_touch_members_they_may_not_know(
    workspace, member, outsider
):
    for act in (
        lambda: people.change_role(
            member=place(member, workspace), role="viewer", by=outsider
        ),
        lambda: people.remove_member(member=place(member, workspace), by=outsider),
        lambda: people.invite(workspace=workspace, by=outsider, role="viewer"),
        lambda: people.delete_workspace(workspace=workspace, by=outsider),
        lambda: people.transfer(workspace=workspace, to=outsider, by=outsider),
    ):
        with pytest.raises(NotVisible):
            act()


def test_a_role_that_does_not_exist_is_refused(workspace, owner, member):
    with pytest.raises(BadInput, match="'king'"):
        people.change_role(member=place(member, workspace), role="king", by=owner)


def test_the_last_owner_can_neither_leave_nor_step_down(workspace, owner):
    with pytest.raises(Conflict, match="at least one owner"):
        people.remove_member(member=place(owner, workspace), by=owner)
    with pytest.raises(Conflict, match="at least one owner"):
        people.change_role(member=place(owner, workspace), role="admin", by=owner)


def test_an_owner_whose_account_is_off_does_not_count(workspace, owner, member):
    people.change_role(member=place(member, workspace), role="owner", by=owner)
    member.is_active = False
    member.save()
    with pytest.raises(Conflict):
        people.remove_member(member=place(owner, workspace), by=owner)


def test_one_of_two_owners_can_leave(workspace, owner, member):
    people.change_role(member=place(member, workspace), role="owner", by=owner)
    people.remove_member(member=place(owner, workspace), by=owner)
    assert role_of(owner, workspace) is None
    assert role_of(member, workspace) == "owner"


def test_a_viewer_can_leave(workspace, viewer):
    people.remove_member(member=place(viewer, workspace), by=viewer)
    assert role_of(viewer, workspace) is None


def test_a_membership_that_is_gone_is_not_changed_from_an_old_copy(
    workspace, owner, member
):
    stale = place(member, workspace)
    people.remove_member(member=place(member, workspace), by=owner)
    with pytest.raises(NotVisible):
        people.change_role(member=stale, role="admin", by=owner)


def test_a_removed_admin_cannot_come_back_by_a_link_they_made(
    workspace, owner, admin, stranger
):
    made = people.invite(workspace=workspace, by=admin, role="admin")
    others = people.invite(workspace=workspace, by=owner, role="member")
    people.remove_member(member=place(admin, workspace), by=owner)
    with pytest.raises(Gone, match="withdrawn"):
        people.accept_invitation(token=made.token, user=admin)
    assert people.accept_invitation(token=others.token, user=stranger)


def test_an_owner_made_admin_loses_the_invitations_for_owners_only(
    workspace, owner, member
):
    people.change_role(member=place(member, workspace), role="owner", by=owner)
    for_owner = people.invite(workspace=workspace, by=member, role="owner")
    for_member = people.invite(workspace=workspace, by=member, role="member")
    people.change_role(member=place(member, workspace), role="admin", by=owner)
    with pytest.raises(Gone):
        people.find_invitation(for_owner.token)
    assert people.find_invitation(for_member.token)


def test_a_transfer_leaves_one_owner_and_an_admin(workspace, owner, member, outsider):
    people.transfer(workspace=workspace, to=member, by=owner)
    assert role_of(member, workspace) == "owner"
    assert role_of(owner, workspace) == "admin"
    with pytest.raises(NotAllowed):
        people.transfer(workspace=workspace, to=owner, by=owner)
    with pytest.raises(BadInput, match="invite the person first"):
        people.transfer(workspace=workspace, to=outsider, by=member)
    with pytest.raises(BadInput, match="own this workspace already"):
        people.transfer(workspace=workspace, to=member, by=member)


def test_removing_lowering_and_deleting_close_sockets_once_it_is_committed(
    workspace, owner, member, viewer, pushed, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks() as waiting:
        people.remove_member(member=place(viewer, workspace), by=owner)
        people.change_role(member=place(member, workspace), role="viewer", by=owner)
        assert pushed == []
    for callback in waiting:
        callback()
    assert pushed == [
        (f"u.{user.pk}", {"type": "access.revoked", "user": str(user.pk)})
        for user in (viewer, member)
    ]
    pushed.clear()
    with django_capture_on_commit_callbacks(execute=True):
        people.delete_workspace(workspace=workspace, by=owner)
    assert {group for group, _ in pushed} == {f"u.{owner.pk}", f"u.{member.pk}"}


def test_raising_somebody_closes_nothing(
    workspace, owner, member, pushed, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        people.change_role(member=place(member, workspace), role="admin", by=owner)
    assert pushed == []


def test_general_settings_are_for_admins_and_know_time_zones(workspace, admin, member):
    changed = people.update_workspace(
        workspace=workspace,
        by=admin,
        name="Harbour",
        time_zone="Asia/Seoul",
        network=True,
    )
    assert Workspace.objects.get(pk=changed.pk).time_zone == "Asia/Seoul"
    with pytest.raises(BadInput, match="'Mars/Base'"):
        people.update_workspace(
            workspace=workspace,
            by=admin,
            name="x",
            time_zone="Mars/Base",
            network=False,
        )
    with pytest.raises(NotAllowed):
        people.update_workspace(
            workspace=workspace, by=member, name="x", time_zone="UTC", network=False
        )


def test_an_address_that_is_none_is_refused(workspace, owner):
    with pytest.raises(BadInput, match="name@example"):
        people.invite(workspace=workspace, by=owner, role="member", email="nobody")
