"""A conversation played on values: entries, the guard, pruning and compaction.

It does what the loop does around a call and before a request, without a database.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from dataclasses import dataclass, field, replace
from typing import Any

from agents.context import outgoing, pruning
from agents.context.budget import Counts, Limits
from agents.context.cadence import Prices
from agents.context.compaction import Plan, plan
from agents.context.folding import fold
from agents.context.pruning import Settings, estimate, seq_of
from agents.context.view import Item, result_text
from agents.guard import History, Remark, Verdict
from agents.past_calls import digest_of
from agents.providers.base import Message
from agents.tools.base import Failure, Tool, ToolResult
from agents.tools.peek import FileNow
from agents.tools.registry import BUILTIN, resolve
from agents.tools.talking import TOOLS as TALKING

POLL = replace(resolve("grep") or BUILTIN[0], name="job_status", poll=True, aliases=())
MCP = replace(
    resolve("shell") or BUILTIN[0], name="mcp__tickets__create", source="mcp:tickets"
)
assert TALKING, "the tools are there"


def find(name: str) -> Tool | None:
    extra = {tool.name: tool for tool in (POLL, MCP)}
    return extra.get(name) or resolve(name)


@dataclass
class Acting:
    """`outputs` are what commands and searches give now; None makes a call fail."""

    files: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str | None] = field(default_factory=dict)
    settings: Settings = field(default_factory=lambda: Settings(batch_rounds=1))
    prices: Prices = field(default_factory=lambda: Prices(1, 1))
    on: bool = True
    items: list[Item] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    suspected: list[tuple[str, int]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    round_number: int = 0

    def __post_init__(self) -> None:
        self.user("start")

    def append(self, kind: str, body: dict[str, Any]) -> int:
        seq = self.items[-1].seq + 1 if self.items else 3
        self.items.append(Item(seq, kind, body))
        return seq

    def user(self, text: str) -> int:
        return self.append("user", {"text": text})

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """A round with one call; returns the body of its result."""
        return self.round((name, arguments))[0]

    def round(self, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """A round whose calls run one after the other, and the step before the next."""
        self.round_number += 1
        asked = [
            {
                "call_id": f"{self.round_number}.{index}",
                "name": name,
                "arguments": json.dumps(arguments),
            }
            for index, (name, arguments) in enumerate(calls)
        ]
        body = {
            "text": f"round {self.round_number}",
            "tool_calls": asked,
            "seen_seq": self.items[-1].seq,
            "round": self.round_number,
        }
        self.append("assistant", body)
        outcomes: dict[str, dict[str, Any]] = {}
        for one in asked:
            outcomes[one["call_id"]] = self._answer(one, outcomes)
        for one in asked:
            self.append("tool_result", outcomes[one["call_id"]])
        self.prune()
        return [outcomes[one["call_id"]] for one in asked]

    def _answer(self, call: dict[str, Any], outcomes: dict[str, Any]) -> dict[str, Any]:
        history = History.of(
            self.items, outgoing.verbatim(self.items), outcomes, on=self.on, find=find
        )
        arguments = json.loads(call["arguments"])
        verdict = history.check(call["call_id"], self.peek(arguments))
        self.verdicts.append(verdict)
        result = verdict.result or self.run(call["name"], arguments)
        remark: Remark = history.remark(call["call_id"], result)
        if remark.suspected:
            self.suspected.append(remark.suspected)
        error = remark.error(result.error)
        return {
            "call_id": call["call_id"],
            "name": call["name"],
            "ok": result.ok,
            "output": remark.output(result.output, result.ok),
            "error": {"code": error.code, "message": error.message} if error else None,
            "meta": remark.meta(result.meta),
            "round": self.round_number,
        }

    def peek(self, arguments: dict[str, Any]) -> FileNow | None:
        path = self.resolved(str(arguments.get("path", "")))
        text = self.files.get(path)
        return None if text is None else FileNow(path, digest_of(text))

    def resolved(self, path: str) -> str:
        return posixpath.normpath(path.removeprefix("/workspace/"))

    def run(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        self.ran.append(name)
        if name == "read_file":
            return self._read(arguments)
        if name in ("write_file", "edit_file"):
            return self._write(arguments)
        key = f"{name} {next(iter(arguments.values()), '')}".strip()
        output = self.outputs.get(key, f"output of {key}")
        if output is None:
            return ToolResult(False, "trace", Failure("exit", "exited with 1"))
        return ToolResult(True, output)

    def _read(self, arguments: dict[str, Any]) -> ToolResult:
        path = self.resolved(arguments["path"])
        if path not in self.files:
            return ToolResult.failed("not_found", f"{path!r} does not exist.")
        lines = self.files[path].splitlines()
        first = arguments.get("offset", 1)
        shown = lines[first - 1 :][: arguments.get("limit", 2000)]
        meta = {
            "path": path,
            "sha256": digest_of(self.files[path]),
            "lines": len(shown),
            "total_lines": len(lines),
        }
        numbered = (f"{first + n}\t{line}" for n, line in enumerate(shown))
        return ToolResult(True, "\n".join(numbered), meta=meta)

    def _write(self, arguments: dict[str, Any]) -> ToolResult:
        path = self.resolved(arguments["path"])
        self.files[path] = arguments.get("content") or arguments["new_string"]
        sha256 = hashlib.sha256(self.files[path].encode()).hexdigest()
        return ToolResult(True, f"wrote {path}", meta={"path": path, "sha256": sha256})

    def prune(self, *, cold: bool = False) -> None:
        """What the loop does before it assembles a request."""
        step = pruning.decide(
            fold(self.items).rows, self.settings, self.prices, cold=cold, find=find
        )
        if step:
            self.append("notice", step.body())

    def messages(self) -> tuple[Message, ...]:
        return outgoing.messages(self.items)

    def counts(self, fixed: int = 500) -> Counts:
        entries: dict[int, int] = {}
        for message in self.messages():
            size = estimate(message.text) + sum(
                estimate(call.arguments) for call in message.tool_calls
            )
            seq = seq_of(message)
            entries[seq] = entries.get(seq, 0) + size
        return Counts({"builtinTools": fixed}, entries)

    def compact(
        self, limits: Limits, text: str = "## Goal\n- go on", **options: Any
    ) -> Plan | None:
        """One decision and what follows from it, as the loop carries it out."""
        fixed = options.pop("fixed", 500)
        made = plan(self.items, self.counts(fixed), limits, find=find, **options)
        if made and made.strategy == "summarise":
            body = made.body(fold(self.items), text, estimate)
            self.append("summary", body)
        elif made and made.step:
            self.append("notice", made.step.body())
        return made


def whole_texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if message.role == "tool"]


def text_of(body: dict[str, Any]) -> str:
    return result_text(body)
