"""Faults that real services show, to be had on request.

A script's step names one in `fault`; a person writes `[[fault:NAME]]` in a message, or
`[[fault:NAME 2]]` for the first two tries. A fault in a message shows in the first
answer to that message, not in the rounds after it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import takewhile

from agents.providers.wire import dumps
from agents.simulator.conversation import Conversation, Said
from agents.simulator.steps import Call, Step

_MARKER = re.compile(r"\[\[\s*fault\s*:\s*([a-z_0-9]+)(?:\s*[:x ]\s*(\d+))?\s*\]\]")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer with an error status. `code` is OpenAI's, `kind` Anthropic's word."""

    status: int
    code: str
    kind: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()


REFUSALS = {
    "rate_limit": Refusal(
        429, "rate_limit_exceeded", "rate_limit_error", "Too many requests."
    ),
    "rate_limit_retry_after": Refusal(
        429,
        "rate_limit_exceeded",
        "rate_limit_error",
        "Too many requests.",
        (("retry-after", "1"),),
    ),
    "rate_limit_long": Refusal(
        429,
        "rate_limit_exceeded",
        "rate_limit_error",
        "Too many requests. Come back later.",
        (("retry-after", "600"),),
    ),
    "server_error": Refusal(500, "server_error", "api_error", "Something broke."),
    "overloaded": Refusal(529, "overloaded", "overloaded_error", "Overloaded."),
    "unauthorized": Refusal(
        401, "invalid_api_key", "authentication_error", "The API key is not valid."
    ),
    "no_credit": Refusal(
        402, "insufficient_quota", "billing_error", "The credit is used up."
    ),
    "overflow": Refusal(
        400,
        "context_length_exceeded",
        "invalid_request_error",
        "prompt is too long: this model's maximum context length is 270000 tokens.",
    ),
    "bad_request": Refusal(
        400,
        "invalid_function_parameters",
        "invalid_request_error",
        "Invalid schema for function 'shell': 'strng' is not a type.",
    ),
}
# Shown while the answer is on its way; `app` and `replies` carry them out.
ON_THE_WAY = frozenset(
    {
        "silence",  # not even the response's headers
        "stall",  # some deltas, then nothing more
        "reset",  # the stream ends in the middle
        "truncated_json",  # an event is cut in two, then the stream ends
        "invalid_utf8",  # a delta holds bytes that are no UTF-8
        "no_usage",  # tokens are not reported
        "empty_choice",  # an answer without any content
    }
)
_MANY = 40  # calls at once


def _bad_arguments(step: Step, conversation: Conversation) -> Step:
    call = Call(_some_tool(conversation), '{"path": "READ')
    return replace(step, calls=(call,), tokens=0)


def _unknown_tool(step: Step, conversation: Conversation) -> Step:
    return replace(step, calls=(Call("no_such_tool", '{"path":"README.md"}'),))


def _duplicate_ids(step: Step, conversation: Conversation) -> Step:
    name = _some_tool(conversation)
    paths = (dumps({"path": path}).decode() for path in ("README.md", "."))
    return replace(step, calls=tuple(Call(name, path, "call_same") for path in paths))


def _many_calls(step: Step, conversation: Conversation) -> Step:
    name = _some_tool(conversation)
    calls = (
        Call(name, dumps({"path": f"file-{number}.txt"}).decode())
        for number in range(1, _MANY + 1)
    )
    return replace(step, calls=tuple(calls))


# These change what is answered, not how.
_ALTERATIONS = {
    "bad_arguments": _bad_arguments,
    "unknown_tool": _unknown_tool,
    "duplicate_ids": _duplicate_ids,
    "many_calls": _many_calls,
}
NAMES = frozenset(REFUSALS) | ON_THE_WAY | frozenset(_ALTERATIONS)


def altered(step: Step, conversation: Conversation) -> Step:
    """The step with its fault worked in, if it is one of the answer's content."""
    alter = _ALTERATIONS.get(step.fault)
    return alter(step, conversation) if alter else step


def _some_tool(conversation: Conversation) -> str:
    names = list(conversation.tools)
    return "read_file" if "read_file" in names or not names else names[0]


def without_markers(text: str) -> str:
    return _MARKER.sub("", text).strip()


class Tries:
    """Counts how often a fault was shown, for those that end after some tries."""

    def __init__(self) -> None:
        self._shown: Counter[tuple[str, str]] = Counter()

    def wanted(self, key: str, conversation: Conversation) -> str:
        """The fault that the messages since the last answer ask for now, or ""."""
        asked = "\n".join(
            said.text for said in takewhile(_is_user, reversed(conversation.messages))
        )
        marker = _MARKER.search(asked)
        if marker is None:
            return ""
        if marker[2] is None:
            return marker[1]
        shown = self._shown[key, asked]
        if shown >= int(marker[2]):
            del self._shown[key, asked]
            return ""
        self._shown[key, asked] += 1
        return marker[1]


def _is_user(said: Said) -> bool:
    return said.role == "user"
