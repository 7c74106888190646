"""What every socket of the site does: who is it, may they, are they keeping up.

A socket joins groups and forwards what is pushed to them; it decides nothing. Database
work runs on a few threads of its own, never on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson
from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import (
    BACKEND_SESSION_KEY,
    HASH_SESSION_KEY,
    SESSION_KEY,
)
from django.db import close_old_connections
from django.http import parse_cookie
from django.utils.crypto import constant_time_compare

from workspace.errors import ActionError, NotVisible
from workspace.live import user_group
from workspace.models import User

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: Close codes; 4000 + the HTTP status that a page would answer with.
NOT_VISIBLE, REVOKED, TOO_LARGE, TOO_FAST, TOO_SLOW = 4404, 4403, 4413, 4429, 4408
#: Bytes of a message from the browser; it only asks and says that someone types.
LARGEST_MESSAGE = 4096
#: Messages that a browser may send at once, and per second.
BURST, PER_SECOND = 30, 5.0
#: Bytes between two requests for a receipt, and unreceipted ones that end the socket.
RECEIPT_BYTES, MOST_UNREAD = 128 * 1024, 4 * 1024 * 1024
#: Seconds between two checks that the right still holds, should a push be lost.
RECHECK_SECONDS = 20.0

_pool = ThreadPoolExecutor(8, "socket")


async def in_pool(work: Callable[[], T]) -> T:
    """Run database work on the sockets' own threads."""

    def with_fresh_connection() -> T:
        close_old_connections()
        try:
            return work()
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(
        _pool, with_fresh_connection
    )


def signed_in(session_key: str) -> User:
    """The person whose session this is. Raises NotVisible for anyone else."""
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    if store.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        raise NotVisible
    user = User.objects.filter(
        pk=store.get(SESSION_KEY), is_active=True, deleted_at=None
    ).first()
    stored = store.get(HASH_SESSION_KEY, "")
    if user is None or not constant_time_compare(stored, user.get_session_auth_hash()):
        raise NotVisible
    return user


def same_origin(headers: dict[bytes, bytes]) -> bool:
    """False for a page of another site that uses its visitor's cookies."""
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    return bool(origin) and urlsplit(origin).netloc == headers.get(b"host", b"").decode(
        "latin-1"
    )


class Allowance:
    """How many messages may still come: a bucket that refills."""

    def __init__(self) -> None:
        self._left, self._at = float(BURST), time.monotonic()

    def spend(self) -> bool:
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        self._left -= 1
        return self._left >= 0


class Socket(AsyncWebsocketConsumer):
    """A signed-in person's socket. Subclasses say what may be seen and what is told.

    `open` runs on a database thread: it returns the groups to join or raises
    NotVisible. It is asked again with each message and every 20 seconds, so that a
    right that was taken away ends the socket.
    """

    user: User

    def open(self) -> list[str]:
        raise NotImplementedError

    async def heard(self, message: dict[str, Any]) -> None:
        """A message from the browser, its right checked already."""

    async def greeted(self) -> None:
        """The socket is open and joined."""

    async def left(self) -> None:
        """The socket is closed."""

    async def dispatch(self, message: dict[str, Any]) -> None:
        """As Channels does, but without its look at the database's connections.

        That costs a change of threads per message; `in_pool` does it where it matters.
        """
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        self.groups_joined: list[str] = []
        self._allowance = Allowance()
        self._sent = self._asked = self._read = 0
        self._watch: asyncio.Task[None] | None = None
        if not same_origin(dict(self.scope["headers"])):
            await self.close(REVOKED)
            return
        try:
            groups = await in_pool(self._open)
        except ActionError:
            await self.close(NOT_VISIBLE)
            return
        for group in [user_group(self.user.pk), *groups]:
            await self.channel_layer.group_add(group, self.channel_name)
            self.groups_joined.append(group)
        await self.accept()
        self._watch = asyncio.create_task(self._keep_checking())
        await self.greeted()

    def _open(self) -> list[str]:
        self.user = signed_in(self._session_key())
        return self.open()

    def _session_key(self) -> str:
        cookies = dict(self.scope["headers"]).get(b"cookie", b"").decode("latin-1")
        key = parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME)
        if not key:
            raise NotVisible
        return key

    async def disconnect(self, code: int) -> None:
        if self._watch is not None:
            self._watch.cancel()
        for group in self.groups_joined:
            with contextlib.suppress(OSError):
                await self.channel_layer.group_discard(group, self.channel_name)
        if self.groups_joined:
            await self.left()

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            if not await self.still_allowed():
                return

    async def still_allowed(self) -> bool:
        """Ask again; closes the socket when the right is gone."""
        try:
            await in_pool(self._open)
        except ActionError:
            await self.close(REVOKED)
            return False
        return True

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None
    ) -> None:
        if bytes_data is not None or len(text_data or "") > LARGEST_MESSAGE:
            await self.close(TOO_LARGE)
            return
        if not self._allowance.spend():
            await self.close(TOO_FAST)
            return
        try:
            message = orjson.loads(text_data or "")
        except orjson.JSONDecodeError:
            message = None
        if not isinstance(message, dict):
            return
        if isinstance(message.get("read"), int):
            self._read = max(self._read, message["read"])
        elif await self.still_allowed():
            await self.heard(message)

    async def tell(self, message: dict[str, Any]) -> None:
        await self.forward(orjson.dumps(message).decode())

    async def forward(self, text: str) -> None:
        """Send on; a browser that does not keep up is dropped and catches up later."""
        self._sent += len(text)
        if self._sent - self._read > MOST_UNREAD:
            await self.close(TOO_SLOW)
            return
        await self.send(text_data=text)
        if self._sent - self._asked >= RECEIPT_BYTES:
            self._asked = self._sent
            await self.send(text_data=f'{{"type":"receipt","sent":{self._sent}}}')

    async def live_push(self, event: dict[str, Any]) -> None:
        """What `live.push` sent to a group of this socket."""
        text: str = event["text"]
        if text.startswith('{"type":"access.revoked"'):
            if await self.still_allowed():
                await self.tell({"type": "access.changed"})
        else:
            await self.forward(text)
