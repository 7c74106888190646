"""memory_search, memory_save, memory_update, memory_forget: notes for later."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from agents.tools.base import Arguments, MemoryDesk, Tool, ToolContext


def _number(value: object) -> object:
    """`mem:12` and `[mem:12]` name the note 12."""
    found = re.fullmatch(r"\[?(?:mem:)?(\d+)\]?", str(value).strip())
    return int(found[1]) if found else value


Key = Annotated[int, BeforeValidator(_number), Field(ge=1, le=2**53)]


class MemorySearch(Arguments):
    also_called: ClassVar[dict[str, str]] = {"max_results": "limit"}

    query: str = Field("", max_length=500, description="empty = the newest")
    limit: int = Field(8, ge=1, le=50)


class MemorySave(Arguments):
    also_called: ClassVar[dict[str, str]] = {"content": "text"}

    text: str = Field(description="one fact in one or two sentences")
    scope: Literal["user", "workspace", "agent"] = "user"


class MemoryUpdate(Arguments):
    also_called: ClassVar[dict[str, str]] = {"memory": "id", "content": "text"}

    id: Key
    text: str


class MemoryForget(Arguments):
    also_called: ClassVar[dict[str, str]] = {"memory": "id"}

    id: Key


def _desk(ctx: ToolContext) -> MemoryDesk:
    assert ctx.memory is not None, "calls.py gives every run its desk"
    return ctx.memory


_HINTS = ("remember", "recall", "notes", "preference", "기억", "메모", "노트")

TOOLS = (
    Tool(
        name="memory_search",
        group="memory",
        description=(
            "Search the notes kept from earlier conversations: preferences, decisions "
            "and facts about the person, the workspace and this agent. Without a query "
            "it lists the newest."
        ),
        tag="read",
        arguments=MemorySearch,
        run=lambda ctx, args: _desk(ctx).search(args.query, args.limit),
        tier="deferred",
        idempotent=True,
        alone=True,
        main_argument="query",
        hints=(*_HINTS, "what do you know about me", "기억 찾기", "메모 검색"),
        aliases=("search_memory",),
    ),
    Tool(
        name="memory_save",
        group="memory",
        description=(
            "Remember a fact for later conversations: a preference of the person (scope "
            "user), something everybody here should know (workspace), or what this agent "
            "learned about its work (agent). Never secrets."
        ),
        tag="write",
        arguments=MemorySave,
        run=lambda ctx, args: _desk(ctx).save(args.text, args.scope),
        tier="deferred",
        idempotent=True,
        alone=True,
        main_argument="text",
        hints=(*_HINTS, "keep in mind", "do not forget", "기억해", "저장"),
        aliases=("save_memory", "memory_write"),
    ),
    Tool(
        name="memory_update",
        group="memory",
        description="Correct a note: give the one named mem:N another text.",
        tag="write",
        arguments=MemoryUpdate,
        run=lambda ctx, args: _desk(ctx).update(args.id, args.text),
        tier="deferred",
        idempotent=True,
        alone=True,
        main_argument="id",
        hints=(*_HINTS, "correct", "change", "고치기", "수정"),
    ),
    Tool(
        name="memory_forget",
        group="memory",
        description="Forget a note: delete the one named mem:N for good.",
        tag="write",
        arguments=MemoryForget,
        run=lambda ctx, args: _desk(ctx).forget(args.id),
        tier="deferred",
        alone=True,
        main_argument="id",
        hints=(*_HINTS, "delete", "remove", "잊어", "삭제"),
    ),
)
