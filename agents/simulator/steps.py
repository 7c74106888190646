"""One answer of the simulator, in no API's terms."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from agents.providers.wire import dumps

_BIT = re.compile(r"\s*\S{1,7}|\s+")

Stop = Literal["end", "tool_calls", "max_tokens", "refusal", "pause"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` is raw text. Without an id it gets a new one."""

    name: str
    arguments: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds before the first byte and between the deltas."""

    first: float = 0.05
    token: float = 0.015


@dataclass(frozen=True, slots=True)
class Step:
    """What to answer, how fast, and which fault to show instead or on the way.

    `tokens` > 0 makes a text of that many deltas. `usage` overrides counted tokens:
    `input`, `cache_read`, `cache_write`, `output`, `reasoning`.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    delays: Delays | None = None
    tokens: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    fault: str = ""
    stop: Stop | None = None

    @property
    def stop_reason(self) -> Stop:
        return self.stop or ("tool_calls" if self.calls else "end")

    def text_bits(self) -> list[str]:
        """The text cut as a model would stream it."""
        if self.tokens > 0:
            return [f"t{number} " for number in range(self.tokens)]
        return bits(self.text)


def bits(text: str) -> list[str]:
    return _BIT.findall(text)


class BadStep(ValueError):
    """A script's step cannot be used; the message says why."""


_FIELDS = {
    "text": str,
    "reasoning": str,
    "tool_calls": list,
    "delays": dict,
    "usage": dict,
    "fault": str,
    "stop_reason": str,
}
_DELAYS = ("first_ms", "token_ms", "tokens")


def step_from(plain: Any) -> Step:
    """A step out of a script's plain values; raises `BadStep`."""
    if isinstance(plain, str):
        return Step(text=plain)
    if not isinstance(plain, dict):
        raise BadStep("A step is a text or a mapping.")
    for key, value in plain.items():
        if key not in _FIELDS:
            raise BadStep(f"Unknown field {key!r}; known are {', '.join(_FIELDS)}.")
        if not isinstance(value, _FIELDS[key]):
            raise BadStep(f"{key!r} must be a {_FIELDS[key].__name__}.")
    delays = plain.get("delays")
    return Step(
        text=plain.get("text", ""),
        reasoning=plain.get("reasoning", ""),
        calls=tuple(_call_from(call) for call in plain.get("tool_calls", ())),
        delays=_delays_from(delays) if delays else None,
        tokens=int(_number(delays or {}, "tokens", 0)),
        usage={key: int(value) for key, value in plain.get("usage", {}).items()},
        fault=plain.get("fault", ""),
        stop=plain.get("stop_reason"),
    )


def _delays_from(plain: dict[str, Any]) -> Delays:
    if unknown := set(plain) - set(_DELAYS):
        raise BadStep(f"Unknown delays {sorted(unknown)}; known are {_DELAYS}.")
    usual = Delays()
    return Delays(
        _number(plain, "first_ms", usual.first * 1000) / 1000,
        _number(plain, "token_ms", usual.token * 1000) / 1000,
    )


def _number(plain: dict[str, Any], key: str, usual: float) -> float:
    value = plain.get(key, usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise BadStep(f"{key!r} must be a number that is not negative.")
    return float(value)


def _call_from(plain: Any) -> Call:
    if not isinstance(plain, dict) or not isinstance(plain.get("name"), str):
        raise BadStep("A tool call is a mapping with a name and arguments.")
    arguments = plain.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = dumps(arguments).decode()
    return Call(plain["name"], arguments, str(plain.get("id", "")))
