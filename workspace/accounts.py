"""Accounts: who may sign up, and the links that make one.

By default an account comes only from a link: the set-up link makes the first
administrator, an invitation makes a member. `SIGN_UP=open` lets anybody in, to no
workspace at all until they are invited to one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from workspace.actions import people
from workspace.errors import ActionError, BadInput, Conflict, Gone, NotVisible
from workspace.models import Invitation, Membership, Role, User, Workspace

SETUP_HOURS = 24
#: Where the session keeps the invitation of somebody who is about to sign in.
INVITATION_KEY = "invitation_token"


class AccountAdapter(DefaultAccountAdapter):
    """allauth's questions, answered for this product."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Open by setting; else only to somebody who came by a living invitation."""
        if settings.SIGN_UP == "open":
            return True
        token = request.session.get(INVITATION_KEY, "")
        try:
            people.find_invitation(token)
        except ActionError:
            return False
        return True

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        if token := request.session.get(INVITATION_KEY):
            return reverse("workspace:invitation", args=[token])
        return reverse("workspace:home")

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("workspace:account")

    def is_safe_url(self, url: str | None) -> bool:
        """Only addresses of the host that was asked, also where several are served."""
        return url_has_allowed_host_and_scheme(
            url, {self.request.get_host()}, require_https=self.request.is_secure()
        )

    def format_email_subject(self, subject: str) -> str:
        return f"[{settings.PRODUCT_NAME}] {subject}"

    def post_login(
        self, request: HttpRequest, user: User, **details: Any
    ) -> HttpResponse:
        """Where to go next, in the person's own language."""
        response: HttpResponse = super().post_login(request, user, **details)
        return speak(response, user)

    def new_user(self, request: HttpRequest) -> User:
        return User(language=known_language(get_language()))


def known_language(code: str | None) -> str:
    """The offered language nearest to the code; English for all others."""
    base = (code or "").split("-")[0]
    return base if base in dict(settings.LANGUAGES) else "en"


def speak(response: HttpResponse, user: User) -> HttpResponse:
    """The response, and from now on pages in the person's language."""
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        user.language,
        max_age=365 * 86_400,  # seconds
        secure=settings.SESSION_COOKIE_SECURE,
        samesite="Lax",
    )
    return response


def end_sessions(user: User, sessions: Iterable[UserSession]) -> None:
    """Sign the person out there, and close the sockets those sessions opened."""
    for session in sessions:
        session.end()
    people.close_sockets(user.pk)


def administrator_exists() -> bool:
    return User.objects.filter(is_superuser=True, is_active=True).exists()


@transaction.atomic
def make_setup_link(base_url: str) -> str:
    """The address that makes the first administrator, once, within a day.

    Links made before stop working. Raises Conflict once there is an administrator.
    """
    if administrator_exists():
        raise Conflict(
            _("This server has an administrator already. Sign in at %(url)s instead.")
            % {"url": base_url}
        )
    _open_setups().update(revoked_at=timezone.now())
    token = secrets.token_urlsafe(32)
    Invitation.objects.create(
        role=Role.OWNER,
        token_digest=people.token_digest(token),
        expires_at=timezone.now() + timedelta(hours=SETUP_HOURS),
    )
    return base_url.rstrip("/") + reverse("workspace:setup", args=[token])


def find_setup(token: str) -> Invitation:
    """The open set-up link; says what to do if it is no longer one."""
    link = Invitation.objects.filter(
        workspace=None, token_digest=people.token_digest(token)
    ).first()
    if link is None:
        raise NotVisible(
            _(
                "No set-up link is like this. Copy the whole line that the server "
                "printed at its start."
            )
        )
    if link.accepted_at or administrator_exists():
        raise Gone(
            _(
                "This set-up link was used: the server has its administrator. If that "
                "is you, sign in; if not, ask the operator who it is."
            )
        )
    if link.revoked_at or link.expires_at <= timezone.now():
        raise Gone(
            _(
                "This set-up link is too old. Run “manage.py setup_link” on the "
                "server: it prints a new one while there is no administrator."
            )
        )
    return link


def accept_setup(
    *, token: str, username: str, password: str, display_name: str = "", email: str = ""
) -> tuple[User, Workspace]:
    """Make the administrator, who owns the first workspace.

    The first workspace's row is the lock: of two people with links, one is too late.
    """
    first = people.seed()
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=first.pk)
        link = find_setup(token)
        user = _store_user(
            username=username, password=password, display_name=display_name, email=email
        )
        user.is_staff = user.is_superuser = True
        user.save(update_fields=["is_staff", "is_superuser"])
        if not people.claim(link, user):
            raise Gone(_("Somebody else used this set-up link a moment ago."))
        Membership.objects.create(workspace=first, user=user, role=Role.OWNER)
    return user, first


@transaction.atomic
def join(
    *, token: str, username: str, password: str, display_name: str = "", email: str = ""
) -> Membership:
    """Make an account and use the invitation with it, both or neither."""
    invitation = people.find_invitation(token)
    user = _store_user(
        username=username,
        password=password,
        display_name=display_name,
        email=invitation.email or email,
    )
    return people.accept_invitation(token=token, user=user)


def _store_user(*, username: str, password: str, display_name: str, email: str) -> User:
    username = username.strip()
    email = people.clean_email(email)
    user = User(
        username=username,
        email=email,
        display_name=people.clean_name(display_name) if display_name.strip() else "",
        language=known_language(get_language()),
    )
    _refuse_taken(username, email)
    try:
        user.clean_fields(exclude=["password"])
        validate_password(password, user)
    except ValidationError as error:
        raise BadInput(" ".join(error.messages)) from None
    user.set_password(password)
    user.save()
    if email:
        EmailAddress.objects.create(user=user, email=email, primary=True)
    return user


def _refuse_taken(username: str, email: str) -> None:
    if User.objects.filter(username__iexact=username).exists():
        raise BadInput(
            _("The username %(name)s is taken; choose another one.")
            % {"name": repr(username)}
        )
    if email and User.objects.filter(email__iexact=email).exists():
        raise BadInput(
            _("An account with %(email)s exists; sign in with it instead.")
            % {"email": email}
        )


def _open_setups() -> QuerySet[Invitation]:
    return Invitation.objects.filter(workspace=None, accepted_at=None, revoked_at=None)
