"""Clients of the benches: posts and reads streams, from the product or directly."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from tests.harness.installation import Installation
from tests.harness.people import Person
from tests.harness.sockets import WebSocket
from workspace.models import Conversation

#: The work of 80-performance: 200 tokens, 50 ms to the first, 5 ms apart.
TOKENS, FIRST, BETWEEN = 200, 0.05, 0.005


def order(tokens: int = TOKENS, between: float = BETWEEN, tag: str = "") -> str:
    delays = {
        "first_ms": FIRST * 1000,
        "token_ms": between * 1000,
        "tokens": tokens,
    }
    script = json.dumps({"repeat": True, "steps": [{"delays": delays}]})
    return f"tag:{tag or uuid4().hex}; [[script: {script} ]]"


@dataclass
class Answer:
    """Times are `time.time()`: the simulator's recorder uses the same clock."""

    posted: float = 0.0
    first: float = 0.0
    last: float = 0.0
    status: int = 0
    text: str = ""
    arrivals: list[tuple[int, float]] = field(default_factory=list)


def ask_directly(installation: Installation, text: str) -> Answer:
    """The same work without the product: one streamed call of the simulator."""
    address = urlsplit(f"{installation.simulator_url}/v1/chat/completions")
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    messages = [{"role": "user", "content": text}]
    body = json.dumps({"model": "simulator", "stream": True, "messages": messages})
    headers = {
        "Content-Type": "application/json",
        "Authorization": "Bearer simulator",
    }
    connection.connect()
    answer = Answer(posted=time.time())
    connection.request("POST", address.path, body, headers)
    response = connection.getresponse()
    answer.status = response.status
    for line in response:
        if b'"content":"t' in line:
            answer.last = time.time()
            answer.first = answer.first or answer.last
            answer.text += "t"
    connection.close()
    return answer


class Page:
    """A person's page on one conversation: its socket, and a kept connection to post."""

    def __init__(self, person: Person, conversation: Conversation) -> None:
        self.person, self.conversation = person, conversation
        address = urlsplit(person.origin)
        self.http = http.client.HTTPConnection(address.hostname or "", address.port)
        path = f"/ws/c/{conversation.pk}/"
        self.socket = WebSocket(person.origin, path, person.cookie)

    async def open(self) -> None:
        await self.socket.open()
        self.http.connect()

    def close(self) -> None:
        self.socket.abort()
        self.http.close()

    def post(self, text: str, answer: Answer) -> None:
        """Blocking; the answer's status is the page's."""
        body = urlencode({"text": text, "client_id": uuid4().hex})
        headers = {
            **self.person.headers,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        answer.posted = time.time()
        path = self.person.path(self.conversation, "messages")
        self.http.request("POST", path, body, headers)
        response = self.http.getresponse()
        response.read()
        answer.status = response.status

    async def ask(self, text: str, seconds: float = 60) -> Answer:
        """Post, and read deltas until the stream is closed."""
        answer = Answer()
        posting = asyncio.get_running_loop().run_in_executor(
            None, self.post, text, answer
        )
        await asyncio.wait_for(self._read(answer), seconds)
        await posting
        await asyncio.wait_for(self._settle(), seconds)
        return answer

    async def _read(self, answer: Answer) -> None:
        while True:
            message = await self.socket.receive()
            if message["type"] == "message.delta":
                at = time.time()
                answer.first = answer.first or at
                answer.last = at
                answer.text += message["text"]
                answer.arrivals.append((answer.text.count(" ") - 1, at))
            elif message["type"] == "message.closed":
                return

    async def _settle(self) -> None:
        """The turn's end, so that the next message begins a turn of its own."""
        while True:
            message = await self.socket.receive()
            if message["type"] == "turn.changed" and message["state"] in (
                "finished",
                "failed",
            ):
                return
