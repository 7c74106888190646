"""An answer in the form of each API: events of a stream, or one JSON object."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from agents.providers.sse import parse_json
from agents.providers.wire import dumps
from agents.simulator.faults import Refusal
from agents.simulator.steps import Call, Step, bits

_PLACE = "PLACE-OF-BAD-BYTES"
_BAD_BYTES = b"caf\xc3 \xff\xfe "  # a cut character and two bytes that never occur


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens on disjoint axes, as `agents.providers.base.Usage`."""

    input: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int


class Reply(Protocol):
    """How one API says things. Every method gives bytes ready to send."""

    def opening(self, counts: Counts) -> bytes: ...

    def deltas(self, step: Step) -> Iterator[bytes]: ...

    def closing(self, step: Step, counts: Counts | None) -> bytes: ...

    def empty(self, opening: bytes) -> bytes:
        """A stream without any content, complete by its form."""

    def bad_bytes(self) -> bytes:
        """A delta that holds bytes which are no UTF-8."""

    def whole(self, step: Step, counts: Counts) -> dict[str, Any]: ...

    def refusal(self, refusal: Refusal) -> dict[str, Any]: ...


def with_ids(calls: tuple[Call, ...], prefix: str) -> tuple[Call, ...]:
    return tuple(
        Call(
            call.name,
            call.arguments,
            call.call_id or f"{prefix}_{secrets.token_hex(12)}",
        )
        for call in calls
    )


class ChatReply:
    """OpenAI's Chat Completions."""

    def __init__(self, model: str) -> None:
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        self._start = b"data: " + dumps(self._head)[:-1] + b',"choices":[{"index":0,'
        self._text_start = self._start + b'"delta":{"content":'

    def opening(self, counts: Counts) -> bytes:
        return self._choice({"role": "assistant", "content": ""})

    def deltas(self, step: Step) -> Iterator[bytes]:
        for bit in bits(step.reasoning):
            yield self._choice({"reasoning_content": bit})
        for bit in step.text_bits():
            yield self._text_start + dumps(bit) + b'},"finish_reason":null}]}\n\n'
        for index, call in enumerate(with_ids(step.calls, "call")):
            yield from self._call(index, call)

    def _call(self, index: int, call: Call) -> Iterator[bytes]:
        named = {"name": call.name, "arguments": ""}
        first = {"id": call.call_id, "type": "function", "function": named}
        yield self._choice({"tool_calls": [{"index": index, **first}]})
        for part in _thirds(call.arguments):
            piece = {"index": index, "function": {"arguments": part}}
            yield self._choice({"tool_calls": [piece]})

    def _choice(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        return b'%b"delta":%b,"finish_reason":%b}]}\n\n' % (
            self._start,
            dumps(delta),
            dumps(finish),
        )

    def closing(self, step: Step, counts: Counts | None) -> bytes:
        last = self._choice({}, _CHAT_STOPS[step.stop_reason])
        if counts is not None:
            usage = {**self._head, "choices": [], "usage": _chat_usage(counts)}
            last += b"data: " + dumps(usage) + b"\n\n"
        return last + b"data: [DONE]\n\n"

    def empty(self, opening: bytes) -> bytes:
        return (
            b"data: " + dumps({**self._head, "choices": []}) + b"\n\ndata: [DONE]\n\n"
        )

    def bad_bytes(self) -> bytes:
        return self._choice({"content": _PLACE}).replace(_PLACE.encode(), _BAD_BYTES)

    def whole(self, step: Step, counts: Counts) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(step.text_bits()) or None,
        }
        if step.reasoning:
            message["reasoning_content"] = step.reasoning
        if step.calls:
            message["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in with_ids(step.calls, "call")
            ]
        finish = _CHAT_STOPS[step.stop_reason]
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": _chat_usage(counts),
        }

    def refusal(self, refusal: Refusal) -> dict[str, Any]:
        kind, code = refusal.kind, refusal.code
        return {"error": {"message": refusal.message, "type": kind, "code": code}}


_CHAT_STOPS = {
    "end": "stop",
    "tool_calls": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
    "pause": "stop",
}


def _chat_usage(counts: Counts) -> dict[str, Any]:
    read = counts.input + counts.cache_read + counts.cache_write
    written = counts.output + counts.reasoning
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": counts.cache_read},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
    }


class MessagesReply:
    """Anthropic's Messages."""

    def __init__(self, model: str) -> None:
        self._head = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": model,
        }

    def opening(self, counts: Counts) -> bytes:
        usage = _messages_usage(counts) | {"output_tokens": 1}
        message: dict[str, Any] = {
            **self._head,
            "content": [],
            "stop_reason": None,
            "usage": usage,
        }
        return _event("message_start", message=message) + _event("ping")

    def deltas(self, step: Step) -> Iterator[bytes]:
        index = 0
        if step.reasoning:
            yield from self._thinking(index, step.reasoning)
            index += 1
        if text := step.text_bits():
            block = {"type": "text", "text": ""}
            yield from _block(index, block, ("text_delta", "text", text))
            index += 1
        for call in with_ids(step.calls, "toolu"):
            block = {"type": "tool_use", "id": call.call_id, "name": call.name}
            parts = _thirds(call.arguments)
            yield from _block(
                index,
                {**block, "input": {}},
                ("input_json_delta", "partial_json", parts),
            )
            index += 1

    def _thinking(self, index: int, text: str) -> Iterator[bytes]:
        block = {"type": "thinking", "thinking": "", "signature": ""}
        *frames, stop = _block(index, block, ("thinking_delta", "thinking", bits(text)))
        yield from frames
        signed = {"type": "signature_delta", "signature": f"sig-{len(text)}"}
        yield _event("content_block_delta", index=index, delta=signed) + stop

    def closing(self, step: Step, counts: Counts | None) -> bytes:
        delta = {"stop_reason": _MESSAGES_STOPS[step.stop_reason]}
        last = (
            _event("message_delta", delta=delta)
            if counts is None
            else _event("message_delta", delta=delta, usage=_messages_usage(counts))
        )
        return last + _event("message_stop")

    def empty(self, opening: bytes) -> bytes:
        delta = {"stop_reason": "end_turn"}
        return opening + _event("message_delta", delta=delta) + _event("message_stop")

    def bad_bytes(self) -> bytes:
        delta = {"type": "text_delta", "text": _PLACE}
        frame = _event("content_block_delta", index=0, delta=delta)
        return frame.replace(_PLACE.encode(), _BAD_BYTES)

    def whole(self, step: Step, counts: Counts) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if text := "".join(step.text_bits()):
            content.append({"type": "text", "text": text})
        for call in with_ids(step.calls, "toolu"):
            head = {"type": "tool_use", "id": call.call_id, "name": call.name}
            content.append({**head, "input": _as_object(call.arguments)})
        return {
            **self._head,
            "content": content,
            "stop_reason": _MESSAGES_STOPS[step.stop_reason],
            "usage": _messages_usage(counts),
        }

    def refusal(self, refusal: Refusal) -> dict[str, Any]:
        error = {"type": refusal.kind, "message": refusal.message}
        return {"type": "error", "error": error}


_MESSAGES_STOPS = {
    "end": "end_turn",
    "tool_calls": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "pause": "pause_turn",
}


def _messages_usage(counts: Counts) -> dict[str, Any]:
    return {
        "input_tokens": counts.input,
        "cache_read_input_tokens": counts.cache_read,
        "cache_creation_input_tokens": counts.cache_write,
        "output_tokens": counts.output + counts.reasoning,
    }


def _event(kind: str, **fields: Any) -> bytes:
    data = dumps({"type": kind, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _block(
    index: int, block: dict[str, Any], stream: tuple[str, str, list[str]]
) -> Iterator[bytes]:
    """A content block; its start goes out together with the first delta."""
    kind, key, parts = stream
    start = _event("content_block_start", index=index, content_block=block)
    for part in parts:
        delta = {"type": kind, key: part}
        yield start + _event("content_block_delta", index=index, delta=delta)
        start = b""
    yield start + _event("content_block_stop", index=index)


def _thirds(text: str) -> list[str]:
    size = max(1, -(-len(text) // 3))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _as_object(arguments: str) -> Any:
    try:
        return parse_json(arguments.encode())
    except ValueError:
        return {}
