"""A server that is a program: it runs in the sandbox and speaks JSON, a line a message."""

from __future__ import annotations

import asyncio
import collections
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anyio
from mcp import types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from agents.sandbox import Sandbox, SandboxFailed
from agents.sandbox.process import Command

LARGEST_MESSAGE = 24 * 1024 * 1024  # bytes of one line
_LOOK = 0.5  # seconds between two looks at what the program uses
_KEPT = 20  # last lines of what it complains about


@asynccontextmanager
async def program(
    sandbox: Sandbox, argv: list[str], said: collections.deque[str]
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a session with a program, which ends with the block.

    `said` takes the last lines of its stderr. Raises `SandboxFailed`.
    """
    with ExitStack() as stack:
        command, disk = await asyncio.to_thread(sandbox.serve, stack, argv)
        send_read, read = anyio.create_memory_object_stream[Any](0)
        write, receive_write = anyio.create_memory_object_stream[SessionMessage](0)
        async with asyncio.TaskGroup() as tasks:
            work = [
                tasks.create_task(_hear(command, send_read)),
                tasks.create_task(_speak(command, receive_write)),
                tasks.create_task(_complain(command, said)),
                tasks.create_task(_watch(command, disk)),
            ]
            try:
                yield read, write
            finally:
                await asyncio.to_thread(command.kill)
                for task in work:
                    task.cancel()


@asynccontextmanager
async def _lines(pipe: Any) -> AsyncIterator[asyncio.StreamReader]:
    reader = asyncio.StreamReader(limit=LARGEST_MESSAGE)
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    try:
        yield reader
    finally:
        transport.close()


async def _hear(command: Command, heard: Any) -> None:
    """Hand on what is a message; what else a program prints is left out."""
    async with heard, _lines(command.process.stdout) as reader:
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # longer than any message may be
                return
            if not line:
                return
            try:
                message = types.JSONRPCMessage.model_validate_json(line)
            except (ValidationError, ValueError):
                continue
            await heard.send(SessionMessage(message))


async def _speak(command: Command, messages: Any) -> None:
    """Write what the session says. A thread waits where the program does not read."""
    assert command.process.stdin, "a pipe, since it was started to serve"
    pipe = command.process.stdin.fileno()
    async with messages:
        async for one in messages:
            text = one.message.model_dump_json(by_alias=True, exclude_none=True)
            try:
                await asyncio.to_thread(_write, pipe, text.encode() + b"\n")
            except OSError:  # the program has ended
                return


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


async def _complain(command: Command, said: collections.deque[str]) -> None:
    """Read the stderr, so that it never fills; keep its last lines."""
    async with _lines(command.process.stderr) as reader:
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                continue
            if not line:
                return
            said.append(line.decode("utf-8", "replace").strip()[:300])


async def _watch(command: Command, disk: Any) -> None:
    while command.process.poll() is None:
        await asyncio.to_thread(command.check, disk)
        await asyncio.sleep(_LOOK)


def new_log() -> collections.deque[str]:
    return collections.deque(maxlen=_KEPT)


__all__ = ["SandboxFailed", "new_log", "program"]
