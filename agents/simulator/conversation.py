"""A request of either API, read into one shape."""

from __future__ import annotations

import base64
import hashlib
import io
from dataclasses import dataclass, field
from typing import Any, Literal

from PIL import Image

from agents.providers.wire import dumps
from agents.simulator.cache import BYTES_PER_TOKEN
from agents.simulator.steps import Call

#: Of an image, for either API.
_PIXELS_PER_TOKEN = 750

Api = Literal["chat", "messages"]


class BadRequest(ValueError):
    """The request is not valid; the message is what the API would say."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message. `user` may be a person or a notice; `tool` answers `call_id`."""

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: tuple[Call, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the simulator knows of a request."""

    api: Api
    model: str
    is_streamed: bool
    tools: dict[str, dict[str, Any]]
    messages: tuple[Said, ...]
    metadata: dict[str, Any] = field(default_factory=dict)
    marked: bool = False
    wants_usage: bool = True


def read(api: Api, body: Any) -> Conversation:
    """Raises `BadRequest` for what the real services refuse too."""
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise BadRequest("'model' is required.")
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        raise BadRequest("'messages' must be a list that is not empty.")
    messages = _chat(body) if api == "chat" else _messages(body)
    _check_pairs(messages)
    metadata = body.get("metadata")
    options = body.get("stream_options") or {}
    return Conversation(
        api=api,
        model=body["model"],
        is_streamed=bool(body.get("stream")),
        tools=_tools(api, body.get("tools") or []),
        messages=tuple(messages),
        metadata=metadata if isinstance(metadata, dict) else {},
        marked=api == "messages" and b'"cache_control"' in dumps(body),
        wants_usage=api == "messages" or bool(options.get("include_usage")),
    )


def cacheable(body: dict[str, Any]) -> bytes:
    """What a cache compares: tools, system and messages in wire order, no options.

    Cache marks say where to keep, not what: they are left out.
    """
    kept = {key: body[key] for key in body if key in ("tools", "system", "messages")}
    return dumps(_without_files(_without_marks(kept)))


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    return value


def _without_files(value: Any) -> Any:
    """The same with text in place of images: as much as they are billed tokens."""
    if isinstance(value, list):
        return [_without_files(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "image_url":
        return _stand_in(str((value.get("image_url") or {}).get("url", "")))
    if value.get("type") == "image":
        return _stand_in(str((value.get("source") or {}).get("data", "")))
    return {key: _without_files(item) for key, item in value.items()}


def _stand_in(address: str) -> str:
    data = address.rpartition(",")[2]
    try:
        file = io.BytesIO(base64.b64decode(data, validate=True))
        with Image.open(file, formats=["PNG", "JPEG", "WEBP", "GIF"]) as opened:
            width, height = opened.size
    except (OSError, ValueError, SyntaxError):
        raise BadRequest("Could not process image.") from None
    size = -(-width * height // _PIXELS_PER_TOKEN) * BYTES_PER_TOKEN
    digest = hashlib.sha256(data.encode()).hexdigest()
    return (digest * (size // len(digest) + 1))[:size]


def _tools(api: Api, declared: list[Any]) -> dict[str, dict[str, Any]]:
    tools: dict[str, dict[str, Any]] = {}
    for tool in declared:
        plain = tool.get("function", tool) if isinstance(tool, dict) else {}
        name = plain.get("name")
        if not isinstance(name, str):
            raise BadRequest("Every tool needs a name.")
        key = "parameters" if api == "chat" else "input_schema"
        tools[name] = plain.get(key) or {}
    return tools


def _chat(body: dict[str, Any]) -> list[Said]:
    said = []
    for message in body["messages"]:
        if not isinstance(message, dict):
            raise BadRequest("Every message must be an object.")
        role, text = message.get("role"), text_of(message.get("content"))
        if role in ("system", "developer"):
            continue
        if role not in ("user", "assistant", "tool"):
            raise BadRequest(f"{role!r} is not a role.")
        calls = tuple(
            Call(
                str((call.get("function") or {}).get("name", "")),
                str((call.get("function") or {}).get("arguments", "")),
                str(call.get("id", "")),
            )
            for call in message.get("tool_calls") or ()
        )
        said.append(Said(role, text, calls, str(message.get("tool_call_id", ""))))
    return said


def _messages(body: dict[str, Any]) -> list[Said]:
    said = []
    for message in body["messages"]:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            raise BadRequest("messages: roles must be 'user' or 'assistant'.")
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"text": content}]
        if not blocks:
            raise BadRequest("messages: content must not be empty.")
        if role == "assistant":
            said.append(Said(role, text_of(content), _tool_uses(blocks)))
        else:
            said += [_user_block(block) for block in blocks]
    return said


def _tool_uses(blocks: list[Any]) -> tuple[Call, ...]:
    return tuple(
        Call(block["name"], dumps(block.get("input")).decode(), block["id"])
        for block in blocks
        if block.get("type") == "tool_use"
    )


def _user_block(block: dict[str, Any]) -> Said:
    if block.get("type") == "tool_result":
        text = text_of(block.get("content"))
        return Said("tool", text, call_id=str(block.get("tool_use_id", "")))
    return Said("user", text_of([block]))


def text_of(content: Any) -> str:
    """The text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _check_pairs(messages: list[Said]) -> None:
    """Each call has its result before anything else is said: real services insist."""
    open_ids: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.call_id not in open_ids:
                raise BadRequest(
                    f"A tool result for {message.call_id!r} has no call before it."
                )
            open_ids.remove(message.call_id)
        elif open_ids:
            raise BadRequest(f"The calls {open_ids} have no tool results after them.")
        else:
            open_ids = [call.call_id for call in message.calls]
    if open_ids:
        raise BadRequest(f"The calls {open_ids} have no tool results after them.")
