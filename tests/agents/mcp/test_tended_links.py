"""Open connections to servers that change without end, or fall silent."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import types

from agents.mcp import connections


class Restless:
    """A session whose server tells of a change with every list, or falls silent."""

    def __init__(self, changed: asyncio.Event, *, silent: bool) -> None:
        self.changed, self.silent, self.lists = changed, silent, 0
        streams = SimpleNamespace(open_send_streams=1)
        self._read_stream = SimpleNamespace(statistics=lambda: streams)

    async def list_tools(self, params: Any) -> types.ListToolsResult:
        self.lists += 1
        self.changed.set()
        await (asyncio.Event().wait() if self.silent else asyncio.sleep(0))
        return types.ListToolsResult(tools=[])


@pytest.fixture
def tend(monkeypatch):
    """Tend such a connection for some seconds; returns how often it was listed."""

    async def store(*_args: Any) -> None:
        return None

    async def tended(seconds: float, silent: bool) -> int:
        changed = asyncio.Event()
        changed.set()
        session: Any = Restless(changed, silent=silent)
        link = connections.Link(session, asyncio.Event(), asyncio.Event())
        way: Any = SimpleNamespace(
            id=None, connect_seconds=0.2, admits=lambda tool: True
        )
        work = connections.Connections()._tend(link, way, "", changed)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work, seconds)
        return session.lists

    monkeypatch.setattr(connections, "_stored", store)
    return lambda seconds, *, silent: asyncio.run(tended(seconds, silent))


def test_a_server_that_changes_without_end_is_listed_a_few_times_a_second(tend):
    assert 1 <= tend(1.0, silent=False) <= 6


def test_a_server_that_never_lists_again_loses_its_connection(tend):
    started = time.monotonic()
    assert tend(10.0, silent=True) == 1
    assert time.monotonic() - started < 5
