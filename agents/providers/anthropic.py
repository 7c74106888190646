"""Anthropic's Messages API.

Wire order: options, declared tools, system, messages. Four cache breakpoints mark what
the service shall keep: the last tool, the last system block, the tail of the previous
request and the tail of this one. The last two move on with each request, so the bytes
of a message differ between requests by the mark alone. The service ignores marks when
it compares prefixes; whoever compares bytes here must do the same: a mark is a piece of
its own that belongs to the envelope.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from agents.errors import ProviderUnavailable
from agents.interrupts import Interrupt
from agents.providers.base import (
    CACHE_MARK,
    Completion,
    Delta,
    Message,
    Owner,
    Picture,
    Piece,
    Prompt,
    Request,
    StopReason,
    ToolRequest,
    ToolSpec,
    Usage,
)
from agents.providers.http import Caller
from agents.providers.sse import parse_json
from agents.providers.wire import (
    clean,
    clean_values,
    count,
    dumps,
    envelope,
    new_call_id,
)

ANTHROPIC_VERSION = "2023-06-01"
OPAQUE_KEY = "anthropic"  # under which an answer keeps blocks to be sent back verbatim
_THINKING = {"low": 2_048, "medium": 8_192, "high": 16_384}  # tokens by effort
_LEAST_THINKING = 1_024  # tokens; the service refuses less
_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause",
}


class Anthropic:
    """Encodes prompts for, and streams answers from, one endpoint."""

    def __init__(self, caller: Caller, *, caches_prompts: bool = True) -> None:
        self._caller = caller
        self._caches_prompts = caches_prompts

    def warm(self) -> None:
        self._caller.warm()

    def encode(self, prompt: Prompt) -> Request:
        return Request(
            tuple(_encode(prompt, CACHE_MARK if self._caches_prompts else b""))
        )

    def stream(
        self, request: Request, interrupt: Interrupt
    ) -> Iterator[Delta | Completion]:
        answer = _Answer()
        try:
            for data in self._caller.events("messages", request.body, interrupt):
                yield from answer.take(self._caller.parse(data))
        except ProviderUnavailable:
            if not answer.is_done:
                raise
        interrupt.check()
        yield answer.complete(self._caller.service.name)


@dataclass(frozen=True, slots=True)
class _Part:
    """A content block without its closing brace, where a mark may come."""

    owner: Owner
    data: bytes
    tokens: int | None = None


def _encode(prompt: Prompt, mark: bytes) -> Iterator[Piece]:
    yield envelope(dumps(_options(prompt))[:-1])
    if prompt.tools:
        tools = [_Part(tool.owner, _tool(tool)) for tool in prompt.tools]
        yield envelope(b',"tools":[')
        yield from _blocks(tools, mark, {len(tools) - 1})
        yield envelope(b"]")
    system = [
        _Part(block.owner, dumps({"type": "text", "text": clean(block.text)})[:-1])
        for block in prompt.system
        if block.text.strip()
    ]
    if system:
        yield envelope(b',"system":[')
        yield from _blocks(system, mark, {len(system) - 1})
        yield envelope(b"]")
    yield envelope(b',"messages":[')
    yield from _messages(prompt.messages, mark)
    yield envelope(b"]}")


def _options(prompt: Prompt) -> dict[str, Any]:
    options: dict[str, Any] = {
        "model": clean(prompt.model_name),
        "stream": True,
        "max_tokens": prompt.max_output_tokens,
    }
    budget = min(
        _THINKING.get(prompt.effort, 0), prompt.max_output_tokens - _LEAST_THINKING
    )
    if budget >= _LEAST_THINKING:
        options["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return options


def _tool(tool: ToolSpec) -> bytes:
    return b'{"name":%b,"description":%b,"input_schema":%b' % (
        dumps(clean(tool.name)),
        dumps(clean(tool.description)),
        clean(tool.schema).encode(),
    )


def _messages(messages: tuple[Message, ...], mark: bytes) -> Iterator[Piece]:
    """Messages by alternating roles: what lies between two answers is one message."""
    groups = [
        (role, [part for message in group for part in _parts(message)])
        for role, group in groupby(messages, lambda message: _role(message))
    ]
    tails = _tails([role for role, _parts_of in groups])
    comma = b""
    for number, (role, parts) in enumerate(groups):
        yield envelope(b'%b{"role":"%b","content":[' % (comma, role.encode()))
        yield from _blocks(parts, mark, {len(parts) - 1} if number in tails else set())
        yield envelope(b"]}")
        comma = b","


def _tails(roles: list[str]) -> set[int]:
    """Which messages ended the previous request and end this one."""
    asked = [number for number, role in enumerate(roles) if role == "user"]
    return set(asked[-2:])


def _role(message: Message) -> str:
    return "assistant" if message.role == "assistant" else "user"


def _blocks(parts: list[_Part], mark: bytes, marked: set[int]) -> Iterator[Piece]:
    comma = b""
    for number, part in enumerate(parts):
        if mark and number in marked:
            yield Piece(part.owner, comma + part.data, part.tokens)
            yield envelope(mark)
            yield Piece(part.owner, b"}")
        else:
            yield Piece(part.owner, comma + part.data + b"}", part.tokens)
        comma = b","


def _parts(message: Message) -> list[_Part]:
    """The message's blocks; made once."""
    known: list[_Part] | None = message.memo.get("anthropic")
    if known is None:
        known = message.memo["anthropic"] = _make_parts(message)
    return known


def _make_parts(message: Message) -> list[_Part]:
    said = [_Part(message.owner, dumps(block)[:-1]) for block in _content_of(message)]
    return said + [_picture(picture) for picture in message.pictures]


def _picture(picture: Picture) -> _Part:
    source = {"type": "base64", "media_type": picture.mime, "data": picture.data}
    block = dumps({"type": "image", "source": source})
    return _Part(picture.owner, block[:-1], picture_tokens(picture))


def picture_tokens(picture: Picture) -> int:
    """Anthropic's rule: one token for 750 pixels."""
    return -(-picture.width * picture.height // 750)


def _content_of(message: Message) -> list[dict[str, Any]]:
    text = clean(message.text)
    if message.role == "tool":
        result: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": _call_id(message.call_id),
        }
        result |= {"content": text} if text else {}
        return [result if message.ok else result | {"is_error": True}]
    if message.role == "user":
        return [{"type": "text", "text": text if text.strip() else "(empty message)"}]
    blocks = clean_values((message.opaque or {}).get(OPAQUE_KEY) or [])
    if text.strip():
        blocks.append({"type": "text", "text": text})
    blocks += [_tool_use(call) for call in message.tool_calls]
    return blocks or [{"type": "text", "text": "(no answer)"}]


def _tool_use(call: ToolRequest) -> dict[str, Any]:
    """The API takes arguments only as an object: anything else is wrapped into one."""
    try:
        arguments = parse_json(call.arguments.encode("utf-8", "replace"))
    except ValueError:
        arguments = call.arguments
    if not isinstance(arguments, dict):
        arguments = {"malformed_arguments": call.arguments}
    return {
        "type": "tool_use",
        "id": _call_id(call.call_id),
        "name": clean(call.name),
        "input": clean_values(arguments),
    }


def _call_id(call_id: str) -> str:
    """Ids that came from other APIs, with only the characters this one permits."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)[:64] or "call"


class _Answer:
    """What has come in so far: content blocks by index, in the order they began."""

    def __init__(self) -> None:
        self.is_done = False
        self._blocks: dict[int, dict[str, Any]] = {}
        self._bits: dict[int, list[str]] = {}
        self._usage: dict[str, Any] = {}
        self._stop = ""

    def take(self, event: dict[str, Any]) -> Iterator[Delta]:
        kind = event.get("type")
        if kind == "content_block_delta":
            yield from self._take_delta(event["index"], event.get("delta") or {})
        elif kind == "content_block_start":
            yield from self._begin(event["index"], event.get("content_block") or {})
        elif kind == "message_start":
            self._count((event.get("message") or {}).get("usage"))
        elif kind == "message_delta":
            self._stop = (event.get("delta") or {}).get("stop_reason") or self._stop
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self.is_done = True
        elif kind == "message":  # a service that does not stream
            yield from self._take_whole(event)

    def _begin(self, index: int, block: dict[str, Any]) -> Iterator[Delta]:
        self._blocks[index] = block
        self._bits[index] = []
        if block.get("type") == "tool_use":
            yield Delta("tool_call", str(block.get("name", "")))
        for key in ("text", "thinking"):
            if block.get(key):
                yield from self._take_delta(index, {"type": f"{key}_delta", **block})

    def _take_delta(self, index: int, delta: dict[str, Any]) -> Iterator[Delta]:
        kind = delta.get("type")
        if index not in self._blocks:
            return
        if kind == "text_delta":
            self._bits[index].append(delta["text"])
            yield Delta("text", delta["text"])
        elif kind == "thinking_delta":
            self._bits[index].append(delta["thinking"])
            yield Delta("reasoning", delta["thinking"])
        elif kind == "input_json_delta":
            self._bits[index].append(delta["partial_json"])
        elif kind == "signature_delta":
            block = self._blocks[index]
            block["signature"] = block.get("signature", "") + delta["signature"]

    def _take_whole(self, event: dict[str, Any]) -> Iterator[Delta]:
        for index, block in enumerate(event.get("content") or ()):
            yield from self._begin(index, block)
        self._stop = event.get("stop_reason") or ""
        self._count(event.get("usage"))
        self.is_done = True

    def _count(self, usage: dict[str, Any] | None) -> None:
        """Later counts are running totals and replace earlier ones."""
        known = {key: v for key, v in (usage or {}).items() if v is not None}
        self._usage.update(known)

    def complete(self, name: str) -> Completion:
        """The answer; raises if the stream ended before it did."""
        if not (self.is_done or self._stop):
            raise ProviderUnavailable(
                f"{name} closed the connection before the answer was complete."
            )
        kept = self._kept()
        return Completion(
            text=self._joined("text"),
            reasoning=self._joined("thinking"),
            tool_calls=self._calls(),
            usage=self._axes(),
            stop_reason=_STOP_REASONS.get(self._stop, "other"),
            opaque={OPAQUE_KEY: kept} if kept else None,
        )

    def _joined(self, kind: str) -> str:
        return "".join(
            bit
            for index, block in self._blocks.items()
            if block.get("type") == kind
            for bit in self._bits[index]
        )

    def _kept(self) -> list[dict[str, Any]]:
        """Everything but text and calls: goes back as it came, signatures included."""
        return [
            block | {"thinking": "".join(self._bits[index])}
            if block.get("type") == "thinking"
            else block
            for index, block in self._blocks.items()
            if block.get("type") not in ("text", "tool_use")
        ]

    def _calls(self) -> tuple[ToolRequest, ...]:
        seen: set[str] = set()
        calls = []
        for index, block in self._blocks.items():
            if block.get("type") != "tool_use":
                continue
            call_id = str(block.get("id") or "")
            call_id = new_call_id() if not call_id or call_id in seen else call_id
            seen.add(call_id)
            arguments = "".join(self._bits[index]) or dumps(block.get("input") or {})
            if isinstance(arguments, bytes):
                arguments = arguments.decode()
            calls.append(ToolRequest(call_id, str(block.get("name", "")), arguments))
        return tuple(calls)

    def _axes(self) -> Usage:
        """The service counts cached input apart and thinking as output."""
        usage = self._usage
        return Usage(
            input=count(usage.get("input_tokens")),
            cache_read=count(usage.get("cache_read_input_tokens")),
            cache_write=count(usage.get("cache_creation_input_tokens")),
            output=count(usage.get("output_tokens")),
            reported="output_tokens" in usage,
        )
