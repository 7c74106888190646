"""Pages of workspaces and members: parse, one call, render or redirect."""

from __future__ import annotations

import logging
from collections.abc import Callable
from smtplib import SMTPException
from typing import Any, cast
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.mail import send_mail
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from workspace.access import ROLES, at_least, require, workspace_for
from workspace.actions import people
from workspace.errors import BadInput, Conflict, NotVisible
from workspace.models import Invitation, Membership, User, Workspace
from workspace.people_forms import (
    DeleteWorkspaceForm,
    GeneralForm,
    InviteForm,
    NewWorkspaceForm,
)

logger = logging.getLogger(__name__)

#: Where the session keeps a new invitation's link until the page has shown it.
NEW_LINK_KEY = "new_invitation_link"
page = require_http_methods(["GET", "HEAD", "POST"])


def person(request: HttpRequest) -> User:
    """Who asks, on pages behind `login_required`."""
    return cast(User, request.user)


def tried(form: forms.Form, action: Callable[[], Any]) -> Any:
    """What the action returns; None when it refused, which the form then says.

    What was typed stays in the form. Refusals about rights are not for forms: they
    rise and become pages of their own.
    """
    try:
        return action()
    except (BadInput, Conflict) as refusal:
        form.add_error(None, refusal.message)
        return None


@login_required
@page
def home(request: HttpRequest) -> HttpResponse:
    """The person's workspaces; straight into the only one."""
    user = person(request)
    form = NewWorkspaceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        made = tried(
            form,
            lambda: people.create_workspace(name=form.cleaned_data["name"], by=user),
        )
        if made:
            return redirect(made)
    joined = list(
        Membership.objects.filter(user=user, workspace__deleted_at=None)
        .select_related("workspace")
        .order_by("workspace__name")
    )
    if len(joined) == 1 and request.method == "GET" and "all" not in request.GET:
        return redirect(joined[0].workspace)
    return render(
        request,
        "workspace/home.html",
        {
            "memberships": joined,
            "form": form,
            "may_create": people.may_create_workspaces(user),
        },
        status=400 if form.errors else 200,
    )


@login_required
@page
def general(request: HttpRequest, slug: str) -> HttpResponse:
    """The workspace's general settings; people who may not change them read them."""
    user = person(request)
    workspace = workspace_for(user, slug)
    member = require(user, workspace, "read")
    form = GeneralForm.of(workspace, request.POST or None)
    if request.method == "POST":
        require(user, workspace, "manage_workspace")
        if form.is_valid() and tried(
            form,
            lambda: people.update_workspace(
                workspace=workspace, by=user, **form.cleaned_data
            ),
        ):
            messages.success(request, _("Saved."))
            return redirect("workspace:settings", slug)
    return general_page(request, workspace, member, form=form)


def general_page(
    request: HttpRequest,
    workspace: Workspace,
    member: Membership,
    **forms_shown: forms.Form,
) -> HttpResponse:
    """The page with the forms that were sent, and fresh ones for the rest."""
    context: dict[str, Any] = {
        "workspace": workspace,
        "member": member,
        "form": GeneralForm.of(workspace),
        "delete_form": DeleteWorkspaceForm(workspace=workspace, prefix="delete"),
        "others": workspace.memberships.exclude(pk=member.pk)
        .filter(user__is_active=True)
        .select_related("user")
        .order_by("user__username"),
    } | forms_shown
    failed = any(form.errors for form in forms_shown.values())
    return render(
        request, "workspace/settings.html", context, status=400 if failed else 200
    )


@login_required
@require_POST
def leave(request: HttpRequest, slug: str) -> HttpResponse:
    user = person(request)
    workspace = workspace_for(user, slug)
    people.remove_member(member=require(user, workspace, "read"), by=user)
    messages.success(request, _("You left %(name)s.") % {"name": workspace.name})
    return redirect("workspace:home")


@login_required
@require_POST
def transfer(request: HttpRequest, slug: str) -> HttpResponse:
    user = person(request)
    workspace = workspace_for(user, slug, "transfer")
    member = member_for(workspace, request.POST.get("member", ""))
    people.transfer(workspace=workspace, to=member.user, by=user)
    messages.success(
        request, _("%(name)s owns this workspace now.") % {"name": member.user}
    )
    return redirect("workspace:settings", slug)


@login_required
@require_POST
def delete(request: HttpRequest, slug: str) -> HttpResponse:
    user = person(request)
    workspace = workspace_for(user, slug, "delete_workspace")
    form = DeleteWorkspaceForm(request.POST, workspace=workspace, prefix="delete")
    if not form.is_valid():
        member = require(user, workspace, "read")
        return general_page(request, workspace, member, delete_form=form)
    people.delete_workspace(workspace=workspace, by=user)
    messages.success(
        request, _("The workspace %(name)s was deleted.") % {"name": workspace.name}
    )
    return redirect("workspace:home")


@login_required
@page
def members(request: HttpRequest, slug: str) -> HttpResponse:
    """Who is here, in which role; for admins also the invitations."""
    user = person(request)
    workspace = workspace_for(user, slug)
    member = require(user, workspace, "read")
    form = InviteForm(request.POST or None, inviter_role=member.role)
    if request.method == "POST":
        require(user, workspace, "manage_members")
        invited = form.is_valid() and tried(
            form,
            lambda: people.invite(workspace=workspace, by=user, **form.cleaned_data),
        )
        if invited:
            hand_out(request, invited)
            return redirect("workspace:members", slug)
    return render(
        request,
        "workspace/members.html",
        members_context(workspace, member)
        | {"form": form, "new_link": request.session.pop(NEW_LINK_KEY, "")},
        status=400 if form.errors else 200,
    )


def members_context(workspace: Workspace, member: Membership) -> dict[str, Any]:
    return {
        "workspace": workspace,
        "member": member,
        "roles": [role for role in ROLES if at_least(member.role, role)],
        "memberships": workspace.memberships.select_related("user").order_by(
            "user__username"
        ),
        "invitations": workspace.invitations.filter(
            accepted_at=None, revoked_at=None, expires_at__gt=timezone.now()
        )
        .select_related("created_by")
        .order_by("-created_at"),
    }


def hand_out(request: HttpRequest, invited: people.Invited) -> None:
    """Show the link once on the next page, and mail it where mail is set up."""
    path = reverse("workspace:invitation", args=[invited.token])
    link = (
        f"{settings.PUBLIC_URL}{path}"
        if settings.PUBLIC_URL
        else request.build_absolute_uri(path)
    )
    request.session[NEW_LINK_KEY] = link
    if settings.EMAIL_HOST and invited.invitation.email:
        mail_invitation(request, invited.invitation, link)


def mail_invitation(request: HttpRequest, invited: Invitation, link: str) -> None:
    workspace = cast(Workspace, invited.workspace)
    subject = _("%(person)s invites you to %(workspace)s") % {
        "person": request.user,
        "workspace": workspace.name,
    }
    try:
        send_mail(subject, link, None, [invited.email])
    except (OSError, SMTPException):
        logger.exception("An invitation could not be mailed")
        messages.error(
            request,
            _("The mail could not be sent. Pass the link below on yourself."),
        )
    else:
        messages.success(
            request, _("The link was mailed to %(email)s.") % {"email": invited.email}
        )


@login_required
@require_POST
def role(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    user = person(request)
    workspace = workspace_for(user, slug, "manage_members")
    people.change_role(
        member=member_for(workspace, pk), role=request.POST.get("role", ""), by=user
    )
    messages.success(request, _("The role was changed."))
    return redirect("workspace:members", slug)


@login_required
@require_POST
def remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    user = person(request)
    workspace = workspace_for(user, slug, "manage_members")
    member = member_for(workspace, pk)
    people.remove_member(member=member, by=user)
    messages.success(
        request, _("%(name)s was removed from this workspace.") % {"name": member.user}
    )
    if member.user_id == user.pk:
        return redirect("workspace:home")
    return redirect("workspace:members", slug)


@login_required
@require_POST
def revoke_invitation(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    user = person(request)
    workspace = workspace_for(user, slug, "manage_members")
    invited = workspace.invitations.filter(pk=pk).first()
    if invited is None:
        raise NotVisible
    people.revoke_invitation(invitation=invited, by=user)
    messages.success(request, _("The invitation was withdrawn."))
    return redirect("workspace:members", slug)


def member_for(workspace: Workspace, pk: int | str) -> Membership:
    """A membership of this workspace; those of others do not exist here."""
    known = workspace.memberships.select_related("user", "workspace")
    member = known.filter(pk=pk).first() if str(pk).isdecimal() else None
    if member is None:
        raise NotVisible(_("That person is not a member of this workspace."))
    return member
