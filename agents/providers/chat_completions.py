"""OpenAI's Chat Completions API, and everything that calls itself compatible.

Wire order: options, declared tools, messages (the system message first). Consecutive
requests of a conversation so share the longest prefix: only the end grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agents.errors import ProviderUnavailable
from agents.interrupts import Interrupt
from agents.providers.base import (
    Completion,
    Delta,
    Message,
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
from agents.providers.wire import (
    clean,
    clean_values,
    count,
    dumps,
    envelope,
    inside_string,
    listed,
    new_call_id,
)

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "max_tokens",
    "content_filter": "refusal",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where services differ in what they accept.

    `carries_metadata`: only the simulator reads it; others may refuse the field.
    `replays_reasoning`: DeepSeek wants the reasoning of a tool round back.
    """

    max_tokens_field: str = "max_tokens"
    carries_metadata: bool = False
    replays_reasoning: bool = False

    @classmethod
    def of(cls, base_url: str, *, carries_metadata: bool = False) -> Dialect:
        host = urlsplit(base_url).hostname or ""
        return cls(
            "max_completion_tokens" if host == "api.openai.com" else "max_tokens",
            carries_metadata,
            replays_reasoning=host.endswith("deepseek.com"),
        )


class ChatCompletions:
    """Encodes prompts for, and streams answers from, one endpoint."""

    def __init__(self, caller: Caller, dialect: Dialect | None = None) -> None:
        self._caller = caller
        self._dialect = dialect or Dialect()

    def warm(self) -> None:
        self._caller.warm()

    def encode(self, prompt: Prompt) -> Request:
        return encode(prompt, self._dialect)

    def stream(
        self, request: Request, interrupt: Interrupt
    ) -> Iterator[Delta | Completion]:
        answer = _Answer()
        try:
            for data in self._caller.events(
                "chat/completions", request.body, interrupt
            ):
                if data == b"[DONE]":
                    answer.is_done = True
                    continue
                yield from answer.take(self._caller.parse(data))
        except ProviderUnavailable:
            if not (
                answer.finish or answer.is_done
            ):  # else only the usage or the farewell is missing
                raise
        interrupt.check()
        yield answer.complete(self._caller.service.name)


def encode(prompt: Prompt, dialect: Dialect) -> Request:
    """The body's pieces, in wire order."""
    pieces = [envelope(dumps(_options(prompt, dialect))[:-1])]
    if prompt.tools:
        pieces.append(envelope(b',"tools":['))
        pieces += listed((tool.owner, _tool(tool)) for tool in prompt.tools)
        pieces.append(envelope(b"]"))
    pieces.append(envelope(b',"messages":['))
    pieces += _system(prompt)
    comma = b"," if prompt.system else b""
    names = {one: f"{dialect} {one!r}" for one in (b"", b",")}
    for message in prompt.messages:
        known = message.memo.get(names[comma])
        if known is None:
            known = message.memo[names[comma]] = [*_pieces(message, dialect, comma)]
        pieces += known
        comma = b","
    pieces.append(envelope(b"]}"))
    return Request(tuple(pieces))


def _options(prompt: Prompt, dialect: Dialect) -> dict[str, Any]:
    options: dict[str, Any] = {
        "model": clean(prompt.model_name),
        "stream": True,
        "stream_options": {"include_usage": True},
        dialect.max_tokens_field: prompt.max_output_tokens,
    }
    if prompt.effort:
        options["reasoning_effort"] = prompt.effort
    if dialect.carries_metadata and prompt.metadata:
        options["metadata"] = clean_values(dict(sorted(prompt.metadata.items())))
    return options


def _tool(tool: ToolSpec) -> bytes:
    return (
        b'{"type":"function","function":{"name":%b,"description":%b,"parameters":%b}}'
        % (
            dumps(clean(tool.name)),
            dumps(clean(tool.description)),
            clean(tool.schema).encode(),
        )
    )


def _system(prompt: Prompt) -> Iterator[Piece]:
    if not prompt.system:
        return
    yield envelope(b'{"role":"system","content":"')
    gap = b""
    for block in prompt.system:
        yield Piece(block.owner, gap + inside_string(block.text))
        gap = rb"\n\n"
    yield envelope(b'"}')


def _pieces(message: Message, dialect: Dialect, comma: bytes) -> Iterator[Piece]:
    """A message; each of its images is a piece of its own."""
    if not message.pictures:
        yield Piece(message.owner, comma + dumps(_message(message, dialect)))
        return
    text = dumps({"type": "text", "text": clean(message.text)})
    yield Piece(message.owner, b'%b{"role":"user","content":[%b' % (comma, text))
    last = len(message.pictures) - 1
    for number, picture in enumerate(message.pictures):
        url = {"url": f"data:{picture.mime};base64,{picture.data}"}
        block = dumps({"type": "image_url", "image_url": url})
        end = b"]}" if number == last else b""
        yield Piece(picture.owner, b"," + block + end, picture_tokens(picture))


def picture_tokens(picture: Picture) -> int:
    """OpenAI's rule: 85, and 170 for each tile of 512 pixels, scaled to 2048 x 768."""
    width, height = picture.width, picture.height
    scale = min(1.0, 2048 / max(width, height), 768 / min(width, height))
    tiles = math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    return 85 + 170 * tiles


def _message(message: Message, dialect: Dialect) -> dict[str, Any]:
    text = clean(message.text)
    if message.role == "tool":
        call_id = clean(message.call_id)
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    plain: dict[str, Any] = {"role": message.role, "content": text}
    if message.tool_calls:
        plain["tool_calls"] = [_call(call) for call in message.tool_calls]
        if dialect.replays_reasoning and message.reasoning:
            plain["reasoning_content"] = clean(message.reasoning)
    return plain


def _call(call: ToolRequest) -> dict[str, Any]:
    return {
        "id": clean(call.call_id),
        "type": "function",
        "function": {"name": clean(call.name), "arguments": clean(call.arguments)},
    }


@dataclass(slots=True)
class _Call:
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class _Answer:
    """What has come in so far."""

    def __init__(self) -> None:
        self.finish = ""
        self.is_done = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage = Usage()

    def take(self, event: dict[str, Any]) -> Iterator[Delta]:
        if event.get("usage") or event.get("timings"):
            self._usage = _usage(event) or self._usage
        choices = event.get("choices")
        if not choices or not isinstance(choices[0], dict):
            return
        choice = choices[0]
        said = choice.get("delta") or choice.get("message") or {}
        if choice.get("finish_reason"):
            self.finish = str(choice["finish_reason"])
        reasoning = said.get("reasoning_content") or said.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            self._reasoning.append(reasoning)
            yield Delta("reasoning", reasoning)
        if text := _plain_text(said.get("content") or said.get("refusal")):
            self._text.append(text)
            yield Delta("text", text)
        for part in said.get("tool_calls") or ():
            yield from self._take_call(part)

    def _take_call(self, part: dict[str, Any]) -> Iterator[Delta]:
        function = part.get("function") or {}
        call = self._call_of(part.get("index"), str(part.get("id") or ""))
        if not call.name and function.get("name"):
            call.name = str(function["name"])
            yield Delta("tool_call", call.name)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = dumps(arguments).decode()
        if arguments:
            call.arguments.append(str(arguments))

    def _call_of(self, index: Any, call_id: str) -> _Call:
        """The call that a part continues, or a new one.

        Some services number every call 0, or none: then a new id begins a new call.
        """
        number = index if isinstance(index, int) else -1
        call = self._by_index.get(number)
        if call is None or (call_id and call.call_id and call_id != call.call_id):
            call = self._by_index[number] = _Call(call_id)
            self._calls.append(call)
        call.call_id = call.call_id or call_id
        return call

    def complete(self, name: str) -> Completion:
        """The answer; raises if the stream ended before it did."""
        is_empty = not (self._text or self._calls or self._reasoning)
        if not self.finish and self.is_done and is_empty:
            raise ProviderUnavailable(f"{name} sent no answer.")
        if not (self.finish or self.is_done):
            raise ProviderUnavailable(
                f"{name} closed the connection before the answer was complete."
            )
        return Completion(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=_unique(self._calls),
            usage=self._usage,
            stop_reason=self._stop_reason(),
        )

    def _stop_reason(self) -> StopReason:
        if self._calls and self.finish in ("stop", "", "tool_calls", "function_call"):
            return "tool_calls"
        if not self.finish:
            return "end"
        return _STOP_REASONS.get(self.finish, "other")


def _plain_text(content: Any) -> str:
    """Text of a content that is a string or, at some services, a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in parts if isinstance(text, str))
    return ""


def _unique(calls: list[_Call]) -> tuple[ToolRequest, ...]:
    """The calls in order, each with an id of its own."""
    seen: set[str] = set()
    requests = []
    for call in calls:
        is_free = call.call_id and call.call_id not in seen
        call_id = call.call_id if is_free else new_call_id()
        seen.add(call_id)
        arguments = "".join(call.arguments) or "{}"
        requests.append(ToolRequest(call_id, call.name, arguments))
    return tuple(requests)


def _usage(event: dict[str, Any]) -> Usage | None:
    """Usage on our axes, or None if the event holds none that can be read."""
    usage = event.get("usage")
    if not isinstance(usage, dict) or "prompt_tokens" not in usage:
        return None
    details = usage.get("prompt_tokens_details") or {}
    total = count(usage["prompt_tokens"])
    read = (
        count(details.get("cached_tokens"))
        or count(usage.get("prompt_cache_hit_tokens"))
        or count((event.get("timings") or {}).get("cache_n"))
    )
    read = min(read, total)
    written = min(count(details.get("cache_write_tokens")), total - read)
    spoken = count(usage.get("completion_tokens"))
    thought = count(
        (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    )
    return Usage(
        input=total - read - written,
        cache_read=read,
        cache_write=written,
        output=max(0, spoken - thought),
        reasoning=thought,
        reported=True,
    )
