"""Fixtures of the whole suite: the cast, and no network. See also session.py."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class NetworkClosed(AssertionError):
    """A test tried to reach another machine."""


def is_local(address: Any) -> bool:
    if not isinstance(address, tuple):
        return True  # a unix socket
    host = str(address[0])
    return host in {"localhost", "::1", "::"} or host.startswith("127.")


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closes the network: every connection must stay on this machine."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(original: Any) -> Any:
        def call(self: socket.socket, address: Any) -> Any:
            if not is_local(address):
                raise NetworkClosed(f"A test tried to connect to {address!r}.")
            return original(self, address)

        return call

    monkeypatch.setattr(socket.socket, "connect", guarded(connect))
    monkeypatch.setattr(socket.socket, "connect_ex", guarded(connect_ex))


@pytest.fixture
def var_dir(settings: Any, tmp_path: Path) -> Path:
    """A var/ of this test alone, which the settings name."""
    folder = tmp_path / "var"
    folder.mkdir(mode=0o700)
    settings.VAR_DIR = folder
    return folder


@pytest.fixture
def real_transactions(transactional_db: None) -> Iterator[None]:
    """Commits that are real, for threads and second connections.

    The flush after the test must delete entries, which the triggers refuse: they
    are dropped for it, and the `post_migrate` it sends installs them again.
    """
    from django.db import connection

    from workspace import triggers

    triggers.install(connection)
    yield
    triggers.drop(connection)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests that need one."""
    from tests.harness.chromium import launched

    with launched() as browser:
        yield browser


# The cast. They come in as everybody does: by the set-up link, or an invitation.
PASSWORD = "a quiet harbour in June"


def join(workspace: Any, owner: Any, role: str) -> Any:
    """A new person with that role, who used an invitation of the owner."""
    from workspace import accounts
    from workspace.actions.people import invite

    token = invite(workspace=workspace, by=owner, role=role).token
    return accounts.join(token=token, username=role, password=PASSWORD).user


@pytest.fixture
def fast_passwords(settings: Any) -> None:
    """Hashes that take no time: the slow ones are Django's to test."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def owner(db: None, var_dir: Path, fast_passwords: None) -> Any:
    """The administrator of the server, who owns the first workspace."""
    from workspace import accounts

    link = accounts.make_setup_link("http://testserver")
    token = link.rstrip("/").rsplit("/", 1)[1]
    user, _ = accounts.accept_setup(token=token, username="owner", password=PASSWORD)
    return user


@pytest.fixture
def workspace(owner: Any) -> Any:
    """The first workspace."""
    return owner.memberships.get().workspace


@pytest.fixture
def admin(workspace: Any, owner: Any) -> Any:
    return join(workspace, owner, "admin")


@pytest.fixture
def member(workspace: Any, owner: Any) -> Any:
    return join(workspace, owner, "member")


@pytest.fixture
def viewer(workspace: Any, owner: Any) -> Any:
    return join(workspace, owner, "viewer")


@pytest.fixture
def outsider(owner: Any) -> Any:
    """Somebody with a workspace of their own, who may know nothing of the first."""
    from django.contrib.auth.models import Permission

    from workspace import accounts
    from workspace.actions.people import create_workspace, invite

    elsewhere = create_workspace(name="Elsewhere", by=owner)
    token = invite(workspace=elsewhere, by=owner, role="owner").token
    user = accounts.join(token=token, username="outsider", password=PASSWORD).user
    user.user_permissions.add(Permission.objects.get(codename="add_workspace"))
    return user
