"""A server that is reached over HTTP: only where the address rules lead.

A host is resolved and every address it has checked when a connection is opened, and the
connection goes to exactly those: a name that changes its mind gains nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from agents.providers.addresses import AddressPolicy, AddressRefused, resolve

LARGEST_ANSWER_SECONDS = 300.0  # of silence in one stream


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections to checked addresses only."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            found = await asyncio.to_thread(resolve, host, port, self._policy)
        except AddressRefused as error:
            raise httpcore.ConnectError(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(f"{host!r} is not known: {error}") from error
        last: Exception | None = None
        for address, number in found:
            try:
                return await self._inner.connect_tcp(
                    address, number, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
        raise last or httpcore.ConnectError(f"{host!r} has no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("Sockets of this machine are not reached.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class GuardedTransport(httpx.AsyncHTTPTransport):
    """httpx's own, on the backend above; proxies of the environment are not asked."""

    def __init__(self, policy: AddressPolicy) -> None:
        super().__init__(trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(trust_env=False),
            max_connections=20,
            keepalive_expiry=45.0,
            network_backend=GuardedBackend(policy),
        )


def client_factory(policy: AddressPolicy) -> Any:
    """What the SDK makes its clients with."""

    def make(
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=headers,
            timeout=timeout or httpx.Timeout(30.0, read=LARGEST_ANSWER_SECONDS),
            auth=auth,
            transport=GuardedTransport(policy),
            trust_env=False,
        )

    return make
