"""Pages of accounts: the set-up link, invitations, one's own profile and sessions."""

from __future__ import annotations

from typing import cast

from allauth.account.utils import perform_login
from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import override
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from workspace import accounts
from workspace.access import can
from workspace.actions import people
from workspace.errors import ActionError, Gone, NotVisible
from workspace.models import Invitation, User, Workspace
from workspace.people_forms import NewAccountForm, ProfileForm
from workspace.people_views import page, person, tried


@sensitive_post_parameters("password", "password_again")
@never_cache
@page
def setup(request: HttpRequest, token: str) -> HttpResponse:
    """The first administrator's account; the link in the address works once."""
    form = NewAccountForm(request.POST or None)
    try:
        accounts.find_setup(token)
        if request.method == "POST" and form.is_valid():
            made = tried(
                form, lambda: accounts.accept_setup(token=token, **form.cleaned_data)
            )
            if made:
                user, first = made
                return signed_in(request, user, first.get_absolute_url())
    except (Gone, NotVisible) as dead:
        return dead_link(request, dead, "workspace/setup.html")
    return render(
        request,
        "workspace/setup.html",
        {"form": form},
        status=400 if form.errors else 200,
    )


@sensitive_post_parameters("password", "password_again")
@never_cache
@page
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Join a workspace: with the account that is signed in, or a new one."""
    try:
        invited = people.find_invitation(token)
        request.session[accounts.INVITATION_KEY] = token
        if request.user.is_authenticated:
            return join_as(request, person(request), token, invited)
        return join_anew(request, token, invited)
    except (Gone, NotVisible) as dead:
        request.session.pop(accounts.INVITATION_KEY, None)
        return dead_link(request, dead, "workspace/join.html")


def join_as(
    request: HttpRequest, user: User, token: str, invited: Invitation
) -> HttpResponse:
    """Ask somebody who is signed in whether they want to join, then do it."""
    workspace = cast(Workspace, invited.workspace)
    if can(user, workspace, "read"):
        return redirect(workspace)
    if request.method == "POST":
        member = people.accept_invitation(token=token, user=user)
        request.session.pop(accounts.INVITATION_KEY, None)
        return redirect(member.workspace)
    return render(request, "workspace/join.html", {"invitation": invited})


def join_anew(request: HttpRequest, token: str, invited: Invitation) -> HttpResponse:
    """Let somebody make an account with the invitation, or sign in first."""
    form = NewAccountForm(request.POST or None)
    if invited.email:
        del form.fields["email"]
    if request.method == "POST" and form.is_valid():
        member = tried(form, lambda: accounts.join(token=token, **form.cleaned_data))
        if member:
            request.session.pop(accounts.INVITATION_KEY, None)
            return signed_in(request, member.user, member.workspace.get_absolute_url())
    return render(
        request,
        "workspace/join.html",
        {"invitation": invited, "form": form},
        status=400 if form.errors else 200,
    )


def signed_in(request: HttpRequest, user: User, url: str) -> HttpResponse:
    """Start the session of a person whose account was just made."""
    return cast(
        HttpResponse,
        perform_login(
            request, user, email_verification="none", redirect_url=url, signup=True
        ),
    )


def dead_link(request: HttpRequest, error: ActionError, template: str) -> HttpResponse:
    """The page of a link that no longer does anything; says what to do instead."""
    return render(request, template, {"problem": error.message}, status=error.status)


@login_required
@page
def account(request: HttpRequest) -> HttpResponse:
    """The person's own name, language, colours and sessions."""
    user = person(request)
    form = ProfileForm(
        request.POST or None,
        initial={
            "display_name": user.display_name,
            "language": user.language,
            "theme": user.theme,
        },
    )
    if (
        request.method == "POST"
        and form.is_valid()
        and tried(form, lambda: people.update_profile(user=user, **form.cleaned_data))
    ):
        with override(user.language):
            messages.success(request, _("Saved."))
        return accounts.speak(redirect("workspace:account"), user)
    return render(
        request,
        "workspace/account.html",
        {"form": form, "sessions": UserSession.objects.purge_and_list(user)},
        status=400 if form.errors else 200,
    )


@login_required
@require_POST
def end_session(request: HttpRequest, pk: int) -> HttpResponse:
    """Sign out one of the person's own sessions, on whatever device it is."""
    user = person(request)
    session = UserSession.objects.filter(user=user, pk=pk).first()
    if session is None:
        raise NotVisible(_("That session has ended already."))
    accounts.end_sessions(user, [session])
    return redirect("workspace:account")


@login_required
@require_POST
def end_other_sessions(request: HttpRequest) -> HttpResponse:
    user = person(request)
    others = UserSession.objects.filter(user=user).exclude(
        session_key=request.session.session_key
    )
    accounts.end_sessions(user, list(others))
    return redirect("workspace:account")
