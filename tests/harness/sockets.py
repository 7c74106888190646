"""A WebSocket client on asyncio that costs little: text frames, pings, close.

It offers no extensions and is for loopback only.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import struct
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class SocketRefused(ConnectionError):
    """The server answered the handshake with something else."""


class SocketClosed(ConnectionError):
    """The server closed, with this code; 0 if it just went away."""

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class WebSocket:
    """`await open()` first; leaving the block goes without a word."""

    def __init__(self, origin: str, path: str, cookie: str) -> None:
        self.origin, self.path, self.cookie = origin, path, cookie
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> WebSocket:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    async def open(self) -> None:
        """Raises SocketRefused, or OSError when nobody is there."""
        address = urlsplit(self.origin)
        self._reader, self._writer = await asyncio.open_connection(
            address.hostname, address.port
        )
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {self.path} HTTP/1.1",
            f"Host: {address.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            f"Origin: {self.origin}",
            f"Cookie: {self.cookie}",
        ]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            raise SocketRefused("no answer to the handshake") from None
        status = head.split(b"\r\n", 1)[0].decode()
        if " 101 " not in f"{status} ":
            raise SocketRefused(status)

    def abort(self) -> None:
        """Go without a word."""
        self._writer.transport.abort()

    async def send(self, message: dict[str, Any]) -> None:
        await self._frame(TEXT, json.dumps(message).encode())

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Until the server closes: raises SocketClosed then."""
        while True:
            yield await self.receive()

    async def receive(self) -> dict[str, Any]:
        """The next message; receipts that the server asks for are given."""
        while True:
            kind, data = await self._read_frame()
            if kind == PING:
                await self._frame(PONG, data)
            elif kind == CLOSE:
                raise SocketClosed(struct.unpack(">H", data[:2])[0] if data else 0)
            elif kind == TEXT:
                message: dict[str, Any] = json.loads(data)
                if message.get("type") != "receipt":
                    return message
                await self.send({"read": message["sent"]})

    async def _read_frame(self) -> tuple[int, bytes]:
        """Servers send whole, unmasked frames of these sizes."""
        try:
            first, second = await self._reader.readexactly(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack(">H", await self._reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", await self._reader.readexactly(8))
            return first & 0x0F, await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise SocketClosed(0) from None

    async def _frame(self, kind: int, data: bytes) -> None:
        mask = os.urandom(4)
        if len(data) < 126:
            head = struct.pack(">BB", 0x80 | kind, 0x80 | len(data))
        else:
            head = struct.pack(">BBH", 0x80 | kind, 0x80 | 126, len(data))
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self._writer.write(head + mask + masked)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise SocketClosed(0) from None
