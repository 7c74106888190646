"""What a server answered, as the result of a call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mcp import types

from agents.providers.wire import clean
from agents.tools.base import ToolResult

LARGEST = 20_000_000  # characters of one result that are kept


def result_of(answer: types.CallToolResult) -> ToolResult:
    """Text as it is; what is no text leaves a line that says what it was."""
    text = clean("\n".join(_parts(answer)))
    if len(text) > LARGEST:
        rest = len(text) - LARGEST
        text = f"{text[:LARGEST]}\n[{rest} more characters were not kept]"
    if answer.isError:
        return ToolResult.failed(
            "server_error", text or "The server reports an error without a word."
        )
    return ToolResult(True, text)


def _parts(answer: types.CallToolResult) -> Iterator[str]:
    for block in answer.content:
        yield _text(block)
    if not answer.content and answer.structuredContent is not None:
        yield json.dumps(answer.structuredContent, ensure_ascii=False, sort_keys=True)


def _text(block: Any) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent | types.AudioContent):
        kind = "image" if isinstance(block, types.ImageContent) else "audio"
        size = len(block.data) * 3 // 4
        return f"[{kind}: {block.mimeType}, {size:,} bytes; not shown]"
    if isinstance(block, types.ResourceLink):
        return f"[resource {block.name}: {block.uri}]"
    if isinstance(block.resource, types.TextResourceContents):
        return f"[resource {block.resource.uri}]\n{block.resource.text}"
    return f"[resource {block.resource.uri}: {block.resource.mimeType or 'binary'}]"
