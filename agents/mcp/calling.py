"""The seam behind which servers are: how a call reaches the one that offers a tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from uuid import UUID

from agents.tools.base import ToolContext, ToolResult


class Caller(Protocol):
    """Carries one call to a server and brings back what came of it.

    `tool` is the server's own name for it. What goes wrong becomes a failed result;
    raises `RunStopped` when the context's interrupt says so.
    """

    def call(
        self,
        server_id: UUID,
        tool: str,
        arguments: Mapping[str, Any],
        ctx: ToolContext,
    ) -> ToolResult: ...


_C = TypeVar("_C", bound=Caller)
_stand_in: Caller | None = None


def caller() -> Caller:
    """The connections of this process; the client behind them is read when first used."""
    if _stand_in is not None:
        return _stand_in
    from agents.mcp.connections import shared

    return shared()


@contextmanager
def calls_go_to(stand_in: _C) -> Iterator[_C]:
    """Let every call of this process go there, as long as the block lasts."""
    global _stand_in
    earlier, _stand_in = _stand_in, stand_in
    try:
        yield stand_in
    finally:
        _stand_in = earlier
