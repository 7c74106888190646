"""The calls of a conversation as the repeat guard compares them."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from pydantic import ValidationError

from agents.context.view import Item, Round, rounds_of, standing
from agents.tools.base import Arguments, Tool, ToolResult
from agents.tools.registry import resolve

BLOCKED = "repeat_blocked"

#: Codes of calls that were answered without being run: the world is as it was.
_NEVER_RAN = frozenset(
    (
        *(BLOCKED, "denied", "approval_expired", "bad_arguments", "unknown_tool"),
        *("absent", "not_run", "stale_file", "read_only"),
    )
)

Kind = Literal["full", "stub", "blocked", "open"]
Unwrap = Callable[[str, str], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Past:
    """A call of the conversation and, once it is known, what came of it."""

    call_id: str
    name: str
    tool: Tool | None
    signature: str
    epoch: int
    answer: int
    values: Mapping[str, Any]
    round: int = 0
    seq: int | None = None
    kind: Kind = "open"
    ok: bool = False
    code: str = ""
    digest: str = ""
    lines: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """Equal for outcomes that count as identical."""
        if not self.ok:
            return "failed"
        if self.tool and self.tool.mutating and not self.tool.scan:
            return "carried out"
        return f"{self.meta.get('sha256') or self.digest}"

    @property
    def changes_world(self) -> bool:
        if self.tool is None or not self.tool.mutating or self.kind != "full":
            return False
        return self.ok or (self.tool.tag == "exec" and self.code not in _NEVER_RAN)

    def lines_of(self, total: int) -> tuple[int, int]:
        """The first and last line it asks for, of a file with `total` lines."""
        first = int(self.values.get("offset") or 1)
        return first, min(first + int(self.values.get("limit") or total) - 1, total)


def as_called(name: str, arguments: str) -> tuple[str, str]:
    return name, arguments


def read_calls(
    items: Sequence[Item],
    outcomes: Mapping[str, Mapping[str, Any]],
    find: Callable[[str], Tool | None] = resolve,
    unwrap: Unwrap = as_called,
) -> tuple[Past, ...]:
    """Every call that stands in the entries, in call order, the open ones too.

    `outcomes` are those of the newest message's calls that have no entry yet, by call
    id: what a ToolCall stores, with `ok`. `unwrap` gives the real tool of a call through
    the bridge.
    """
    rows = standing(items)
    users = [row.seq for row in rows if row.kind == "user"]
    rounds = rounds_of(rows)
    reader = _Reader(users, _restored(rows), find, unwrap)
    return tuple(
        past
        for one in rounds
        for past in reader.read(one, outcomes if one is rounds[-1] else {})
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads rounds into calls."""

    users: Sequence[int]
    restored: frozenset[int]
    find: Callable[[str], Tool | None]
    unwrap: Unwrap

    def read(self, one: Round, outcomes: Mapping[str, Mapping[str, Any]]) -> list[Past]:
        return [self._past(one, call, outcomes) for call in _calls(one)]

    def _past(
        self, one: Round, call: Mapping[str, Any], outcomes: Mapping[str, Any]
    ) -> Past:
        name, arguments = self.unwrap(call["name"], call["arguments"])
        tool = self.find(name)
        name = tool.name if tool else name
        text = _normal(tool.arguments if tool else None, arguments)
        row = one.results.get(call["call_id"])
        body = row.body if row else outcomes.get(call["call_id"])
        past = Past(
            call["call_id"],
            name,
            tool,
            f"{name} {text}",
            bisect(self.users, one.seen),
            one.answer.seq,
            _values(text),
            int(one.answer.body.get("round", 0)),
            row.seq if row else None,
        )
        if body is None:
            return past
        return _with_outcome(past, body, is_whole=past.seq in self.restored)


def _calls(one: Round) -> Sequence[Mapping[str, Any]]:
    return one.answer.body.get("tool_calls") or ()


def _with_outcome(past: Past, body: Mapping[str, Any], *, is_whole: bool) -> Past:
    """The call with a stored outcome; `is_whole`: a stub that shows the full text now."""
    meta = body.get("meta") or {}
    guard = meta.get("guard") or {}
    output = body.get("output") or ""
    digest = guard.get("digest") or body.get("output_sha256") or digest_of(output)
    kind: Kind = guard.get("kind", "full")
    return _filled(
        past,
        kind="full" if is_whole and kind == "stub" else kind,
        ok=bool(body.get("ok")),
        code=(body.get("error") or {}).get("code", ""),
        digest=digest,
        lines=guard.get("lines", meta.get("lines", count_lines(output))),
        meta=meta,
    )


def ended_as(call: Past, result: ToolResult, guard: Mapping[str, Any]) -> Past:
    """The call with the raw outcome it has just come to."""
    return _filled(
        call,
        kind=guard["kind"],
        ok=result.ok,
        code=result.error.code if result.error else "",
        digest=guard.get("digest") or digest_of(result.output),
        lines=count_lines(result.output),
        meta=result.meta,
    )


def _filled(past: Past, **outcome: Any) -> Past:
    known = {name: getattr(past, name) for name in _KNOWN_BEFORE}
    return Past(**known, **outcome)


_KNOWN_BEFORE = (
    *("call_id", "name", "tool", "signature", "epoch", "answer"),
    *("values", "round", "seq"),
)


def digest_of(output: str) -> str:
    """The hash under which outputs are compared."""
    return hashlib.sha256(output.encode("utf-8", "replace")).hexdigest()


def count_lines(output: str) -> int:
    return output.count("\n") + (output[-1:] not in ("", "\n"))


@lru_cache(maxsize=4096)
def _normal(model: type[Arguments] | None, arguments: str) -> str:
    """Arguments as canonical text, other names and defaults filled in where known."""
    try:
        values = json.loads(arguments or "{}")
        if model is not None:
            values = model.model_validate(values).model_dump(mode="json")
    except (ValueError, RecursionError, ValidationError):
        return arguments
    return json.dumps(values, sort_keys=True)


def _values(text: str) -> Mapping[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _restored(rows: Sequence[Item]) -> frozenset[int]:
    """Results that show the text of a covered one since the newest summary."""
    summary = next((row for row in reversed(rows) if row.kind == "summary"), None)
    return (
        frozenset(map(int, summary.body.get("restored", {})))
        if summary
        else frozenset()
    )
