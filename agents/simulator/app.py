"""The simulator as a small ASGI application, mounted beside Django or run alone.

A model API streams for minutes and knows no sessions, so it stays outside the
middleware. Whoever hangs up ends the answer at once, also while it is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from agents.providers.wire import dumps
from agents.simulator.conversation import Api
from agents.simulator.recorder import Recorded
from agents.simulator.service import Plan, Simulator, models

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 64 * 1024 * 1024  # bytes
_APIS: dict[str, Api] = {"v1/chat/completions": "chat", "v1/messages": "messages"}
_JSON = (b"content-type", b"application/json")
_FOR_EVER = 3600.0  # seconds; nobody waits longer for a silent service


def make_application(
    simulator: Simulator,
    *,
    pages: Application | None = None,
    open_requests: bool = False,
) -> Application:
    """The routes. `/simulator/requests` goes to `pages`: Django asks who is there.

    `open_requests` answers it here, without asking: only for a process of its own.
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].strip("/").removeprefix("simulator").lstrip("/")
        if path == "requests" and pages is not None:
            await pages(scope, receive, send)
        elif path == "requests" and open_requests:
            query = parse_qs(scope["query_string"].decode("ascii", "replace"))
            since = query.get("since", ["0"])[0]
            after = int(since) if since.isdigit() else 0
            await _json(send, 200, {"requests": simulator.recorder.since(after)})
        elif path == "v1/models" and scope["method"] == "GET":
            await _json(send, 200, models())
        elif path in _APIS and scope["method"] == "POST":
            await _Exchange(simulator, scope, receive, send).run(path)
        else:
            await _json(send, 404, _error("The simulator has nothing at this address."))

    return application


class _Exchange:
    """One request and its answer."""

    def __init__(
        self, simulator: Simulator, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._simulator = simulator
        self._scope = scope
        self._receive = receive
        self._send = send

    async def run(self, path: str) -> None:
        body = await self._read_body()
        if body is None:
            return
        record = self._simulator.recorder.open(path, body)
        plan = self._simulator.plan(_APIS[path], self._key(), body)
        answering = asyncio.ensure_future(self._answer(plan, record))
        watching = asyncio.ensure_future(self._hung_up())
        try:
            await asyncio.wait(
                {answering, watching}, return_when=asyncio.FIRST_COMPLETED
            )
            if answering.done():
                answering.result()
                record.end("refused" if plan.refusal else "finished")
        finally:
            if record.ended_at is None:
                record.end("aborted")
            answering.cancel()
            watching.cancel()

    async def _read_body(self) -> bytes | None:
        """The whole body, or None when it is too large or the client is gone."""
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > MAX_BODY:
                await _json(self._send, 413, _error("The request is too large."))
                return None
            if not message.get("more_body"):
                return bytes(body)

    def _key(self) -> str:
        headers = dict(self._scope["headers"])
        bearer = headers.get(b"authorization", b"").decode("latin-1")
        key: str = headers.get(b"x-api-key", b"").decode("latin-1")
        return key.strip() or bearer.removeprefix("Bearer ").strip()

    async def _hung_up(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _answer(self, plan: Plan, record: Recorded) -> None:
        record.fault = plan.step.fault
        if refusal := plan.refusal:
            record.status, record.fault = refusal.status, refusal.code
            body = plan.reply.refusal(refusal)
            await _json(self._send, refusal.status, body, refusal.headers)
            return
        if plan.step.fault == "silence":
            await asyncio.sleep(_FOR_EVER)
        record.status = 200
        if plan.conversation is None or plan.conversation.is_streamed:
            await self._stream(plan, record)
            return
        await asyncio.sleep(plan.delays.first)
        await _json(self._send, 200, plan.reply.whole(plan.step, plan.counts))

    async def _stream(self, plan: Plan, record: Recorded) -> None:
        fault, reply = plan.step.fault, plan.reply
        now = asyncio.get_running_loop().time
        start = now() + plan.delays.first
        await asyncio.sleep(plan.delays.first)
        await self._begin()
        opening = reply.opening(plan.counts)
        if fault == "empty_choice":
            await self._write(reply.empty(opening), is_last=True)
            return
        frames = list(reply.deltas(plan.step))
        cut = _cut_after(fault, len(frames))
        for number, frame in enumerate(frames[:cut]):
            await asyncio.sleep(start + number * plan.delays.token - now())
            await self._write(opening + frame)
            opening = b""
            record.deltas = number + 1
            if number == 0 and fault == "invalid_utf8":
                await self._write(reply.bad_bytes())
        await self._end(plan, opening, b"".join(frames[cut : cut + 1]))

    async def _end(self, plan: Plan, opening: bytes, next_frame: bytes) -> None:
        fault, reply = plan.step.fault, plan.reply
        if fault == "stall":
            await self._write(opening)
            await asyncio.sleep(_FOR_EVER)
        if fault == "reset":
            await self._write(opening, is_last=True)
        elif fault == "truncated_json":
            half = next_frame or reply.closing(plan.step, None)
            await self._write(opening + half[: len(half) // 2], is_last=True)
        else:
            wanted = plan.conversation is None or plan.conversation.wants_usage
            counts = plan.counts if wanted and fault != "no_usage" else None
            last = reply.closing(plan.step, counts)
            await self._write(opening + last, is_last=True)

    async def _begin(self) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
        ]
        await self._send(
            {"type": "http.response.start", "status": 200, "headers": headers}
        )

    async def _write(self, data: bytes, *, is_last: bool = False) -> None:
        await self._send(
            {"type": "http.response.body", "body": data, "more_body": not is_last}
        )


def _cut_after(fault: str, count: int) -> int:
    """How many deltas go out before the fault."""
    if fault in ("stall", "reset", "truncated_json"):
        return min(count, max(1, count // 2))
    return count


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error"}}


async def _json(
    send: Send,
    status: int,
    body: dict[str, Any],
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    data = dumps(body)
    sent = [_JSON, (b"content-length", str(len(data)).encode())]
    sent += [(name.encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": data})


SIMULATOR = Simulator()
application = make_application(SIMULATOR)
