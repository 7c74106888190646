"""Pushing to browsers: small notices, and text while it streams.

A push only hurries a page along and may be lost; every page can be rebuilt from rows.
One asyncio thread per process sends everything: callers hand over and go on. What
waits at the same moment leaves in one pipeline. Text so far is kept in the broker
beside the pushes, so that whoever joins in mid-stream gets it first.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

import orjson
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction
from redis import asyncio as aioredis
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

Kind = Literal["text", "reasoning", "tool"]
Command = tuple[str | bytes | int, ...]

#: Bytes of one push on the wire.
LARGEST_PUSH = 64 * 1024
#: Characters of one delta: ten thousand escaped control characters still fit a push.
LARGEST_DELTA = 10_000
#: Seconds between two pushes of one stream, and from how many streams on longer.
INTERVAL, MANY_STREAMS, LONG_INTERVAL = 0.04, 50, 0.2
#: Characters of a stream that are kept; of a tool's output only the end is shown.
LARGEST_TEXT, TOOL_TAIL = 1_000_000, 16_000
#: Seconds after which the broker forgets a stream that nobody closed.
KEEP_SECONDS = 3600
CLOSED_SECONDS = 30
#: Bytes that wait while the broker is away; beyond them the oldest are dropped.
LARGEST_BACKLOG = 8 * 1024 * 1024
#: Seconds for which a notice is worth another try.
WORTH_RETRYING = 5.0
RETRY_SECONDS = 0.25


def conversation_group(conversation_id: UUID | str) -> str:
    return f"c.{conversation_id}"


def run_group(run_id: UUID | str) -> str:
    return f"r.{run_id}"


def user_group(user_id: UUID | str) -> str:
    return f"u.{user_id}"


def push(group: str, message: dict[str, Any]) -> None:
    """Send a message to everyone in the group. Returns at once, never raises.

    A message over 64 KiB is replaced by `resync`: the page then asks for what it lacks.
    """
    try:
        pusher().hand_over(_publish(group, message))
    except (TypeError, ValueError, RuntimeError):
        logger.exception("Push to %r could not be prepared", group)


def push_on_commit(group: str, message: dict[str, Any]) -> None:
    """`push` once the present transaction is committed; at once if there is none."""
    transaction.on_commit(lambda: push(group, message), robust=True)


@dataclass(slots=True)
class Push:
    """Commands that belong together; `lost` is told if the broker did not take them."""

    commands: tuple[Command, ...]
    size: int
    made_at: float
    lost: Callable[[], None] | None = None


def _encode(message: dict[str, Any]) -> str:
    try:
        return orjson.dumps(message, default=str).decode()
    except TypeError:  # A lone surrogate, or an integer over 64 bits
        return json.dumps(message, default=str)


def _publish(group: str, message: dict[str, Any]) -> Push:
    text = _encode(message)
    if len(text) > LARGEST_PUSH // 4 and len(text.encode()) > LARGEST_PUSH:
        logger.error("Push of %r to %r is too large", message.get("type"), group)
        text = '{"type":"resync"}'
    return Push((_command(group, text),), len(text), time.monotonic())


def _command(group: str, text: str) -> Command:
    """The same bytes on the same channel as the layer's `group_send` would send."""
    layer: Any = get_channel_layer()
    configured: dict[str, Any] = settings.CHANNEL_LAYERS["default"]
    prefix = configured["CONFIG"]["prefix"]
    payload = layer.serialize({"type": "live.push", "text": text})
    return ("PUBLISH", f"{prefix}__group__{group}", payload)


class Pusher:
    """The thread that sends, and the streams it paces."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.streams: set[TextStream] = set()
        self._waiting: deque[Push] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._away = False
        self._sending = False
        threading.Thread(target=self._work, name="live", daemon=True).start()

    def hand_over(self, item: Push) -> None:
        """From any thread; the order of calls is the order of pushes."""
        self.loop.call_soon_threadsafe(self.enqueue, item)

    def enqueue(self, item: Push) -> None:
        """On the loop's own thread."""
        self._waiting.append(item)
        self._bytes += item.size
        while self._bytes > LARGEST_BACKLOG:
            self._drop(self._waiting.popleft())
        self._wake.set()

    def settle(self, timeout: float = 2.0) -> bool:
        """Wait until all that was handed over is sent. For tests and for shutdown."""
        done = asyncio.run_coroutine_threadsafe(self._settled(), self.loop)
        try:
            done.result(timeout)
        except TimeoutError:
            done.cancel()
            return False
        return True

    def end(self) -> None:
        """Send what waits, then close the connection; for the process's last moment."""
        self.settle(0.5)
        closed = asyncio.run_coroutine_threadsafe(disconnect(), self.loop)
        with contextlib.suppress(TimeoutError, RedisError, OSError):
            closed.result(0.5)

    async def _settled(self) -> None:
        while self._waiting or self._sending or any(s.due for s in self.streams):
            await asyncio.sleep(0.005)

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._send_for_ever())

    async def _send_for_ever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch = list(self._waiting)
                self._waiting.clear()
                self._bytes = 0
                self._sending = True
                await self._send(batch)
                self._sending = False

    async def _send(self, batch: list[Push]) -> None:
        try:
            pipeline = client().pipeline(transaction=False)
            for item in batch:
                for command in item.commands:
                    pipeline.execute_command(*command)
            await pipeline.execute(raise_on_error=False)
            self._away = False
        except (RedisError, OSError, TimeoutError) as error:
            if not self._away:
                logger.warning("The broker takes no pushes: %s", error)
            self._away = True
            self._put_back(batch)
            await asyncio.sleep(RETRY_SECONDS)
        except Exception:
            # The thread outlives whatever one batch brings.
            logger.exception("A batch of %d pushes was dropped", len(batch))
            for item in batch:
                self._drop(item, counted=False)

    def _put_back(self, batch: list[Push]) -> None:
        """Keep what is fresh; text is sent anew by its stream, from the beginning."""
        now = time.monotonic()
        for item in reversed(batch):
            if item.lost is None and now - item.made_at < WORTH_RETRYING:
                self._waiting.appendleft(item)
                self._bytes += item.size
            else:
                self._drop(item, counted=False)
        self._wake.set()

    def _drop(self, item: Push, *, counted: bool = True) -> None:
        if counted:
            self._bytes -= item.size
        if item.lost is not None:
            item.lost()


_starting = threading.Lock()
_pusher: Pusher | None = None


def pusher() -> Pusher:
    """This process's own; its thread starts with the first push."""
    global _pusher
    if _pusher is None:
        with _starting:
            if _pusher is None:
                _pusher = Pusher()
                atexit.register(_pusher.end)
    return _pusher


_clients: dict[asyncio.AbstractEventLoop, aioredis.Redis] = {}


def client() -> aioredis.Redis:
    """The running loop's connection to the broker."""
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        for gone in [one for one in _clients if one.is_closed()]:
            del _clients[gone]
        _clients[loop] = aioredis.Redis.from_url(
            settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=5
        )
    return _clients[loop]


async def disconnect() -> None:
    """Close the running loop's connection, before the loop itself is closed."""
    connection = _clients.pop(asyncio.get_running_loop(), None)
    if connection is not None:
        await connection.aclose()


class TextStream:
    """Text that grows: the first delta goes at once, then one push per 40 ms.

    `write`, `supersede` and `close` may be called from any thread, cost microseconds
    and never raise. Offsets are in characters (code points).
    """

    def __init__(
        self, conversation_id: UUID | str, stream_id: str, kind: Kind = "text"
    ) -> None:
        self.due = False
        self._group = conversation_group(conversation_id)
        self._set_key = streams_key(conversation_id)
        self._key = text_key(conversation_id, stream_id)
        self._id, self._kind = stream_id, kind
        #: Tells a stream from one of the same id that a lost worker began.
        self._epoch = secrets.token_hex(4)
        self._new: deque[str] = deque()
        self._kept = ""
        self._start = 0  # characters before `_kept` that were let go
        self._sent_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._whole = True  # the broker needs the kept text anew
        self._kept_at = 0.0  # when it last got it whole
        self._ended = False

    def write(self, text: str) -> None:
        if not text or self._ended:
            return
        self._new.append(text)
        if not self.due:
            self.due = True
            pusher().loop.call_soon_threadsafe(self._schedule)

    def supersede(self) -> None:
        """The text is void: another attempt begins from scratch."""
        self._end("message.superseded")

    def close(self) -> None:
        """No more comes; what was said stays for a while for whoever just joined."""
        self._end("message.closed")

    def _end(self, notice: str) -> None:
        if not self._ended:
            self._ended = True
            pusher().loop.call_soon_threadsafe(self._finish, notice)

    # On the pusher's thread from here on.

    def _schedule(self) -> None:
        owner = pusher()
        owner.streams.add(self)
        many = len(owner.streams) > MANY_STREAMS
        due_at = self._sent_at + (LONG_INTERVAL if many else INTERVAL)
        if due_at <= owner.loop.time():
            self._flush()
        else:
            self._timer = owner.loop.call_at(due_at, self._flush)

    def _flush(self) -> None:
        self.due, self._timer = False, None
        self._sent_at = pusher().loop.time()
        text = self._taken()
        if not text:
            return
        offset = self._start + len(self._kept)
        self._kept += text
        if self._kind == "tool" and len(self._kept) > 2 * TOOL_TAIL:
            text, offset = self._shortened(text, offset)
        elif len(self._kept) > LARGEST_TEXT:
            return
        keeping = self._keep(text)
        for at in range(0, len(text), LARGEST_DELTA):
            self._push_delta(offset + at, text[at : at + LARGEST_DELTA], keeping)
            keeping = []

    def _taken(self) -> str:
        pieces = []
        while self._new:
            pieces.append(self._new.popleft())
        # A lone surrogate would break the encoding; one character stays one character.
        return "".join(pieces).encode("utf-8", "replace").decode()

    def _shortened(self, text: str, offset: int) -> tuple[str, int]:
        """Keep the end of a tool's long output; of what is new, push the end alone."""
        cut = len(self._kept) - TOOL_TAIL
        self._kept = self._kept[cut:]
        self._start += cut
        self._whole = True
        skipped = max(0, len(text) - LARGEST_DELTA)
        return text[skipped:], offset + skipped

    def _push_delta(self, offset: int, text: str, keeping: list[Command]) -> None:
        message = {
            "type": "message.delta",
            "stream": self._id,
            "epoch": self._epoch,
            "kind": self._kind,
            "offset": offset,
            "text": text,
        }
        commands = [*keeping, _command(self._group, _encode(message))]
        pusher().enqueue(
            Push(tuple(commands), 4 * len(text), time.monotonic(), self._resend)
        )

    def _keep(self, text: str) -> list[Command]:
        now = time.monotonic()
        if not self._whole and now - self._kept_at < KEEP_SECONDS / 2:
            return [("APPEND", self._key, text)]
        self._whole, self._kept_at = False, now
        known = {
            "stream": self._id,
            "epoch": self._epoch,
            "kind": self._kind,
            "start": self._start,
        }
        head = _encode(known)
        return [
            ("SET", self._key, f"{head}\n{self._kept}", "EX", KEEP_SECONDS),
            ("SADD", self._set_key, self._key),
            ("EXPIRE", self._set_key, KEEP_SECONDS),
        ]

    def _resend(self) -> None:
        """A push was lost: the next one brings the kept text to the broker whole."""
        self._whole = True

    def _finish(self, notice: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        pusher().streams.discard(self)
        message = {"type": notice, "stream": self._id}
        commands: list[Command] = [
            ("SREM", self._set_key, self._key),
            ("EXPIRE", self._key, CLOSED_SECONDS),
            _command(self._group, _encode(message)),
        ]
        pusher().enqueue(Push(tuple(commands), 200, time.monotonic()))
        self._kept = ""


@dataclass(frozen=True, slots=True)
class StreamText:
    """A stream in progress; `start` is the place of the text's first character."""

    stream: str
    kind: Kind
    start: int
    text: str
    epoch: str = field(default="", compare=False)


def streams_key(conversation_id: UUID | str) -> str:
    return f"tallyroom:live:{conversation_id}"


def text_key(conversation_id: UUID | str, stream_id: str) -> str:
    return f"tallyroom:live:{conversation_id}:{stream_id}"


async def text_so_far(conversation_id: UUID | str) -> list[StreamText]:
    """The streams in progress with what they said; none if the broker is away."""
    try:
        keys = sorted(await client().smembers(streams_key(conversation_id)))
        values = await client().mget(keys) if keys else []
    except (RedisError, OSError, TimeoutError) as error:
        logger.warning("Text so far cannot be read: %s", error)
        return []
    found = [_stream_text(value) for value in values if isinstance(value, bytes)]
    return [text for text in found if text is not None]


def _stream_text(value: bytes) -> StreamText | None:
    """None for a text whose beginning the broker has forgotten."""
    head, _, text = value.partition(b"\n")
    try:
        known = orjson.loads(head)
    except orjson.JSONDecodeError:
        return None
    return StreamText(
        known["stream"],
        known["kind"],
        known["start"],
        text.decode("utf-8", "replace"),
        known["epoch"],
    )
