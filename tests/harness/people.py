"""People of a running installation, as the server meets them: over HTTP.

Imported only after `installation.set_up_django`.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from importlib import import_module
from uuid import uuid4

import httpx
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

from agents import actions, mode_actions
from tests.harness.installation import Installation
from workspace import accounts
from workspace.actions.people import invite
from workspace.models import Conversation, User, Workspace

CSRF = "c" * 32
PASSWORD = "a quiet harbour in June"


@dataclass
class Person:
    """Somebody signed in, with a client that keeps its connections."""

    user: User
    workspace: Workspace
    origin: str
    cookie: str = ""
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.cookie = f"{settings.SESSION_COOKIE_NAME}={session_of(self.user)}"
        self.client = httpx.Client(
            base_url=self.origin, headers=self.headers, timeout=30
        )

    @property
    def headers(self) -> dict[str, str]:
        return {
            "Cookie": f"{self.cookie}; {settings.CSRF_COOKIE_NAME}={CSRF}",
            "X-CSRFToken": CSRF,
            "Accept": "application/json",
        }

    def converse(self, title: str = "", level: str = "auto") -> Conversation:
        """A new conversation of theirs, where tools run without being asked."""
        conversation = actions.start_conversation(
            workspace=self.workspace, author=self.user, title=title
        )
        mode_actions.set_level(conversation=conversation, user=self.user, level=level)
        return conversation

    def path(self, conversation: Conversation, rest: str = "") -> str:
        return f"/w/{self.workspace.slug}/c/{conversation.pk}/{rest}"

    def post(
        self, conversation: Conversation, text: str, client_id: str = ""
    ) -> httpx.Response:
        """One try."""
        data = {"text": text, "client_id": client_id or str(uuid4())}
        return self.client.post(self.path(conversation, "messages"), data=data)

    def say(
        self, conversation: Conversation, text: str, client_id: str = ""
    ) -> httpx.Response:
        """As the page does it: the same message again until it is accepted."""
        client_id = client_id or str(uuid4())
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = self.post(conversation, text, client_id)
                if answer.status_code < 500:
                    return answer.raise_for_status()
            if time.monotonic() > deadline:
                raise TimeoutError(f"Nobody accepted {text[:60]!r}.")
            time.sleep(0.1)

    def stop(self, conversation: Conversation) -> httpx.Response:
        return self.client.post(self.path(conversation, "stop"), data={})


def session_of(user: User) -> str:
    """A session as signing in makes it."""
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return str(store.session_key)


def first_person(installation: Installation) -> Person:
    """The administrator, made with the printed link."""
    token = installation.setup_link.rstrip("/").rsplit("/", 1)[1]
    user, workspace = accounts.accept_setup(
        token=token, username="owner", password=PASSWORD
    )
    return Person(user, workspace, installation.origin)


def more_people(owner: Person, count: int, prefix: str) -> list[Person]:
    """New members of the owner's workspace. Their passwords hash quickly."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    people = []
    for number in range(count):
        token = invite(workspace=owner.workspace, by=owner.user, role="member").token
        member = accounts.join(
            token=token, username=f"{prefix}{number}", password=PASSWORD
        )
        people.append(Person(member.user, owner.workspace, owner.origin))
    return people
