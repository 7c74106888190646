"""Connections to servers: all of a process's in one thread, shared by its runs.

A connection is opened by the first call that needs it and closed when nobody has used it
for a while; what a server lists is stored each time, so that nothing waits for it. A dead
or silent server costs the call that needs it its time limit, and no turn anything else.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

import httpx
from django.conf import settings
from django.db import close_old_connections
from mcp import ClientSession, McpError, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from agents.interrupts import Interrupt
from agents.mcp import health
from agents.mcp.content import result_of
from agents.mcp.listing import MOST_TOOLS, Listing, listing
from agents.mcp.remote import client_factory
from agents.mcp.stdio import new_log, program
from agents.models import McpServer
from agents.providers.addresses import AddressPolicy, AddressRefused, parse_target
from agents.providers.wire import clean
from agents.sandbox import Limits, Rules, Sandbox, SandboxFailed
from agents.secrets import SecretUnreadable, decrypt
from agents.tools.base import ToolContext, ToolResult

logger = logging.getLogger(__name__)

IDLE_SECONDS = 300.0  # after the last call, until a connection is closed
_PAGES = 50  # of a list of tools, at most
_CLOSE_SECONDS = 5.0
_TEND_SECONDS = 0.2  # between two looks at a connection

GONE = (
    "The server {name} cannot be reached ({why}), so the call may or may not have taken "
    "effect. Check before you repeat it, or go on without it."
)


class Unreachable(Exception):
    """A server cannot be connected to; the message says why, for people."""


@dataclass(frozen=True)
class Way:
    """How to reach a server; its repr shows no secret."""

    id: UUID
    name: str
    transport: str
    command: tuple[str, ...]
    url: str
    connect_seconds: int
    call_seconds: int
    include: frozenset[str]
    exclude: frozenset[str]
    root: Any
    network: bool
    secrets: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, server: McpServer) -> Way:
        """Raises `Unreachable` when its secrets cannot be read."""
        try:
            secrets = json.loads(decrypt(server.secret) or "{}")
        except SecretUnreadable as error:
            raise Unreachable(error.message) from None
        return cls(
            server.pk,
            server.name,
            server.transport,
            tuple(server.command),
            server.url,
            server.connect_seconds,
            server.call_seconds,
            frozenset(server.include_tools),
            frozenset(server.exclude_tools),
            server.workspace.root,
            server.network,
            secrets,
        )

    @property
    def longest(self) -> float:
        """Seconds after which a call is given up, whatever its server does."""
        return self.connect_seconds + self.call_seconds + _CLOSE_SECONDS

    def admits(self, tool: str) -> bool:
        return tool not in self.exclude and (not self.include or tool in self.include)


@dataclass
class Link:
    """An open connection; `ended` is set when it is over, for whatever reason."""

    session: ClientSession
    ended: asyncio.Event
    closing: asyncio.Event
    used_at: float = field(default_factory=time.monotonic)
    calls: int = 0


@asynccontextmanager
async def connected(
    way: Way, on_change: Callable[[], None] = lambda: None
) -> AsyncIterator[tuple[ClientSession, str]]:
    """A session that has been opened, and the server's instructions."""

    async def hear(message: Any) -> None:
        root = getattr(message, "root", None)
        if isinstance(root, types.ToolListChangedNotification):
            on_change()

    async with (
        _streams(way) as (read, write),
        ClientSession(read, write, message_handler=hear) as session,
    ):
        opened = await session.initialize()
        yield session, opened.instructions or ""


@asynccontextmanager
async def _streams(way: Way) -> AsyncIterator[tuple[Any, Any]]:
    if way.transport == McpServer.Transport.STDIO:
        sandbox = Sandbox(
            way.root,
            Interrupt(),
            environment=dict(way.secrets),
            limits=Limits.from_settings(),
            network=Rules.from_settings() if way.network else None,
        )
        async with program(sandbox, list(way.command), new_log()) as streams:
            yield streams
        return
    parse_target(way.url)
    policy = AddressPolicy(frozenset(settings.ALLOWED_PRIVATE_HOSTS))
    make = client_factory(policy)
    if way.transport == McpServer.Transport.SSE:
        async with sse_client(
            way.url, dict(way.secrets), httpx_client_factory=make
        ) as streams:
            yield streams
        return
    async with (
        make(headers=dict(way.secrets)) as client,
        streamable_http_client(way.url, http_client=client) as (read, write, _id),
    ):
        yield read, write


async def listed(session: ClientSession, way: Way, instructions: str) -> Listing:
    """What the server offers, less what its filters take away."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        params = types.PaginatedRequestParams(cursor=cursor)
        page = await session.list_tools(params=params)
        rows += [_row(tool) for tool in page.tools if way.admits(tool.name)]
        cursor = page.nextCursor
        if not cursor or len(rows) > MOST_TOOLS:
            break
    return listing(instructions, rows)


def _row(tool: types.Tool) -> dict[str, Any]:
    hints = tool.annotations.model_dump() if tool.annotations else {}
    return {
        "name": tool.name,
        "description": tool.description or "",
        "schema": tool.inputSchema,
        "hints": hints,
    }


class Connections:
    """The connections of this process. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._links: dict[UUID, Link] = {}
        self._opening: dict[UUID, asyncio.Task[Link]] = {}
        self._keepers: set[asyncio.Task[None]] = set()

    # From other threads

    def call(
        self,
        server_id: UUID,
        tool: str,
        arguments: Mapping[str, Any],
        ctx: ToolContext,
    ) -> ToolResult:
        """Carry one call to its server; see `agents.mcp.calling.Caller`."""
        server = _server(server_id)
        if server is None or server.workspace_id != ctx.workspace_id:
            return ToolResult.failed("server_gone", "This server was removed.")
        try:
            way = Way.of(server)
        except Unreachable as error:
            return ToolResult.failed("server_gone", str(error))
        future = self._submit(self._call(way, tool, dict(arguments)))
        with ctx.interrupt.on_stop(lambda: _cancel(future)):
            try:
                result: ToolResult = future.result(way.longest)
                return result
            except concurrent.futures.CancelledError:
                ctx.interrupt.check()
                raise
            except concurrent.futures.TimeoutError:
                future.cancel()
                return _silent(way)

    def look(self, server: McpServer) -> Listing:
        """Connect, list and close: for a person who tries a server.

        Raises `Unreachable` with the reason.
        """
        way = Way.of(server)
        future = self._submit(self._look(way))
        try:
            found: Listing = future.result(way.connect_seconds + _CLOSE_SECONDS)
            return found
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise Unreachable(
                f"it did not answer within {way.connect_seconds} seconds"
            ) from None

    def drop(self, server_id: UUID) -> None:
        """Close the connection, if there is one."""
        self._submit(self._drop(server_id)).result(_CLOSE_SECONDS)

    def close(self) -> None:
        """Close all of them, at the end of the process or of a test."""
        if self._loop is None:
            return
        for server_id in list(self._links):
            self.drop(server_id)

    def is_open(self, server_id: UUID) -> bool:
        return server_id in self._links

    def _submit(self, work: Any) -> concurrent.futures.Future[Any]:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="servers", daemon=True
                ).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # In the loop's thread

    async def _call(self, way: Way, tool: str, arguments: dict[str, Any]) -> ToolResult:
        try:
            link = await self._link(way)
        except Unreachable as error:
            await _stored(health.failed, way.id, str(error))
            return ToolResult.failed(
                "server_gone",
                f"The server {way.name} cannot be reached ({error}), so nothing was "
                "called. Go on without it, or try again later.",
            )
        link.calls += 1
        try:
            return await self._asked(link, way, tool, arguments)
        finally:
            link.calls -= 1
            link.used_at = time.monotonic()

    async def _asked(
        self, link: Link, way: Way, tool: str, arguments: dict[str, Any]
    ) -> ToolResult:
        """One request over an open connection, or its end while it waits."""
        number = link.session._request_id
        limit = timedelta(seconds=way.call_seconds)
        answer = asyncio.ensure_future(link.session.call_tool(tool, arguments, limit))
        over = asyncio.ensure_future(link.ended.wait())
        try:
            await asyncio.wait({answer, over}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return result_of(answer.result())
            return _gone(way, "its connection ended")
        except McpError as error:
            if error.error.code == httpx.codes.REQUEST_TIMEOUT:
                return _silent(way)
            if error.error.code == types.CONNECTION_CLOSED:
                link.closing.set()
                return _gone(way, "its connection ended")
            return ToolResult.failed("server_error", clean(error.error.message))
        except asyncio.CancelledError:
            await _take_back(link.session, number)
            raise
        except Exception as error:  # noqa: BLE001 - whatever a transport raises, it is over
            link.closing.set()
            return _gone(way, _said(error))
        finally:
            answer.cancel()
            over.cancel()

    async def _link(self, way: Way) -> Link:
        """The open connection, or a new one; callers that come together share it."""
        link = self._links.get(way.id)
        if link is not None and not link.ended.is_set() and not link.closing.is_set():
            return link
        task = self._opening.get(way.id)
        if task is None:
            task = asyncio.ensure_future(self._open(way))
            self._opening[way.id] = task
            task.add_done_callback(lambda _: self._opening.pop(way.id, None))
        return await asyncio.shield(task)

    async def _open(self, way: Way) -> Link:
        ready: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        keeper = asyncio.ensure_future(self._keep(way, ready))
        self._keepers.add(keeper)
        keeper.add_done_callback(self._keepers.discard)
        try:
            return await asyncio.wait_for(asyncio.shield(ready), way.connect_seconds)
        except TimeoutError:
            keeper.cancel()
            raise Unreachable(
                f"it did not answer within {way.connect_seconds} seconds"
            ) from None

    async def _keep(self, way: Way, ready: asyncio.Future[Link]) -> None:
        """Hold a connection open: contexts must be left by the task that entered them."""
        changed, closing, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        try:
            async with connected(way, changed.set) as (session, instructions):
                found = await listed(session, way, instructions)
                await _stored(health.listed, way.id, found)
                link = Link(session, ended, closing)
                self._links[way.id] = link
                ready.set_result(link)
                await self._tend(link, way, instructions, changed)
        except asyncio.CancelledError:
            raise
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - as above
            if ready.done():
                logger.info("The connection to %s ended: %s", way.name, _said(error))
            else:
                ready.set_exception(Unreachable(_said(error)))
        finally:
            ended.set()
            if (known := self._links.get(way.id)) and known.ended is ended:
                del self._links[way.id]

    async def _tend(
        self, link: Link, way: Way, instructions: str, changed: asyncio.Event
    ) -> None:
        """Until the connection is idle, closed or dead; lists anew what has changed."""
        while not link.closing.is_set():
            if changed.is_set():
                changed.clear()
                async with asyncio.timeout(way.connect_seconds):
                    found = await listed(link.session, way, instructions)
                await _stored(health.listed, way.id, found)
            idle = time.monotonic() - link.used_at
            if not link.calls and idle > IDLE_SECONDS:
                return
            # Even when there is news: a server may tell of changes without end.
            await asyncio.sleep(_TEND_SECONDS)
            if link.session._read_stream.statistics().open_send_streams == 0:
                return

    async def _look(self, way: Way) -> Listing:
        try:
            async with asyncio.timeout(way.connect_seconds):
                async with connected(way) as (session, instructions):
                    return await listed(session, way, instructions)
        except TimeoutError:
            raise Unreachable(
                f"it did not answer within {way.connect_seconds} seconds"
            ) from None
        except Exception as error:  # noqa: BLE001 - as above
            raise Unreachable(_said(error)) from None

    async def _drop(self, server_id: UUID) -> None:
        link = self._links.get(server_id)
        if link is not None:
            link.closing.set()
            await asyncio.wait_for(link.ended.wait(), _CLOSE_SECONDS)


@cache
def shared() -> Connections:
    """Those of this process."""
    return Connections()


def _cancel(future: concurrent.futures.Future[Any]) -> None:
    future.cancel()


def _server(server_id: UUID) -> McpServer | None:
    rows = McpServer.objects.select_related("workspace")
    return rows.filter(pk=server_id, deleted_at=None).first()


async def _stored(store: Callable[..., None], *arguments: Any) -> None:
    """Write to the database from a thread that may wait for it."""

    def write() -> None:
        close_old_connections()
        try:
            store(*arguments)
        finally:
            close_old_connections()

    await asyncio.to_thread(write)


async def _take_back(session: ClientSession, number: int) -> None:
    """Tell the server that nobody waits for the answer any more."""
    params = types.CancelledNotificationParams(requestId=number, reason="stopped")
    note = types.CancelledNotification(params=params)
    try:
        async with asyncio.timeout(1):
            await session.send_notification(types.ClientNotification(note))
    except Exception:
        logger.debug("A call could not be taken back", exc_info=True)


def _gone(way: Way, why: str) -> ToolResult:
    return ToolResult.failed("server_gone", GONE.format(name=way.name, why=why))


def _silent(way: Way) -> ToolResult:
    return ToolResult.failed(
        "timeout",
        f"The server {way.name} did not answer within {way.call_seconds} seconds. The "
        "call may or may not have taken effect; check before you repeat it.",
    )


def _said(error: BaseException) -> str:
    """A sentence's worth of why: the innermost error of a group."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answered with status {error.response.status_code}"
    if isinstance(error, McpError):
        return error.error.message[:300]
    known = (AddressRefused, SandboxFailed, Unreachable, httpx.HTTPError, OSError)
    text = str(error).strip() if isinstance(error, known) else ""
    return text[:300] or "it ended the connection"
