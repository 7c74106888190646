"""HTTP/1.1 under httpx, made for streams that another thread must be able to cut.

httpx's own transport hides its sockets until the response's headers are in. Here every
request carries a `Line`, which knows the request's socket from the first moment and can
shut it from any thread. Reading goes through `http.client`, at about a third of the CPU
time per event.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator

import httpx

from agents.providers.addresses import AddressPolicy, AddressRefused, Target, resolve

KEEP_IDLE = 45.0  # seconds; most services close idle connections after 60 or more
MAX_IDLE = 32  # connections kept open per endpoint
_READ_SIZE = 65536


class Line:
    """The socket of one request, and the way to shut it from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    def attach(self, sock: socket.socket | None) -> None:
        """Name the socket in use now; it is shut at once if the line was cut before."""
        with self._lock:
            self._socket = sock
            if self._is_cut:
                self._shut()

    def cut(self) -> None:
        """Wake whoever waits on the socket; the service sees the connection end."""
        with self._lock:
            self._is_cut = True
            self._shut()

    def patience(self, seconds: float) -> None:
        """How long the next read may stay silent."""
        with self._lock:
            if self._socket is not None:
                self._socket.settimeout(seconds)

    def _shut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # The plain method: SSLSocket's own forgets its state under the reader.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Connection(http.client.HTTPConnection):
    """A connection to one of a host's checked addresses."""

    def __init__(
        self, target: Target, policy: AddressPolicy, context: ssl.SSLContext | None
    ) -> None:
        super().__init__(target.host, target.port)
        self.target = target
        self.idle_since = 0.0
        self._policy = policy
        self._context = context
        self._plain: socket.socket | None = None

    def open(self, line: Line, timeout: float) -> None:
        """Resolve, check, connect and, for https, shake hands."""
        addresses = resolve(self.target.host, self.target.port, self._policy)
        for number, address in enumerate(addresses, start=1):
            try:
                self.sock = self._reach(address, line, timeout)
            except OSError:
                line.attach(None)
                if number == len(addresses) or line.is_cut:
                    raise
            else:
                return

    def _reach(
        self, address: tuple[str, int], line: Line, timeout: float
    ) -> socket.socket:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.attach(sock)
            sock.connect(address)
            if self._context is None:
                return sock
            secure = self._context.wrap_socket(
                sock,
                server_hostname=self.target.host,
                do_handshake_on_connect=False,
            )
        except BaseException:
            sock.close()
            raise
        line.attach(secure)
        try:
            secure.do_handshake()
        except BaseException:
            secure.close()
            raise
        return secure

    def is_usable(self, now: float) -> bool:
        """Whether the service has not closed this idle connection, or is about to."""
        if self.sock is None or now - self.idle_since > KEEP_IDLE:
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
        return not poll.poll(0)


class _Body(httpx.SyncByteStream):
    """The answer's body; closing it early closes the connection."""

    def __init__(
        self,
        transport: StreamTransport,
        connection: _Connection,
        answer: http.client.HTTPResponse,
        line: Line,
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._answer = answer
        self._line = line

    def __iter__(self) -> Iterator[bytes]:
        read = self._answer.read1
        with _as_httpx_errors("read"):
            while chunk := read(_READ_SIZE):
                yield chunk
            if self._answer.length:  # the connection ended before the promised length
                raise http.client.IncompleteRead(b"", self._answer.length)
            self._answer.close()

    def close(self) -> None:
        reusable = self._answer.isclosed() and not self._line.is_cut
        self._line.attach(None)
        if reusable and self._connection.sock is not None:
            self._transport.put_back(self._connection)
        else:
            self._answer.close()
            self._connection.close()


class StreamTransport(httpx.BaseTransport):
    """Keep-alive connections to one service; requests bring a `line` extension."""

    def __init__(self, target: Target, policy: AddressPolicy) -> None:
        self._target = target
        self._policy = policy
        secure = target.scheme == "https"
        self._context = ssl.create_default_context() if secure else None
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        line = request.extensions.get("line") or Line()
        timeouts = request.extensions["timeout"]
        connection = self._borrow(line, timeouts["connect"])
        try:
            answer = _exchange(connection, request, line, timeouts)
        except BaseException:
            line.attach(None)
            connection.close()
            raise
        return httpx.Response(
            answer.status,
            headers=answer.getheaders(),
            stream=_Body(self, connection, answer, line),
        )

    def warm(self, timeout: float) -> None:
        """Have one open connection ready; a failure shows up with the first request."""
        line = Line()
        with contextlib.suppress(httpx.TransportError):
            self.put_back(self._borrow(line, timeout))

    def put_back(self, connection: _Connection) -> None:
        connection.idle_since = time.monotonic()
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            connections, self._idle = self._idle, []
        for connection in connections:
            connection.close()

    def __del__(self) -> None:
        # An endpoint's settings changed, or the process ends: nobody else closes these.
        self.close()

    def _borrow(self, line: Line, timeout: float) -> _Connection:
        while connection := self._pop_idle():
            if connection.is_usable(time.monotonic()):
                line.attach(connection.sock)
                return connection
            connection.close()
        connection = _Connection(self._target, self._policy, self._context)
        with _as_httpx_errors("connect"):
            connection.open(line, timeout)
        return connection

    def _pop_idle(self) -> _Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None


def _exchange(
    connection: _Connection,
    request: httpx.Request,
    line: Line,
    timeouts: dict[str, float],
) -> http.client.HTTPResponse:
    """Send the request and wait for the head of the answer."""
    with _as_httpx_errors("write"):
        line.patience(timeouts["write"])
        path = request.url.raw_path.decode("ascii")
        connection.putrequest(
            request.method, path, skip_host=True, skip_accept_encoding=True
        )
        for key, value in request.headers.raw:
            connection.putheader(key, value)
        connection.endheaders(request.read() or None)
    with _as_httpx_errors("read"):
        line.patience(timeouts["read"])
        return connection.getresponse()


_TIMEOUTS = {
    "connect": httpx.ConnectTimeout,
    "write": httpx.WriteTimeout,
    "read": httpx.ReadTimeout,
}
_ERRORS = {
    "connect": httpx.ConnectError,
    "write": httpx.WriteError,
    "read": httpx.ReadError,
}


@contextlib.contextmanager
def _as_httpx_errors(step: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise _TIMEOUTS[step](str(error)) from error
    except AddressRefused as error:
        raise httpx.UnsupportedProtocol(str(error)) from error
    except http.client.HTTPException as error:
        raise httpx.RemoteProtocolError(repr(error)) from error
    except (OSError, ValueError) as error:
        # ValueError: a read on a socket or TLS session that was closed meanwhile.
        raise _ERRORS[step](str(error)) from error
