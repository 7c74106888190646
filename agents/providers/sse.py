"""Server-sent events, cut out of raw bytes as they arrive."""

from __future__ import annotations

from typing import Any

import orjson

MAX_EVENT_BYTES = 32 * 1024 * 1024


class EventTooLarge(Exception):
    """The service sends one endless event."""


class EventStream:
    """Feed it chunks; it gives the `data` of every event that is complete.

    Only `data:` lines matter here: both APIs repeat the event's name inside the JSON.
    Accepts LF, CRLF and CR line ends, comments, and several data lines per event.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes, in order."""
        buffer = self._rest + chunk if self._rest else chunk
        if b"\r" in buffer:
            buffer, held = _plain_line_ends(buffer)
        else:
            held = b""
        *lines, rest = buffer.split(b"\n")
        self._rest = rest + held
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLarge
        return [data for line in lines if (data := self._take(line)) is not None]

    def close(self) -> list[bytes]:
        """The last event, if the service forgot the empty line or newline after it."""
        events = self.feed(b"\n\n")
        self._rest = b""
        return events

    def _take(self, line: bytes) -> bytes | None:
        if not line:
            if not self._data:
                return None
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._data = []
            return data
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line.startswith(b"error:"):  # llama.cpp reports a failing slot this way
            self._data.append(b'{"error":%b}' % line[6:].strip())
        return None


def _plain_line_ends(buffer: bytes) -> tuple[bytes, bytes]:
    """LF everywhere; a final CR is held back, its LF may be in the next chunk."""
    held = b""
    if buffer.endswith(b"\r"):
        buffer, held = buffer[:-1], b"\r"
    return buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), held


def parse_json(data: bytes) -> Any:
    """JSON, perhaps with broken UTF-8 in its strings; raises `ValueError`."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return orjson.loads(data.decode("utf-8", "replace"))
