"""A model service for tests of the loop: it plays steps and remembers what it was sent.

provider = ScriptedProvider(calls("read_file", path="README.md"), says("Done."))
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from agents.errors import ProviderError
from agents.interrupts import Interrupt
from agents.providers.base import (
    Completion,
    Delta,
    Prompt,
    Request,
    StopReason,
    ToolRequest,
    Usage,
)
from agents.providers.chat_completions import Dialect, encode


@dataclass(frozen=True, slots=True)
class Step:
    """One answer. With an `error`, it comes after what the step has said by then.

    `pause` (seconds, interruptible) comes before the first delta; `before` is called
    when the request arrives.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolRequest, ...] = ()
    usage: Usage = Usage(input=100, output=10, reported=True)
    stop_reason: StopReason | None = None
    error: Exception | None = None
    pause: float = 0.0
    before: Callable[[], None] | None = None

    def __add__(self, other: Step) -> Step:
        """Both in one answer: text after text, parallel calls."""
        return replace(
            self,
            text=self.text + other.text,
            reasoning=self.reasoning + other.reasoning,
            tool_calls=self.tool_calls + other.tool_calls,
            error=self.error or other.error,
        )


PlannedStep = Step | Callable[[Prompt], Step]


def says(text: str, **fields: Any) -> Step:
    return Step(text=text, **fields)


def calls(tool: str, /, **arguments: Any) -> Step:
    """An answer that calls one tool; join several with `+`."""
    return calls_with(tool, json.dumps(arguments, ensure_ascii=False))


def calls_with(tool: str, arguments: str, *, call_id: str = "") -> Step:
    """A call with raw arguments, which need not be JSON."""
    return Step(tool_calls=(ToolRequest(call_id, tool, arguments),))


def raises(error: ProviderError | Exception, *, after: str = "") -> Step:
    """A fault, if wished after some text has streamed already."""
    return Step(text=after, error=error)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it arrived."""

    request: Request
    prompt: Prompt

    @property
    def body(self) -> bytes:
        return self.request.body

    @property
    def declared_tools_digest(self) -> str:
        """Equal for requests that declare the very same tools, byte for byte."""
        declared = b"".join(
            piece.data for piece in self.request.pieces if piece.owner.kind == "tools"
        )
        return hashlib.sha256(declared).hexdigest()


class ScriptedProvider:
    """Plays its steps in order; safe to share between runs of several threads."""

    def __init__(self, *steps: PlannedStep) -> None:
        self.requests: list[RecordedRequest] = []
        self._steps = steps
        self._prompts: dict[bytes, Prompt] = {}
        self._lock = threading.Lock()
        self._call_count = 0

    def encode(self, prompt: Prompt) -> Request:
        request = encode(prompt, Dialect(carries_metadata=True))
        self._prompts[hashlib.sha256(request.body).digest()] = prompt
        return request

    def stream(
        self, request: Request, interrupt: Interrupt
    ) -> Iterator[Delta | Completion]:
        interrupt.check()
        step = self._next_step(request)
        if step.before:
            step.before()
        interrupt.sleep(step.pause)
        yield from _deltas(step, interrupt)
        if step.error:
            raise step.error
        yield Completion(
            text=step.text,
            reasoning=step.reasoning,
            tool_calls=self._with_ids(step.tool_calls),
            usage=step.usage,
            stop_reason=step.stop_reason
            or ("tool_calls" if step.tool_calls else "end"),
        )

    def _next_step(self, request: Request) -> Step:
        prompt = self._prompts[hashlib.sha256(request.body).digest()]
        with self._lock:
            number = len(self.requests)
            self.requests.append(RecordedRequest(request, prompt))
        if number >= len(self._steps):
            raise AssertionError(
                f"The script has {len(self._steps)} steps; request {number + 1} came."
            )
        step = self._steps[number]
        return step if isinstance(step, Step) else step(prompt)

    def _with_ids(self, requests: tuple[ToolRequest, ...]) -> tuple[ToolRequest, ...]:
        named = []
        for request in requests:
            with self._lock:
                self._call_count += 1
                call_id = request.call_id or f"call_{self._call_count}"
            named.append(replace(request, call_id=call_id))
        return tuple(named)


def _deltas(step: Step, interrupt: Interrupt) -> Iterator[Delta]:
    if step.reasoning:
        yield Delta("reasoning", step.reasoning)
    for number, word in enumerate(step.text.split(" ")):
        interrupt.check()
        if text := f" {word}" if number else word:
            yield Delta("text", text)
    for call in step.tool_calls:
        yield Delta("tool_call", call.name)
