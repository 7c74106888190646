"""How HTTP requests reach Django's synchronous views."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.http import FileResponse
from django.urls import set_script_prefix

Application = Callable[[Any, Any, Any], Awaitable[None]]


class PooledApplication(ASGIHandler):
    """Django, each request on a thread that outlives it, in one go.

    Django starts a thread for every request, which opens its database connection
    anew, and changes between thread and event loop at each border of synchronous and
    asynchronous code. Every view and middleware here is synchronous: a request borrows
    a thread that has a connection, and comes back with its whole answer. There are as
    many threads as there were requests at the same time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._idle: deque[ThreadPoolExecutor] = deque()
        self.load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        executor = self._idle.pop() if self._idle else ThreadPoolExecutor(1, "page")
        try:
            async with ThreadSensitiveContext(executor=executor):
                await self._answer(executor, scope, receive, send)
        finally:
            self._idle.append(executor)

    async def _answer(
        self, executor: ThreadPoolExecutor, scope: Any, receive: Any, send: Any
    ) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()

        def in_thread(work: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
            return loop.run_in_executor(executor, context.run, work, *arguments)

        try:
            response = await in_thread(self._respond, scope, body)
            if response.streaming:
                await self._stream(response, receive, send)
                await in_thread(response.close)
            else:
                await self.send_response(response, send)
        finally:
            body.close()

    def _respond(self, scope: Any, body: Any) -> Any:
        """The answer; closed already, with what follows a request, unless it streams."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        response: Any
        request, response = self.create_request(scope, body)
        if request is not None:
            response = self.get_response(request)
        response._handler_class = self.__class__
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            response.close()
        return response

    async def _stream(self, response: Any, receive: Any, send: Any) -> None:
        """Send piece by piece, until the end or until nobody listens."""
        sending = asyncio.ensure_future(self.send_response(response, send))
        listening = asyncio.ensure_future(receive())
        await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
        for task in (sending, listening):
            task.cancel()
        await asyncio.wait({sending, listening})
        if not sending.cancelled():
            sending.result()  # raises what went wrong in it


def mounted(
    prefixes: Mapping[str, Application], *, otherwise: Application
) -> Application:
    """An application that sends each path to the one mounted at its first part."""

    async def route(scope: Any, receive: Any, send: Any) -> None:
        first = "/" + scope["path"].lstrip("/").split("/", 1)[0]
        await prefixes.get(first, otherwise)(scope, receive, send)

    return route
