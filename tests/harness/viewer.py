"""Viewers that behave as the pages do: a socket hurries them, rows are the truth.

They run in a thread of their own and write down every step that was not gapless.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

import httpx

from tests.harness.people import Person
from tests.harness.sockets import SocketClosed, SocketRefused, WebSocket
from workspace.models import Conversation

#: Seconds: between reconnects, between two questions of an open page, and until a page
#: gives up a socket that answers nothing, as static/js/lib/socket.js does.
AGAIN, ASK, SILENCE = 0.3, 5.0, 6.0
SEQ = re.compile(r'id="seq-(\d+)"')
LOST = (SocketClosed, SocketRefused, OSError, httpx.TransportError)


class Viewer:
    """What both kinds share: stay connected, catch up, note faults."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.connections = self.pushes = self.silences = 0
        self.faults: list[str] = []
        self._asked: asyncio.Task[None] | None = None

    def socket_path(self) -> str:
        raise NotImplementedError

    def position(self) -> int:
        raise NotImplementedError

    async def catch_up(self, client: httpx.AsyncClient) -> None:
        raise NotImplementedError

    def heard(self, message: dict[str, Any]) -> bool:
        """Whether the message says that there is something to fetch."""
        raise NotImplementedError

    async def watch(self) -> None:
        """Until cancelled."""
        async with httpx.AsyncClient(
            base_url=self.person.origin, headers=self.person.headers, timeout=10
        ) as client:
            while True:
                try:
                    await self._once(client)
                except TimeoutError:
                    self.silences += 1
                except LOST:
                    await asyncio.sleep(AGAIN)
                except Exception as error:  # noqa: BLE001 - a fault to report
                    self.faults.append(repr(error))
                    return

    async def _once(self, client: httpx.AsyncClient) -> None:
        socket = WebSocket(self.person.origin, self.socket_path(), self.person.cookie)
        await asyncio.wait_for(socket.open(), SILENCE)
        async with socket:
            self.connections += 1
            asking = asyncio.create_task(self._keep_asking(socket))
            try:
                while True:
                    message = await asyncio.wait_for(socket.receive(), SILENCE)
                    self.pushes += 1
                    if self.heard(message):
                        await self.catch_up(client)
            finally:
                asking.cancel()

    async def _keep_asking(self, socket: WebSocket) -> None:
        with contextlib.suppress(*LOST):
            while True:
                await socket.send({"after": self.position()})
                await asyncio.sleep(ASK)


class ChatViewer(Viewer):
    """A chat page: entries by seq, streams by offset, the turns' states."""

    def __init__(self, person: Person, conversation: Conversation) -> None:
        super().__init__(person)
        self.conversation = conversation
        self.last = 0
        self.shown: list[int] = []
        self.turns: dict[str, str] = {}
        self.streams: dict[str, str] = {}
        self.finished_streams: list[str] = []
        self.first_delta_at: dict[str, float] = {}

    def socket_path(self) -> str:
        return f"/ws/c/{self.conversation.pk}/"

    def position(self) -> int:
        return self.last

    def heard(self, message: dict[str, Any]) -> bool:
        kind = message["type"]
        if kind == "sync":
            self.turns.update({one["turn"]: one["state"] for one in message["turns"]})
            for stream in message["streams"]:
                self._take(stream["stream"], stream["start"], stream["text"])
            return bool(message["head"] > self.last)
        if kind == "turn.changed":
            self.turns[message["turn"]] = message["state"]
        elif kind == "message.delta":
            self._take(message["stream"], message["offset"], message["text"])
        elif kind == "message.superseded":
            self.streams.pop(message["stream"], None)
        elif kind == "message.closed":
            self.finished_streams.append(self.streams.pop(message["stream"], ""))
        return bool(kind == "entry.appended" and message["seq"] > self.last)

    def _take(self, stream: str, offset: int, text: str) -> None:
        """A delta beyond the end is a gap, which a page mends by asking."""
        self.first_delta_at.setdefault(stream, time.monotonic())
        known = self.streams.get(stream, "")
        if offset <= len(known):
            self.streams[stream] = known + text[len(known) - offset :]

    async def catch_up(self, client: httpx.AsyncClient) -> None:
        while True:
            path = self.person.path(self.conversation, "entries")
            answer = await client.get(f"{path}?after={self.last}&limit=300")
            if answer.status_code != 200:
                return
            last = int(answer.headers["X-Last"])
            if last <= self.last:
                return
            self._show(int(answer.headers["X-First"]), last, answer.text)
            if last >= int(answer.headers["X-Head"]):
                return

    def _show(self, first: int, last: int, html: str) -> None:
        if first != self.last + 1:
            self.faults.append(f"asked after {self.last}, got {first} to {last}")
        fresh = [int(seq) for seq in SEQ.findall(html)]
        if wrong := [seq for seq in fresh if seq in self.shown or seq <= self.last]:
            self.faults.append(f"shown twice: {wrong}")
        self.shown += fresh
        self.last = last


class LogViewer(Viewer):
    """A run's log page: records by seq."""

    def __init__(self, person: Person, run_id: str) -> None:
        super().__init__(person)
        self.run_id = run_id
        self.seqs: list[int] = []

    def socket_path(self) -> str:
        return f"/ws/runs/{self.run_id}/"

    def position(self) -> int:
        return self.seqs[-1] if self.seqs else 0

    def heard(self, message: dict[str, Any]) -> bool:
        if message["type"] == "sync":
            return bool(message["head"] > self.position())
        return bool(
            message["type"] == "record.appended" and message["seq"] > self.position()
        )

    async def catch_up(self, client: httpx.AsyncClient) -> None:
        path = f"/w/{self.person.workspace.slug}/runs/{self.run_id}/records"
        more = True
        while more:
            answer = await client.get(f"{path}?after={self.position()}")
            if answer.status_code != 200:
                return
            page = answer.json()
            fresh = [line["seq"] for line in page["records"]]
            start = self.position() + 1
            if fresh != list(range(start, start + len(fresh))):
                self.faults.append(f"after {start - 1} came {fresh}")
            self.seqs += fresh
            more = page["more"]


class Watching:
    """Runs viewers in a thread with an event loop of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Watching:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end_all(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.loop.close()

    async def _end_all(self) -> None:
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def add(self, viewer: Viewer) -> None:
        self.run(viewer.watch())

    def run(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)
