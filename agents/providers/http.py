"""One POST whose answer streams in: what every adapter shares.

Faults leave here as our errors, as sentences that name the endpoint and never its key.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from agents.errors import ProviderError, ProviderRejected, ProviderUnavailable
from agents.interrupts import Interrupt
from agents.providers.addresses import AddressPolicy, AddressRefused, parse_target
from agents.providers.faults import fault_in_stream, redact, refusal
from agents.providers.sse import EventStream, EventTooLarge, parse_json
from agents.providers.transport import Line, StreamTransport

_FAREWELL = 1.0  # seconds for a service to end its answer after it said [DONE]
_MAX_REFUSAL = 64 * 1024  # bytes of an error answer that are read


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, to the first byte of the answer, between later bytes."""

    connect: float = 10.0
    first_byte: float = 120.0
    idle: float = 60.0


@dataclass(frozen=True, slots=True)
class Service:
    """Where a model API is and how it lets us in. Secrets stay out of the repr."""

    name: str
    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    timeouts: Timeouts = Timeouts()
    address_policy: AddressPolicy = AddressPolicy()


class Caller:
    """Sends requests to one service over kept-alive connections; thread-safe."""

    def __init__(
        self, service: Service, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.service = service
        self._transport = transport
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def warm(self) -> None:
        """Open a connection ahead of the first request; failures show up there."""
        with suppress(ProviderError), _as_our_errors(self.service):
            self._open_client()
            if isinstance(self._transport, StreamTransport):
                self._transport.warm(self.service.timeouts.connect)

    def events(self, path: str, body: bytes, interrupt: Interrupt) -> Iterator[bytes]:
        """POST `body` and yield each event's data as it arrives.

        A service that answers with plain JSON instead of a stream gives one event.
        Raises a `ProviderError`, or the interrupt's reason.
        """
        line = Line()
        with interrupt.on_stop(line.cut):
            try:
                with _as_our_errors(self.service):
                    yield from self._receive(path, body, line)
            except ProviderError:
                interrupt.check()  # cutting the line looks like a fault of the service
                raise
            interrupt.check()

    def parse(self, data: bytes) -> dict[str, Any]:
        """One event's JSON; raises a `ProviderError` if it is broken or says so."""
        service = self.service
        try:
            event = parse_json(data)
        except ValueError as error:
            raise ProviderUnavailable(
                f"{service.name} sent a broken event: the answer was cut."
            ) from error
        if not isinstance(event, dict):
            return {}
        if event.get("error"):
            raise fault_in_stream(service.name, event["error"], service.secrets)
        return event

    def get_json(self, path: str) -> bytes:
        """The body of a GET, for the endpoint test; raises a `ProviderError`."""
        line = Line()
        with _as_our_errors(self.service):
            client = self._open_client()
            with client.stream("GET", path, extensions={"line": line}) as response:
                self._refuse_unless_good(response)
                return _read_some(response, 16 * 1024 * 1024)

    def _receive(self, path: str, body: bytes, line: Line) -> Iterator[bytes]:
        client = self._open_client()
        with client.stream(
            "POST", path, content=body, extensions={"line": line}
        ) as response:
            self._refuse_unless_good(response)
            if "json" in response.headers.get("content-type", ""):
                yield _read_some(response, 32 * 1024 * 1024)
                return
            yield from self._cut_events(response, line)

    def _cut_events(self, response: httpx.Response, line: Line) -> Iterator[bytes]:
        stream = EventStream()
        is_first = True
        for chunk in response.iter_bytes():
            if is_first:
                line.patience(self.service.timeouts.idle)
                is_first = False
            events = stream.feed(chunk)
            yield from events
            if events and events[-1] == b"[DONE]":
                line.patience(_FAREWELL)
        if not line.is_cut:
            yield from stream.close()

    def _refuse_unless_good(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        try:
            body = _read_some(response, _MAX_REFUSAL)
        except httpx.TransportError:
            body = b""
        service = self.service
        raise refusal(
            service.name, response.status_code, response.headers, body, service.secrets
        )

    def _open_client(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                self._client = self._make_client(self._open_transport())
            return self._client

    def _open_transport(self) -> httpx.BaseTransport:
        if self._transport is None:
            self._transport = StreamTransport(
                parse_target(self.service.base_url), self.service.address_policy
            )
        return self._transport

    def _make_client(self, transport: httpx.BaseTransport) -> httpx.Client:
        timeouts = self.service.timeouts
        client = httpx.Client(
            base_url=self.service.base_url,
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(timeouts.first_byte, connect=timeouts.connect),
        )
        client.headers = httpx.Headers(
            {
                "Accept": "text/event-stream, application/json",
                "Accept-Encoding": "identity",
                "Content-Type": "application/json",
                "User-Agent": "Tallyroom",
                **self.service.headers,
            }
        )
        return client


def _read_some(response: httpx.Response, limit: int) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > limit:
            break
    return bytes(body[:limit])


@contextmanager
def _as_our_errors(service: Service) -> Iterator[None]:
    """Turn httpx's errors into ours."""
    name, timeouts = service.name, service.timeouts
    try:
        yield
    except (httpx.UnsupportedProtocol, AddressRefused) as error:
        raise ProviderRejected(f"{name} cannot be contacted: {error}") from error
    except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError) as error:
        raise ProviderRejected(
            f"{name} has an address, key or header that cannot be sent. Enter it again "
            "in the endpoint's settings, without spaces or line breaks."
        ) from error
    except httpx.ConnectTimeout as error:
        raise ProviderUnavailable(
            f"{name} did not accept a connection within {timeouts.connect:g} seconds."
        ) from error
    except httpx.ConnectError as error:
        why = redact(str(error), service.secrets)
        raise ProviderUnavailable(f"{name} cannot be reached: {why}.") from error
    except httpx.TimeoutException as error:
        raise ProviderUnavailable(
            f"{name} stayed silent for too long: {timeouts.first_byte:g} seconds to "
            f"the first byte and {timeouts.idle:g} seconds later on are allowed."
        ) from error
    except (httpx.TransportError, httpx.StreamError) as error:
        raise ProviderUnavailable(
            f"{name} closed the connection before the answer was complete."
        ) from error
    except EventTooLarge as error:
        raise ProviderRejected(
            f"{name} sends an event without end. It does not speak this API."
        ) from error
