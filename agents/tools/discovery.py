"""tool_search, tool_call and list_my_tools: how an agent finds what is not declared."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from agents.errors import ToolError
from agents.tools.base import Arguments, Finder, Tool, ToolContext, ToolResult


class ToolSearch(Arguments):
    also_called: ClassVar[dict[str, str]] = {"limit": "max_results"}

    query: str = Field(
        min_length=1,
        description="words; select:a,b for exact names; +word: in the name",
    )
    max_results: int = Field(5, description="1 to 20")


class ToolCall(Arguments):
    name: str = Field(min_length=1)
    arguments: dict[str, Any]


class ListMyTools(Arguments):
    pass


def tool_search(ctx: ToolContext, args: ToolSearch) -> ToolResult:
    return _bridge(ctx).search(args.query, args.max_results)


def list_my_tools(ctx: ToolContext, args: ListMyTools) -> ToolResult:
    return _bridge(ctx).listing()


def never_run(ctx: ToolContext, args: ToolCall) -> ToolResult:
    """The call is unwrapped before anything runs; this is a wiring fault."""
    raise AssertionError("tool_call is unwrapped in calls.py and never runs itself")


def _bridge(ctx: ToolContext) -> Finder:
    if ctx.bridge is None:
        raise ToolError("There is nothing to find here: every tool is declared.")
    return ctx.bridge


TOOL_SEARCH = Tool(
    name="tool_search",
    group="discovery",
    description=(
        "Find tools that are not declared here, by what you want to do. Returns their "
        "schemas; then run them with tool_call. On a near miss use other words or raise "
        "max_results before you conclude that there is no such tool."
    ),
    tag="read",
    arguments=ToolSearch,
    run=tool_search,
    idempotent=True,
    main_argument="query",
    aliases=("search_tools",),
)
TOOL_CALL = Tool(
    name="tool_call",
    group="discovery",
    description="Run a tool that tool_search returned, by its exact name.",
    tag="read",
    arguments=ToolCall,
    run=never_run,
    main_argument="name",
)
LIST_MY_TOOLS = Tool(
    name="list_my_tools",
    group="discovery",
    description="List every tool you have, on demand or denied, with the reason.",
    tag="read",
    arguments=ListMyTools,
    run=list_my_tools,
    idempotent=True,
)
TOOLS = (TOOL_SEARCH, TOOL_CALL, LIST_MY_TOOLS)
