"""The one way out of the sandbox: a proxy that reaches public web servers alone.

The namespace of a command stays closed. A socket in its view leads here, into the
worker, for as long as the command runs: names are resolved and checked here, each
connection goes to a checked address, and each request is logged and told.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import selectors
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from django.conf import settings

from agents.providers import addresses
from agents.providers.addresses import AddressPolicy, AddressRefused
from agents.sandbox.asked import CHUNKED, Asked, BadRequest, parse
from agents.sandbox.limits import Visit

logger = logging.getLogger(__name__)

Resolve = Callable[[str, int, AddressPolicy], list[tuple[str, int]]]
_HEAD = 65_536  # bytes of a request before its body
_READ = 65_536  # bytes
_MOST_TOLD = 100  # visits in a result
_MOST_LOGGED = 1000  # visits in the log of the server
_REASONS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}


def resolve_elsewhere(
    host: str, port: int, policy: AddressPolicy
) -> list[tuple[str, int]]:
    """The permitted addresses of a host that is not this machine.

    An administrator may permit private hosts, but nothing makes the server's own
    services reachable from inside: they often trust whoever comes from here.
    """
    found = addresses.resolve(host, port, policy)
    for text, _ in found:
        if is_own(text):
            raise AddressRefused(
                f"{host!r} leads to {text}, this server itself, which commands never "
                "reach. Start what you need inside the sandbox."
            )
    return found


def is_own(text: str) -> bool:
    """Whether the machine has this address; only then can a socket be bound to it."""
    address = ipaddress.ip_address(text.split("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_loopback or address.is_unspecified:
        return True
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((str(address), 0))
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Rules:
    """Where commands may go, how much they may carry and how long they may dawdle.

    `hosts` lists names, or `*.name` for all below it; empty permits every public host.
    """

    hosts: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset({80, 443})
    addresses: AddressPolicy = AddressPolicy()
    traffic: int = 1 << 30  # bytes, both directions of a whole command
    connections: int = 32  # at once
    head_seconds: float = 15.0  # for a client to say what it wants
    connect_seconds: float = 10.0
    idle_seconds: float = 60.0
    resolve: Resolve = resolve_elsewhere

    @classmethod
    def from_settings(cls) -> Rules:
        return cls(
            hosts=frozenset(host.lower() for host in settings.SANDBOX_HOSTS),
            ports=frozenset(settings.SANDBOX_PORTS),
            addresses=AddressPolicy(frozenset(settings.ALLOWED_PRIVATE_HOSTS)),
            traffic=settings.SANDBOX_TRAFFIC_MB << 20,
        )

    def permit(self, host: str, port: int) -> list[tuple[str, int]]:
        """The addresses to connect to; raises `AddressRefused` or `OSError`."""
        listed = f"{host}:{port}" in self.addresses.allow_hosts
        if port not in self.ports and not listed:
            known = ", ".join(map(str, sorted(self.ports)))
            raise AddressRefused(f"Port {port} is not permitted; only {known}.")
        if self.hosts and not self._lists(host):
            raise AddressRefused(
                f"{host!r} is not among the hosts that the operator permits."
            )
        return self.resolve(host, port, self.addresses)

    def _lists(self, host: str) -> bool:
        _, *above = host.split(".")
        wider = {"*." + ".".join(above[at:]) for at in range(len(above))}
        return not self.hosts.isdisjoint({host, *wider})


class _TrafficUsedUp(Exception):
    """The command has carried as much as it may."""


class _Unreachable(Exception):
    """The name is unknown, or no server takes the connection."""


@dataclass(slots=True)
class _Reader:
    """Reads a socket in pieces that end where they should."""

    client: socket.socket
    buffer: bytes = b""

    def until(self, mark: bytes, most: int, seconds: float) -> bytes:
        """What comes before `mark`, which is taken too; raises `BadRequest`."""
        end = time.monotonic() + seconds
        while (at := self.buffer.find(mark)) < 0:
            left = end - time.monotonic()
            if len(self.buffer) > most or left <= 0:
                raise BadRequest("The request is too long or comes too slowly.")
            self.client.settimeout(left)
            with contextlib.suppress(TimeoutError):
                data = self.client.recv(_READ)
                if not data:
                    raise BadRequest("The request ended before it was complete.")
                self.buffer += data
        if at > most:
            raise BadRequest("The request is too long.")
        found, self.buffer = self.buffer[:at], self.buffer[at + len(mark) :]
        return found

    def exactly(self, count: int, seconds: float) -> Iterator[bytes]:
        """The next `count` bytes, piece by piece."""
        self.client.settimeout(seconds)
        while count:
            data = self.buffer[:count] or self.client.recv(min(count, _READ))
            if not data:
                raise BadRequest("The body ended before it was complete.")
            self.buffer = self.buffer[len(data) :]
            count -= len(data)
            yield data


@dataclass(slots=True)
class _Tally:
    """What all connections of a command have carried."""

    most: int
    carried: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, count: int) -> None:
        with self.lock:
            self.carried += count
            if self.carried > self.most:
                raise _TrafficUsedUp(
                    f"This command has carried {self.most >> 20:,} MB over the "
                    "network, which is its limit."
                )


class Egress:
    """A proxy for one command, from `with` to its end; `path` is its socket."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.visits: list[Visit] = []
        self.asked = 0
        self._tally = _Tally(rules.traffic)
        self._slots = threading.BoundedSemaphore(rules.connections)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="tallyroom-egress-"))
        self.path = self.folder / "proxy"
        self._listener = socket.socket(socket.AF_UNIX)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:  # by descriptor: a socket's path is short, the temporary folder's may not
            self._listener.bind(f"/proc/self/fd/{descriptor}/{self.path.name}")
            self._listener.listen(self.rules.connections)
        except OSError:
            self._discard()
            raise
        finally:
            os.close(descriptor)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.asked > _MOST_LOGGED:
            logger.info("A command asked for %d addresses in all", self.asked)
        with self._lock:
            self._closed = True
            for one in (self._listener, *self._open):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._discard()

    def _discard(self) -> None:
        self._listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _accept(self) -> None:
        while not self._closed:
            if not self._slots.acquire(timeout=0.1):
                continue
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed: the command is over
                self._slots.release()
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    @contextlib.contextmanager
    def _keeping(self, one: socket.socket) -> Iterator[None]:
        """Know a socket while it is open, so that the end of the command ends it."""
        with one:
            with self._lock:
                if self._closed:
                    raise ConnectionAbortedError("The command is over.")
                self._open.add(one)
            try:
                yield
            finally:
                with self._lock:
                    self._open.discard(one)

    def _serve(self, client: socket.socket) -> None:
        """One connection is one request; whatever breaks it ends it alone."""
        try:
            with contextlib.suppress(OSError), self._keeping(client):
                self._answer(client)
        finally:
            self._slots.release()

    def _answer(self, client: socket.socket) -> None:
        reader, visit = _Reader(client), self._begin()
        try:
            head = reader.until(b"\r\n\r\n", _HEAD, self.rules.head_seconds)
            asked = parse(head)
            visit.method, visit.host, visit.port = asked.method, asked.host, asked.port
            self._tally.add(0)
            with self._reach(asked) as server:
                self._carry(asked, reader, server, visit)
        except BadRequest as error:
            self._refuse(client, visit, 400, str(error))
        except (AddressRefused, _TrafficUsedUp) as error:
            self._refuse(client, visit, 403, str(error))
        except _Unreachable as error:
            self._refuse(client, visit, 502, str(error))
        except OSError as error:
            # Such as a server that closes before it has read the whole request.
            if not visit.received:
                visit.refused = f"The connection broke off: {error}."
            raise
        finally:
            self._log(visit)

    def _begin(self) -> Visit:
        visit = Visit()
        with self._lock:
            self.asked += 1
            if len(self.visits) < _MOST_TOLD:
                self.visits.append(visit)
        return visit

    def _log(self, visit: Visit) -> None:
        """Where it led, never the whole address: that may hold a secret."""
        if self.asked <= _MOST_LOGGED:
            logger.info(
                "A command asked for %s %s:%s: %s (%d bytes out, %d in)",
                visit.method or "?",
                visit.host,
                visit.port,
                visit.refused or "permitted",
                visit.sent,
                visit.received,
            )

    def _refuse(
        self, client: socket.socket, visit: Visit, status: int, sentence: str
    ) -> None:
        """Say no in HTTP; after data has gone the other way, only the end says it."""
        visit.refused = sentence
        if visit.received:
            return
        body = f"{sentence}\n".encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nConnection: close\r\n"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}"
        )
        client.settimeout(self.rules.head_seconds)
        client.sendall(head.encode() + b"\r\n\r\n" + body)

    @contextlib.contextmanager
    def _reach(self, asked: Asked) -> Iterator[socket.socket]:
        """A connection to the first checked address that takes one."""
        try:
            targets = self.rules.permit(asked.host, asked.port)
            server = self._connect(targets)
        except (OSError, UnicodeError) as error:
            raise _Unreachable(f"{asked.host!r} cannot be reached: {error}.") from error
        with self._keeping(server):
            server.settimeout(self.rules.idle_seconds)
            yield server

    def _connect(self, targets: list[tuple[str, int]]) -> socket.socket:
        failure = OSError("it has no address")
        for target in targets:
            try:
                return socket.create_connection(target, self.rules.connect_seconds)
            except OSError as error:
                failure = error
        raise failure

    def _carry(
        self, asked: Asked, reader: _Reader, server: socket.socket, visit: Visit
    ) -> None:
        client = reader.client
        if asked.method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if reader.buffer:
                self._send(server, reader.buffer, visit)
            self._pump(client, server, visit)
            return
        if asked.expects:
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._send(server, asked.head, visit)
        for piece in self._body(asked, reader):
            self._send(server, piece, visit)
        reader.buffer = b""  # more than one request was asked for: only one is made
        self._pump(client, server, visit, one_way=True)

    def _send(self, server: socket.socket, data: bytes, visit: Visit) -> None:
        self._tally.add(len(data))
        visit.sent += len(data)
        server.sendall(data)

    def _body(self, asked: Asked, reader: _Reader) -> Iterator[bytes]:
        """The body and not a byte more; chunks are measured anew."""
        idle = self.rules.idle_seconds
        if asked.length != CHUNKED:
            yield from reader.exactly(asked.length, idle)
            return
        while size := _chunk_size(reader.until(b"\r\n", 256, idle)):
            yield b"%x\r\n" % size
            yield from reader.exactly(size, idle)
            if reader.until(b"\r\n", 0, idle):
                raise BadRequest("A chunk is longer than it says.")
            yield b"\r\n"
        while reader.until(b"\r\n", 8192, idle):  # trailers are not passed on
            pass
        yield b"0\r\n\r\n"

    def _pump(
        self,
        client: socket.socket,
        server: socket.socket,
        visit: Visit,
        *,
        one_way: bool = False,
    ) -> None:
        """Pass bytes on until both sides have ended, or one side if only it speaks."""
        client.settimeout(self.rules.idle_seconds)
        with selectors.DefaultSelector() as selector:
            selector.register(server, selectors.EVENT_READ, client)
            selector.register(client, selectors.EVENT_READ, server)
            while selector.get_map():
                ready = selector.select(self.rules.idle_seconds)
                if not ready:
                    return
                for key, _ in ready:
                    source = server if key.fd == server.fileno() else client
                    data = source.recv(_READ)
                    if data and one_way and source is client:
                        continue  # a second request on the same connection
                    if data:
                        self._pass(data, key.data, visit, from_server=source is server)
                    else:
                        if one_way and source is server:
                            return
                        selector.unregister(source)
                        if not one_way:
                            key.data.shutdown(socket.SHUT_WR)

    def _pass(
        self, data: bytes, to: socket.socket, visit: Visit, *, from_server: bool
    ) -> None:
        self._tally.add(len(data))
        if from_server:
            visit.received += len(data)
        else:
            visit.sent += len(data)
        to.sendall(data)


def _chunk_size(line: bytes) -> int:
    digits = line.split(b";")[0].strip()
    if not 0 < len(digits) <= 8 or digits.strip(b"0123456789abcdefABCDEF"):
        raise BadRequest("A chunk does not say how long it is.")
    return int(digits, 16)
