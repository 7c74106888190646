"""A TCP proxy that can swallow WebSockets without closing, as bad networks do."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading


class Proxy:
    """Listens on a port of its own and forwards to another one on loopback."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.pairs: dict[socket.socket, socket.socket] = {}
        self.web_sockets: set[socket.socket] = set()
        self.swallowed: set[socket.socket] = set()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def swallow(self) -> None:
        """From now on nothing passes on the open WebSockets; all else works."""
        with self.lock:
            self.swallowed |= self.web_sockets

    def __enter__(self) -> Proxy:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.thread.join(5)
        for one in (*self.pairs, self.listener):
            one.close()
        self.selector.close()

    def _work(self) -> None:
        while not self.ended.is_set():
            for key, _ in self.selector.select(0.1):
                if key.fileobj is self.listener:
                    self._accept()
                else:
                    self._forward(key.fileobj)

    def _accept(self) -> None:
        near, _ = self.listener.accept()
        far = socket.create_connection(("127.0.0.1", self.target))
        with self.lock:
            self.pairs |= {near: far, far: near}
        for one in (near, far):
            self.selector.register(one, selectors.EVENT_READ)

    def _forward(self, source: socket.socket) -> None:
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        with self.lock:
            silent, other = source in self.swallowed, self.pairs.get(source)
            if b"upgrade: websocket" in data[:4096].lower() and other is not None:
                self.web_sockets |= {source, other}
        if silent and data:
            return
        if data and other is not None:
            with contextlib.suppress(OSError):
                other.sendall(data)
                return
        self._drop(source, silent=silent)

    def _drop(self, source: socket.socket, *, silent: bool) -> None:
        """A swallowed connection's end is not told either."""
        self.selector.unregister(source)
        with self.lock:
            other = self.pairs.pop(source, None)
        source.close()
        if other is not None and not silent:
            with contextlib.suppress(OSError):
                other.shutdown(socket.SHUT_RDWR)
