"""People, rows and processes of a running installation, seen from outside.

pytest's own Django stands on another database: everything here goes over HTTP, over
sockets, or reads the installation's file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import UUID, uuid4

import httpx

from tests.harness.installation import (
    ROOT,
    Installation,
    clean_environment,
    wait_until,
)
from tests.harness.sockets import SocketClosed, SocketRefused, WebSocket

PASSWORD = "a quiet harbour in June"
SLUG = "first"
OPEN = ("queued", "running", "waiting")
NEW_LINK = re.compile(r'id="new-link" value="([^"]+)"')


@dataclass(frozen=True)
class Talk:
    """A conversation, with as much of it as viewers ask for."""

    pk: UUID


class Socket(WebSocket):
    """Open for as long as the block lasts."""

    async def __aenter__(self) -> Socket:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.leave()

    async def open(self) -> None:
        try:
            await super().open()
        except SocketRefused:
            await self.leave()
            raise

    async def leave(self) -> None:
        """Go, and let the loop close what it holds before it ends itself."""
        self.abort()
        await asyncio.sleep(0.01)


class Visitor:
    """A browser without a screen: cookies, forms, JSON, sockets."""

    clients: ClassVar[list[httpx.Client]] = []

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.workspace = SimpleNamespace(slug=SLUG)
        self.client = httpx.Client(base_url=origin, timeout=40)
        self.clients.append(self.client)

    def at(self, origin: str) -> Visitor:
        """The same person at another server."""
        other = Visitor(origin)
        other.client.cookies.update(dict(self.client.cookies.items()))
        return other

    @property
    def cookie(self) -> str:
        found = self.client.cookies.items()
        return "; ".join(f"{name}={value}" for name, value in found)

    @property
    def headers(self) -> dict[str, str]:
        return {
            "Cookie": self.cookie,
            "X-CSRFToken": self.client.cookies.get("csrftoken", ""),
            "Accept": "application/json",
        }

    def come_in(self, link: str, username: str, display_name: str = "") -> Visitor:
        """Use a set-up link or an invitation."""
        self.client.get(link).raise_for_status()
        form = {
            "username": username,
            "display_name": display_name,
            "password": PASSWORD,
            "password_again": PASSWORD,
        }
        answer = self.send(link, form)
        assert answer.status_code == 302, answer.text[:2000]
        return self

    def sign_in(self, username: str) -> Visitor:
        """With the password that `come_in` set."""
        self.client.get("/accounts/login/").raise_for_status()
        form = {"login": username, "password": PASSWORD}
        answer = self.client.post(
            "/accounts/login/",
            data=form,
            headers={"X-CSRFToken": self.client.cookies["csrftoken"]},
        )
        assert answer.status_code == 302, answer.text[:2000]
        self.cookies_set = answer.headers.get_list("set-cookie")
        return self

    def send(self, path: str, data: dict[str, Any] | None = None) -> httpx.Response:
        """A form sent by a script; a page of the site that asks for JSON."""
        token = self.client.cookies.get("csrftoken", "")
        headers = {"X-CSRFToken": token, "Accept": "application/json"}
        return self.client.post(path, data=data or {}, headers=headers)

    def page(self, path: str) -> str:
        answer = self.client.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        return answer.text

    def invite(self, username: str, role: str = "member", name: str = "") -> Visitor:
        """A new person with that role."""
        members = f"/w/{SLUG}/settings/members/"
        self.send(members, {"role": role, "email": ""})
        found = NEW_LINK.search(self.page(members))
        assert found, "the page shows the new link"
        return Visitor(self.origin).come_in(found[1], username, name)

    def converse(self, level: str = "") -> Talk:
        answer = self.send(f"/w/{SLUG}/new")
        assert answer.status_code == 302, answer.text[:2000]
        talk = Talk(UUID(answer.headers["location"].rstrip("/").rsplit("/", 1)[1]))
        if level:
            self.send(self.path(talk, "level"), {"level": level}).raise_for_status()
        return talk

    def path(self, talk: Any, rest: str = "") -> str:
        return f"/w/{SLUG}/c/{talk.pk}/{rest}"

    def post(self, talk: Talk, text: str, client_id: str = "") -> httpx.Response:
        data = {"text": text, "client_id": client_id or str(uuid4())}
        return self.send(self.path(talk, "messages"), data)

    def say(self, talk: Talk, text: str) -> dict[str, Any]:
        """Post what must be accepted."""
        answer = self.post(talk, text)
        assert answer.status_code == 200, answer.text[:2000]
        found: dict[str, Any] = answer.json()
        return found

    def entries(self, talk: Talk) -> str:
        return self.page(self.path(talk, "entries?after=0&limit=300"))

    def socket(self, talk: Talk) -> Socket:
        return Socket(self.origin, f"/ws/c/{talk.pk}/", self.cookie)


class Rows:
    """The installation's database, only read."""

    def __init__(self, installation: Installation) -> None:
        self.file = installation.var / "db.sqlite3"

    def all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        uri = f"file:{self.file}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=20)) as connection:
            return connection.execute(sql, values).fetchall()

    def runs(self, talk: Talk) -> list[tuple[str, str, str]]:
        """State, message and id of each run, oldest first."""
        return self.all(
            "SELECT state, message, id FROM agents_run WHERE conversation_id = ?"
            " ORDER BY created_at",
            talk.pk.hex,
        )

    def wait_ended(self, talk: Talk, seconds: float = 60) -> str:
        """The state in which the newest run ended."""

        def ended() -> str | None:
            states = [state for state, _, _ in self.runs(talk)]
            return states[-1] if states and not set(states) & set(OPEN) else None

        return str(wait_until(ended, seconds, "the run ends"))

    def wait_state(self, talk: Talk, state: str, seconds: float = 30) -> str:
        """Wait until the newest run is there; returns its id."""

        def found() -> str | None:
            runs = self.runs(talk)
            return runs[-1][2] if runs and runs[-1][0] == state else None

        return str(UUID(wait_until(found, seconds, f"the run is {state}", 0.02)))

    def bodies(self, talk: Talk, kind: str) -> list[dict[str, Any]]:
        found = self.all(
            "SELECT b.text FROM workspace_entry e JOIN workspace_entrybody b"
            " ON b.entry_id = e.id WHERE e.conversation_id = ? AND e.kind = ?"
            " ORDER BY e.seq",
            talk.pk.hex,
            kind,
        )
        return [json.loads(text) for (text,) in found]


@contextmanager
def beside(
    installation: Installation, *command: str, ready: str = "", **changes: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the same installation, for as long as the block lasts."""
    environment = clean_environment(
        VAR_DIR=str(installation.var),
        SIMULATOR_URL=installation.simulator_url,
        DJANGO_SETTINGS_MODULE="workspace.settings",
        **{**installation.changes, **changes},
    )
    with (installation.folder / f"beside-{uuid4().hex[:6]}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            close_fds=False,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def second_server(
    installation: Installation, *command: str, **changes: str
) -> Iterator[str]:
    """Another web process on the same database and broker; yields its origin."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        listener.set_inheritable(True)
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        started = command or ("-m", "agents.supervisor.web")
        arguments = (*started, str(listener.fileno()), "INET")
        with beside(installation, *arguments, **changes):
            wait_until(lambda: answers(origin), 60, "the second server answers")
            yield origin


@contextmanager
def second_worker(installation: Installation) -> Iterator[str]:
    """Another worker process; yields the name that it writes into its runs."""
    name = f"second-{secrets.token_hex(3)}"
    arguments = ("-m", "agents.supervisor.worker")
    with beside(installation, *arguments, WORKER_NAME=name):
        yield name


def answers(origin: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{origin}/healthz", timeout=5).status_code == 200
    return False


def script(*steps: dict[str, Any], words: str = "") -> str:
    """A message that says what the simulator answers, step by step."""
    return f"{words} [[script: {json.dumps({'steps': steps})} ]]"


def story(tokens: int, pause_ms: int = 30, first_ms: int = 50) -> dict[str, Any]:
    """A step that streams; `told` is what it says."""
    return {
        "text": told(tokens),
        "delays": {"first_ms": first_ms, "token_ms": pause_ms},
    }


def told(tokens: int) -> str:
    return " ".join(f"word{number}" for number in range(tokens))


def shell(command: str, text: str = "Running it.") -> dict[str, Any]:
    call = {"name": "shell", "arguments": {"command": command}}
    return {"text": text, "tool_calls": [call]}


async def frames(socket_: WebSocket, seconds: float, until: str = "") -> list[Any]:
    """What comes within so many seconds, or until a message of this kind came."""
    found: list[Any] = []
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            found.append(await asyncio.wait_for(socket_.receive(), left))
        except TimeoutError:
            break
        if until and found[-1]["type"] == until:
            break
    return found


async def close_code(socket_: WebSocket, seconds: float) -> int:
    """The code with which the server closes. Raises TimeoutError if it does not."""

    async def read() -> int:
        while True:
            try:
                await socket_.receive()
            except SocketClosed as closed:
                return closed.code

    return await asyncio.wait_for(read(), seconds)


def deltas(found: Sequence[dict[str, Any]]) -> str:
    """The text that a socket was told, stream after stream."""
    texts: dict[str, str] = {}
    for message in found:
        if message["type"] == "message.delta" and message["kind"] == "text":
            known = texts.get(message["stream"], "")
            texts[message["stream"]] = known[: message["offset"]] + message["text"]
    return "".join(texts.values())
