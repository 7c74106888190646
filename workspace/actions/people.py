"""Workspaces, their members, and invitations.

Writes about one workspace's people lock its row first, so that two of them cannot
together remove its last owner.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext as _

from workspace import audit, live
from workspace.access import at_least, rank, require
from workspace.errors import BadInput, Conflict, Gone, NotAllowed, NotVisible
from workspace.models import Invitation, Membership, Role, User, Workspace

INVITATION_DAYS = 7
LONGEST_NAME = 80
#: Characters that are not seen but change how the text around them is shown.
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: Joins emoji and letters of several scripts; harmless.
JOINERS = frozenset({"\u200c", "\u200d"})
README = """# {name}

This folder belongs to everyone in the workspace. Agents read and write here: ask
one to "read README.md and tell me what is in it, then list the files".

- Put the files that you want to talk about next to this one.
- Rules for agents go into AGENTS.md.
"""


@dataclass(frozen=True)
class Invited:
    """A new invitation and its token, which is shown once and never stored."""

    invitation: Invitation
    token: str


def seed() -> Workspace:
    """The first workspace; makes it if the server has none.

    Safe to call again and from several processes: its address is the lock.
    """
    first = Workspace.objects.order_by("created_at").first()
    if first:
        return first
    try:
        return _store_workspace(name=_("First workspace"), slugs=["first"])
    except Conflict:
        return Workspace.objects.get(slug="first")


def may_create_workspaces(user: User) -> bool:
    """Server staff, and whoever they gave Django's permission to."""
    return user.is_active and (
        user.is_staff or user.has_perm("workspace.add_workspace")
    )


def create_workspace(*, name: str, by: User) -> Workspace:
    """A workspace with its files folder, owned by the one who makes it."""
    if not may_create_workspaces(by):
        raise NotAllowed(_("Only server staff make workspaces here. Ask them for one."))
    name = clean_name(name)
    return _store_workspace(name=name, slugs=_slugs(name), owner=by)


def update_workspace(
    *, workspace: Workspace, by: User, name: str, time_zone: str, network: bool
) -> Workspace:
    """Change the general settings. The address stays: links keep working."""
    require(by, workspace, "manage_workspace")
    if time_zone not in available_timezones():
        raise BadInput(
            _(
                "%(zone)s is not a time zone that this server knows. Write one like "
                "Asia/Seoul or UTC."
            )
            % {"zone": repr(time_zone)}
        )
    new = {"name": clean_name(name), "time_zone": time_zone, "network": network}
    with transaction.atomic():
        _lock(workspace)
        old = Workspace.objects.values(*new).get(pk=workspace.pk)
        for field, value in new.items():
            setattr(workspace, field, value)
        workspace.save(update_fields=list(new))
        if old != new:
            _note("workspace.changed", by, workspace, workspace.name, old, new)
    return workspace


@transaction.atomic
def delete_workspace(*, workspace: Workspace, by: User) -> None:
    """Hide the workspace from everyone. Nothing in it is erased."""
    _lock(workspace)
    require(by, workspace, "delete_workspace")
    workspace.deleted_at = timezone.now()
    workspace.save(update_fields=["deleted_at"])
    _note("workspace.deleted", by, workspace, workspace.name)
    for user_id in workspace.memberships.values_list("user_id", flat=True):
        close_sockets(user_id)


@transaction.atomic
def invite(
    *,
    workspace: Workspace,
    by: User,
    role: str,
    email: str = "",
    days: int = INVITATION_DAYS,
) -> Invited:
    """A single-use link into the workspace, for one address if `email` is given."""
    _lock(workspace)
    inviter = require(by, workspace, "manage_members")
    _require_grantable(inviter, role)
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        workspace=workspace,
        role=role,
        email=clean_email(email),
        token_digest=token_digest(token),
        created_by=by,
        expires_at=timezone.now() + timedelta(days=days),
    )
    told = {"role": role, "email": invitation.email}
    _note("invitation.made", by, workspace, invitation.email, new=told)
    return Invited(invitation, token)


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, by: User) -> None:
    """End an open invitation; one that was used or revoked stays as it is."""
    if invitation.workspace is None:
        raise NotVisible
    require(by, invitation.workspace, "manage_members")
    told = {"role": invitation.role, "email": invitation.email}
    revoked = Invitation.objects.filter(
        pk=invitation.pk, accepted_at=None, revoked_at=None
    ).update(revoked_at=timezone.now())
    if not revoked:
        raise Conflict(_("That invitation was used or revoked already."))
    workspace = invitation.workspace
    _note("invitation.withdrawn", by, workspace, invitation.email, old=told)


def find_invitation(token: str) -> Invitation:
    """The open invitation of that link; says why if it is no longer one."""
    invitation = (
        Invitation.objects.filter(
            token_digest=token_digest(token),
            workspace__isnull=False,
            workspace__deleted_at=None,
        )
        .select_related("workspace", "created_by")
        .first()
    )
    if invitation is None:
        raise NotVisible(
            _(
                "No invitation has this link. Check that it was copied whole, or ask "
                "whoever invited you for a new one."
            )
        )
    if invitation.accepted_at:
        raise Gone(_("This invitation was used. Ask whoever sent it for a new one."))
    if invitation.revoked_at:
        raise Gone(_("This invitation was withdrawn. Ask whoever sent it why."))
    if invitation.expires_at <= timezone.now():
        raise Gone(_("This invitation is too old. Ask whoever sent it for a new one."))
    return invitation


@transaction.atomic
def accept_invitation(*, token: str, user: User) -> Membership:
    """Join the workspace. The link works once: of two people, one comes too late."""
    invitation = find_invitation(token)
    workspace = invitation.workspace
    assert workspace is not None  # find_invitation leaves set-up links out
    _lock(workspace)
    if invitation.email and invitation.email.lower() != user.email.lower():
        raise NotAllowed(
            _(
                "This invitation is for %(email)s. Sign in with the account of that "
                "address, or ask for an invitation to yours."
            )
            % {"email": invitation.email}
        )
    if workspace.memberships.filter(user=user).exists():
        raise Conflict(_("You are a member of this workspace already."))
    if not claim(invitation, user):
        raise Gone(_("This invitation was used. Ask whoever sent it for a new one."))
    told = {"role": invitation.role, "invited by": str(invitation.created_by or "")}
    _note("member.joined", user, workspace, user, new=told)
    return Membership.objects.create(
        workspace=workspace, user=user, role=invitation.role
    )


def claim(invitation: Invitation, user: User) -> bool:
    """Use the link up. False if somebody else was first, or it was revoked."""
    now = timezone.now()
    return bool(
        Invitation.objects.filter(
            pk=invitation.pk,
            accepted_at=None,
            revoked_at=None,
            expires_at__gt=now,
        ).update(accepted_at=now, accepted_by=user)
    )


@transaction.atomic
def change_role(*, member: Membership, role: str, by: User) -> Membership:
    """Give a member another role. Nobody rises above the one who decides."""
    member = _locked(member)
    changer = require(by, member.workspace, "manage_members")
    _require_grantable(changer, role)
    if not at_least(changer.role, member.role):
        raise NotAllowed(_("Only an owner can change the role of an owner."))
    if role == member.role:
        return member
    if member.role == Role.OWNER:
        _require_another_owner(member)
    lowered = rank(role) < rank(member.role)
    _note("member.role", by, member.workspace, member.user, member.role, role)
    member.role = role
    member.save(update_fields=["role"])
    if lowered:
        _revoke_invitations_of(member)
        close_sockets(member.user_id)
    return member


@transaction.atomic
def remove_member(*, member: Membership, by: User) -> None:
    """Take a person out; everyone may take out themselves, except the last owner."""
    member = _locked(member)
    if member.user_id != by.pk:
        remover = require(by, member.workspace, "manage_members")
        if not at_least(remover.role, member.role):
            raise NotAllowed(_("Only an owner can remove an owner."))
    if member.role == Role.OWNER:
        _require_another_owner(member)
    _note("member.removed", by, member.workspace, member.user, member.role)
    member.role = Role.VIEWER  # no invitation of theirs outlives them
    _revoke_invitations_of(member)
    user_id = member.user_id
    member.delete()
    close_sockets(user_id)


@transaction.atomic
def transfer(*, workspace: Workspace, to: User, by: User) -> Membership:
    """Make another member the owner; the one who gives it away becomes an admin."""
    _lock(workspace)
    giver = require(by, workspace, "transfer")
    if to.pk == by.pk:
        raise BadInput(_("You own this workspace already; choose another member."))
    taker = workspace.memberships.filter(user=to, user__is_active=True).first()
    if taker is None:
        raise BadInput(
            _("A workspace goes to one of its members; invite the person first.")
        )
    taker.role = Role.OWNER
    taker.save(update_fields=["role"])
    giver.role = Role.ADMIN
    giver.save(update_fields=["role"])
    _revoke_invitations_of(giver)
    _note("workspace.transferred", by, workspace, workspace.name, str(by), str(to))
    close_sockets(by.pk)
    return taker


def update_profile(*, user: User, display_name: str, language: str, theme: str) -> User:
    """Change how the product looks to a person, and they to others."""
    user.display_name = clean_name(display_name) if display_name.strip() else ""
    user.language = language
    user.theme = theme
    user.save(update_fields=["display_name", "language", "theme"])
    return user


def clean_name(name: str) -> str:
    """The name in one normal form; refuses what cannot be seen or is too long."""
    name = " ".join(unicodedata.normalize("NFC", name).split())
    if not name:
        raise BadInput(_("A name needs at least one visible character."))
    if len(name) > LONGEST_NAME:
        raise BadInput(
            _("A name has at most %(most)d characters; this one has %(count)d.")
            % {"most": LONGEST_NAME, "count": len(name)}
        )
    if any(
        unicodedata.category(char) in INVISIBLE and char not in JOINERS for char in name
    ):
        raise BadInput(
            _("A name cannot hold invisible control characters; type it again.")
        )
    return name


def clean_email(email: str) -> str:
    """The address without spaces; empty stays empty."""
    email = email.strip()
    try:
        if email:
            validate_email(email)
    except ValidationError:
        raise BadInput(
            _("%(email)s is not an email address; write one like name@example.org.")
            % {"email": repr(email)}
        ) from None
    return email


def token_digest(token: str) -> str:
    """What is stored of a link: whoever reads the database cannot use it."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def close_sockets(user_id: UUID) -> None:
    """Once this is committed; a socket reconnects to what it may still see."""
    live.push_on_commit(
        live.user_group(user_id), {"type": "access.revoked", "user": str(user_id)}
    )


def _slugs(name: str) -> list[str]:
    """Addresses for a workspace of that name, the best first."""
    base = slugify(name)[:50] or "workspace"
    return [base, *(f"{base}-{number}" for number in range(2, 100))]


def _store_workspace(
    *, name: str, slugs: Iterable[str], owner: User | None = None
) -> Workspace:
    """Store it at the first of the addresses that is free."""
    workspace = Workspace(name=name)
    _make_folder(workspace)
    for slug in slugs:
        workspace.slug = slug
        try:
            with transaction.atomic():
                workspace.save(force_insert=True)
                if owner:
                    Membership.objects.create(
                        workspace=workspace, user=owner, role=Role.OWNER
                    )
                    _note("workspace.created", owner, workspace, name)
        except IntegrityError:
            continue
        return workspace
    raise Conflict(_("Too many workspaces have that name; choose another one."))


def _make_folder(workspace: Workspace) -> None:
    try:
        workspace.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        readme = README.format(name=workspace.name)
        (workspace.root / "README.md").write_text(readme, encoding="utf-8")
    except OSError as error:
        raise Conflict(
            _(
                "The server cannot make the workspace's folder (%(reason)s). Nothing "
                "was stored; tell the operator, then try again."
            )
            % {"reason": error.strerror}
        ) from error


def _note(
    action: str,
    by: User,
    workspace: Workspace,
    subject: object,
    old: object = None,
    new: object = None,
) -> None:
    """The change in the audit log."""
    audit.record(action, by=by, workspace=workspace, subject=subject, old=old, new=new)


def _lock(workspace: Workspace) -> None:
    """Make the other writes about its people wait until this one has ended."""
    Workspace.objects.select_for_update().get(pk=workspace.pk)


def _locked(member: Membership) -> Membership:
    """The membership as it is now, under the lock of its workspace."""
    _lock(member.workspace)
    fresh = (
        Membership.objects.filter(pk=member.pk)
        .select_related("workspace", "user")
        .first()
    )
    if fresh is None:
        raise NotVisible(_("That person is no longer a member of this workspace."))
    return fresh


def _require_grantable(giver: Membership, role: str) -> None:
    if role not in Role.values:
        raise BadInput(_("There is no role %(role)s.") % {"role": repr(role)})
    if not at_least(giver.role, role):
        raise NotAllowed(_("Only an owner can make somebody an owner."))


def _require_another_owner(member: Membership) -> None:
    owners = member.workspace.memberships.filter(
        role=Role.OWNER, user__is_active=True
    ).exclude(pk=member.pk)
    if not owners.exists():
        raise Conflict(
            _(
                "A workspace keeps at least one owner. Make another member an owner "
                "first, or transfer or delete the workspace."
            )
        )


def _revoke_invitations_of(member: Membership) -> None:
    """End the open invitations that the person could not make with this role."""
    opened = Invitation.objects.filter(
        workspace=member.workspace,
        created_by_id=member.user_id,
        accepted_at=None,
        revoked_at=None,
    )
    if at_least(member.role, Role.ADMIN):
        opened = opened.filter(role=Role.OWNER)
    opened.update(revoked_at=timezone.now())
