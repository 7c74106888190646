"""What a tool is: one function, a model of its arguments, and declared facts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict, model_validator

from agents.interrupts import Interrupt

Tag = Literal["read", "write", "exec", "network", "send", "config", "delegate"]


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown names are refused, not ignored.

    `also_called` maps other names that models like to use to the declared ones; they are
    accepted and never declared.
    """

    model_config = ConfigDict(extra="forbid")

    also_called: ClassVar[dict[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        renamed = dict(values)
        for other, name in cls.also_called.items():
            if other in renamed and name not in renamed:
                renamed[name] = renamed.pop(other)
        return renamed


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call did not succeed; `message` tells the model what would work."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to. `output` is whole and raw: caps are views, applied later.

    `meta` holds plain JSON values for the page and for later calls, never for the model:
    `path`      relative to the root, `sha256` of the whole file on disk after the call
    `lines`     lines of the output that are the file's; `total_lines` of the file
    `diff`      unified text of what a write changed; `created` for a new file
    `exit`      a command's exit code; `seconds`, `cut_short` (timeout, stopped, memory,
                processes, disk), `dropped` (bytes of output beyond the limit)
    `network`   `asked`: how many requests a command made through the proxy, `visits`: the
                first of them {method, host, port, refused, sent, received} (bytes)
    `todo`      the whole checklist: [{content, status}]
    `matches`   how many a search found; `truncated` if it stopped at its limit
    `commit`    the hash of a new commit
    `skill`     the skill that was read, `skill_sha256` of its text; `again` when it stood
                before the model already
    `child`     the agent that did a delegated task: {conversation, run, agent, title, state,
                rounds, limit, model, tokens_in, tokens_cached, tokens_out, cost}
    `images`    stored images that the model is shown after the results of the round, each
                `workspace.images.Kept.body()`; see `agents.tools.images.attach_images`
    """

    ok: bool
    output: str = ""
    error: Failure | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def failed(
        cls, code: str, message: str, output: str = "", **meta: Any
    ) -> ToolResult:
        return cls(False, output, Failure(code, message), meta)


class Finder(Protocol):
    """What `tool_search` and `list_my_tools` ask; see `agents.surface.bridge`."""

    def search(self, query: str, max_results: int) -> ToolResult: ...

    def listing(self) -> ToolResult: ...


class AgentDesk(Protocol):
    """What list_agents and task_stop ask; see `agents.children.desk`."""

    def listing(self) -> ToolResult: ...

    def stop(self, number: int) -> ToolResult: ...


class MemoryDesk(Protocol):
    """What the memory tools ask; see `agents.memories`."""

    def search(self, query: str, limit: int) -> ToolResult: ...

    def save(self, text: str, scope: str) -> ToolResult: ...

    def update(self, key: int, text: str) -> ToolResult: ...

    def forget(self, key: int) -> ToolResult: ...


def _nothing_seen(path: str) -> str | None:
    return None


def _no_output(path: str) -> bytes | None:
    return None


def _no_skill(name: str, digest: str) -> bool:
    return False


def _all_there(names: Sequence[str]) -> list[str]:
    return []


def _unsettled(arguments: Arguments) -> ToolResult:
    raise AssertionError("calls.py gives every run what people decided")


def _silent(text: str) -> None:
    return None


@dataclass(frozen=True)
class ToolContext:
    """What a call may know and touch: made by `calls.py`, by hand in tests.

    `last_seen` gives the sha256 under which this conversation last read or wrote a file
    (path relative to the root), None if never. `stored_output` gives the bytes behind a
    virtual path `.tallyroom/outputs/<prefix>.txt`. `progress` takes live output text.
    `has_skill` tells whether a skill's very text (its digest) stands in what is sent;
    `unavailable` gives those of the named tools that this conversation cannot call.
    `settle` gives the result of a call about which people decided before it ran.
    `sees_images`: whether the model that asks may be shown images.
    """

    root: Path
    workspace_id: UUID
    conversation_id: UUID
    run_id: UUID
    call_id: str
    interrupt: Interrupt
    author_name: str = "Tallyroom"
    author_email: str = "agent@tallyroom.invalid"
    network: bool = False
    read_only: bool = False
    last_seen: Callable[[str], str | None] = _nothing_seen
    stored_output: Callable[[str], bytes | None] = _no_output
    has_skill: Callable[[str, str], bool] = _no_skill
    unavailable: Callable[[Sequence[str]], list[str]] = _all_there
    progress: Callable[[str], None] = _silent
    settle: Callable[[Arguments], ToolResult] = _unsettled
    sees_images: bool = True
    memory: MemoryDesk | None = None
    agents: AgentDesk | None = None
    bridge: Finder | None = None


@dataclass(frozen=True)
class Tool:
    """A tool and what is declared about it.

    `run` gets the context and the validated arguments; it raises `ToolError` or returns
    a result. A tool with `waits_for` has no `run`: a person or a child answers it;
    but for `plan`, where people decide first and then it runs.
    `path_arguments` name the arguments that are paths; `reads`/`writes` on overlapping
    paths are ordered by them. `conditional` returns why the tool is absent, or "".
    """

    name: str
    group: str
    description: str
    tag: Tag
    arguments: type[Arguments]
    run: Callable[[ToolContext, Any], ToolResult] | None = None
    waits_for: Literal["question", "plan", "children"] | None = None
    tier: Literal["resident", "deferred"] = "resident"
    idempotent: bool = False
    scan: bool = False
    poll: bool = False
    alone: bool = False
    path_arguments: tuple[str, ...] = ()
    main_argument: str = ""
    hints: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    conditional: Callable[[], str] = lambda: ""
    source: str = "builtin"
    served_schema: str = ""

    @property
    def mutating(self) -> bool:
        return self.tag not in ("read", "network")

    @cached_property
    def schema(self) -> str:
        """The JSON schema of the arguments as canonical text: no titles, sorted keys."""
        if self.served_schema:
            plain = _plain(json.loads(self.served_schema))
        else:
            plain = _terse(_plain(self.arguments.model_json_schema()))
        return json.dumps(
            plain,
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
        )

    @cached_property
    def digest(self) -> str:
        """What a review is bound to: name and arguments; prose may change."""
        text = f"{self.name}\n{self.schema}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


#: What a model never gets wrong, or learns from the refusal: not worth its tokens in
#: every request.
_OBVIOUS = ("minLength", "maxLength")


def _terse(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of ours with its definitions in their places, without obvious bounds."""
    parts = schema.pop("$defs", {})

    def visit(node: Any) -> Any:
        if isinstance(node, list):
            return [visit(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return visit(parts[str(node["$ref"]).rpartition("/")[2]])
        return {
            key: visit(value)
            for key, value in node.items()
            if key not in _OBVIOUS
            and (key, value) not in (("minimum", 0), ("minimum", 1))
        }

    found: dict[str, Any] = visit(schema)
    return found


def _plain(schema: Any, *, is_property_map: bool = False) -> Any:
    """Drop the titles and the noise that pydantic adds and a model does not need."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _plain(value, is_property_map=key in ("properties", "$defs"))
        for key, value in schema.items()
        if is_property_map or key != "title"
    }
    if not is_property_map and kept.get("additionalProperties") is False:
        del kept["additionalProperties"]
    return kept
