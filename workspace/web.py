"""How HTTP requests reach Django's synchronous views."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.core.handlers.asgi import ASGIHandler

Application = Callable[[Any, Any, Any], Awaitable[None]]


class PooledApplication(ASGIHandler):
    """Django, each request on a thread that outlives it.

    Django starts a thread for every request, which opens its database connection
    anew. Here a request borrows a thread that has one already; there are as many
    threads as there were requests at the same time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._idle: deque[ThreadPoolExecutor] = deque()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        executor = self._idle.pop() if self._idle else ThreadPoolExecutor(1, "page")
        try:
            async with ThreadSensitiveContext(executor=executor):
                await super().__call__(scope, receive, send)
        finally:
            self._idle.append(executor)


def mounted(
    prefixes: Mapping[str, Application], *, otherwise: Application
) -> Application:
    """An application that sends each path to the one mounted at its first part."""

    async def route(scope: Any, receive: Any, send: Any) -> None:
        first = "/" + scope["path"].lstrip("/").split("/", 1)[0]
        await prefixes.get(first, otherwise)(scope, receive, send)

    return route
