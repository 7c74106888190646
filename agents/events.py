"""What happens in a run, as events. A kind is stored for ever: choose it like a column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

from workspace.events import Event


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"


@dataclass(frozen=True, kw_only=True)
class RunQueued(Event):
    """A run waits for a worker."""

    kind: ClassVar[str] = "run.queued"
    trigger: str
    turn_id: UUID

    @property
    def text(self) -> str:
        return f"[run] queued by {self.trigger}"


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """A worker claimed the run for the first time."""

    kind: ClassVar[str] = "run.started"
    worker: str
    agent: str

    @property
    def text(self) -> str:
        return f"[run] started: agent {self.agent}"


@dataclass(frozen=True, kw_only=True)
class RunWaiting(Event):
    """The run gave its worker back until somebody or something answers."""

    kind: ClassVar[str] = "run.waiting"
    waits_for: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"[run] waiting for {', '.join(self.waits_for)}"


@dataclass(frozen=True, kw_only=True)
class RunResumed(Event):
    """A worker went on with the run; `cause` is answer, restart, retry or drain."""

    kind: ClassVar[str] = "run.resumed"
    worker: str
    cause: str

    @property
    def text(self) -> str:
        return f"[run] resumed after {self.cause}"


@dataclass(frozen=True, kw_only=True)
class RunFinished(Event):
    """The turn is answered."""

    kind: ClassVar[str] = "run.finished"
    rounds: int

    @property
    def text(self) -> str:
        return f"[run] finished after {_rounds(self.rounds)}"


@dataclass(frozen=True, kw_only=True)
class RunFailed(Event):
    """The run cannot go on; `message` is what people are told."""

    kind: ClassVar[str] = "run.failed"
    message: str

    @property
    def text(self) -> str:
        return f"[run] failed: {self.message}"


@dataclass(frozen=True, kw_only=True)
class RunStopped(Event):
    """Somebody stopped the run; `by` names them."""

    kind: ClassVar[str] = "run.stopped"
    by: str

    @property
    def text(self) -> str:
        return f"[run] stopped by {self.by}"


@dataclass(frozen=True, kw_only=True)
class RoundStarted(Event):
    """A round begins."""

    kind: ClassVar[str] = "round.started"
    round: int

    @property
    def text(self) -> str:
        return f"[round {self.round}] started"


@dataclass(frozen=True, kw_only=True)
class RoundFinished(Event):
    """A round's model call and all calls it asked for are done."""

    kind: ClassVar[str] = "round.finished"
    round: int
    calls: int

    @property
    def text(self) -> str:
        return f"[round {self.round}] finished: {self.calls} tool calls"


@dataclass(frozen=True, kw_only=True)
class RequestAssembled(Event):
    """The next request's bytes are fixed; tokens are our estimate."""

    kind: ClassVar[str] = "request.assembled"
    round: int
    tokens: int
    digest: str
    size: int

    @property
    def text(self) -> str:
        return (
            f"[round {self.round}] request: about {self.tokens} tokens, "
            f"{self.size} bytes, sha256 {self.digest[:8]}"
        )


@dataclass(frozen=True, kw_only=True)
class ModelCalled(Event):
    """The model service answered; five disjoint axes of tokens."""

    kind: ClassVar[str] = "model.called"
    round: int
    model_name: str
    input: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int
    first_token_ms: int | None
    duration_ms: int
    stop_reason: str
    error: str = ""

    @property
    def text(self) -> str:
        if self.error:
            return f"[model] {self.model_name} failed: {self.error}"
        total = self.input + self.cache_read + self.cache_write
        return (
            f"[model] {self.model_name}: {total} in ({self.cache_read} cached), "
            f"{self.output + self.reasoning} out, {self.duration_ms} ms"
        )


@dataclass(frozen=True, kw_only=True)
class MessageDelta(Event):
    """A bit of streamed text; pushed, never stored."""

    kind: ClassVar[str] = "message.delta"
    stored: ClassVar[bool] = False
    offset: int
    delta: str


@dataclass(frozen=True, kw_only=True)
class MessageCompleted(Event):
    """An assistant message is in the transcript."""

    kind: ClassVar[str] = "message.completed"
    seq: int
    characters: int
    tool_calls: int

    @property
    def text(self) -> str:
        return f"[message] entry {self.seq}: {self.characters} characters"


@dataclass(frozen=True, kw_only=True)
class ToolCalled(Event):
    """A call passed all checks and starts."""

    kind: ClassVar[str] = "tool.called"
    tool: str
    call_id: str
    arguments: str
    decision: str

    @property
    def text(self) -> str:
        return f"[tool] {self.tool} {self.arguments[:200]}"


@dataclass(frozen=True, kw_only=True)
class ToolProgress(Event):
    """Live output of a running call; pushed, never stored."""

    kind: ClassVar[str] = "tool.progress"
    stored: ClassVar[bool] = False
    call_id: str
    output: str


@dataclass(frozen=True, kw_only=True)
class ToolFinished(Event):
    """A call's outcome is stored."""

    kind: ClassVar[str] = "tool.finished"
    tool: str
    call_id: str
    ok: bool
    characters: int
    duration_ms: int
    error: str = ""

    @property
    def text(self) -> str:
        outcome = "ok" if self.ok else f"failed ({self.error})"
        return (
            f"[tool] {self.tool} {outcome}: {self.characters} characters, "
            f"{self.duration_ms} ms"
        )


@dataclass(frozen=True, kw_only=True)
class ToolLoaded(Event):
    """Schemas of deferred tools came into the conversation."""

    kind: ClassVar[str] = "tool.loaded"
    names: tuple[str, ...]
    cause: str
    query: str = ""

    @property
    def text(self) -> str:
        via = f'tool_search "{self.query}"' if self.cause == "search" else self.cause
        via = "direct_call" if self.cause == "direct" else via
        names = ", ".join(self.names)
        return f"[harness] loaded {len(self.names)} deferred tool(s) via {via}: {names}"


@dataclass(frozen=True, kw_only=True)
class ToolSearched(Event):
    """The model looked for a tool; hits are names with scores, best first."""

    kind: ClassVar[str] = "tool.searched"
    query: str
    hits: list[list[Any]]

    @property
    def text(self) -> str:
        found = ", ".join(str(name) for name, _ in self.hits) or "nothing"
        return f'[search] "{self.query}": {found}'


@dataclass(frozen=True, kw_only=True)
class LoopSuspected(Event):
    """The model makes the same call again and again; once per turn."""

    kind: ClassVar[str] = "loop.suspected"
    tool: str
    count: int

    @property
    def text(self) -> str:
        return f"[guard] loop suspected: {self.tool} called {self.count} times"


@dataclass(frozen=True, kw_only=True)
class OutputsPruned(Event):
    """Older tool outputs are sent as one line each from now on; tokens are estimates."""

    kind: ClassVar[str] = "outputs.pruned"
    cause: str
    outputs: int
    images: int
    saved: int

    @property
    def text(self) -> str:
        what = f"{self.outputs} outputs" + (
            f", {self.images} images" if self.images else ""
        )
        return f"[context] pruned ({self.cause}): {what}, about {self.saved} tokens"


@dataclass(frozen=True, kw_only=True)
class ContextCompacted(Event):
    """A summary stands for the older entries; `before` and `after` are estimates."""

    kind: ClassVar[str] = "context.compacted"
    before: int
    after: int
    source: str
    entries: int

    @property
    def text(self) -> str:
        return (
            f"[context] compacted {self.entries} entries ({self.source} summary): "
            f"{self.before} -> {self.after} tokens"
        )


@dataclass(frozen=True, kw_only=True)
class PrefixChanged(Event):
    """Bytes that every request began with are others from the next one on.

    `segment` is the first part that changed: tools, an id of the prefix's, request.
    `cause` says why: load, resume, fallback when it is recorded; mode, model, effort,
    endpoint, rules reload, policy change, deferral switch, restart, nondeterminism with
    the first request that shows it.
    """

    kind: ClassVar[str] = "prefix.changed"
    segment: str
    cause: str

    @property
    def text(self) -> str:
        return f"[context] prefix changed: {self.segment}, because of {self.cause}"


@dataclass(frozen=True, kw_only=True)
class WaitOpened(Event):
    """The run needs somebody or something before it can go on."""

    kind: ClassVar[str] = "wait.opened"
    wait_id: UUID
    wait_kind: str
    call_id: str
    why: str = ""

    @property
    def text(self) -> str:
        return f"[wait] {self.wait_kind} opened {self.why}".rstrip()


@dataclass(frozen=True, kw_only=True)
class WaitAnswered(Event):
    """Somebody answered, or the wait was cancelled with its run."""

    kind: ClassVar[str] = "wait.answered"
    wait_id: UUID
    wait_kind: str
    by: str
    answer: Any = None

    @property
    def text(self) -> str:
        return f"[wait] {self.wait_kind} answered by {self.by}"


@dataclass(frozen=True, kw_only=True)
class WaitExpired(Event):
    """Nobody answered in time."""

    kind: ClassVar[str] = "wait.expired"
    wait_id: UUID
    wait_kind: str

    @property
    def text(self) -> str:
        return f"[wait] {self.wait_kind} expired"


@dataclass(frozen=True, kw_only=True)
class ProviderRetried(Event):
    """The model service failed in a way that is worth another try."""

    kind: ClassVar[str] = "provider.retried"
    round: int
    attempt: int
    delay: float
    error: str

    @property
    def text(self) -> str:
        return f"[model] try {self.attempt} in {self.delay:.1f} s: {self.error}"


@dataclass(frozen=True, kw_only=True)
class LevelChanged(Event):
    """The approval level of the conversation changed."""

    kind: ClassVar[str] = "level.changed"
    old: str
    new: str
    by: str

    @property
    def text(self) -> str:
        return f"[level] {self.old} -> {self.new} by {self.by}"


@dataclass(frozen=True, kw_only=True)
class ModeChanged(Event):
    """A turn begins in another mode than the one before; `by` chose it."""

    kind: ClassVar[str] = "mode.changed"
    old: str
    new: str
    by: str

    @property
    def text(self) -> str:
        return f"[mode] {self.old} -> {self.new} by {self.by}"


@dataclass(frozen=True, kw_only=True)
class ContextReported(Event):
    """Tokens of the turn's last request by category."""

    kind: ClassVar[str] = "context.reported"
    rows: dict[str, int] = field(default_factory=dict)
    total: int = 0
    window: int = 0

    @property
    def text(self) -> str:
        return f"[context] {self.total} of {self.window} tokens"


@dataclass(frozen=True, kw_only=True)
class RulesAttached(Event):
    """Rules files came into the conversation; `cause` is a path that was touched."""

    kind: ClassVar[str] = "rules.attached"
    paths: tuple[str, ...]
    cause: str

    @property
    def text(self) -> str:
        return f"[rules] attached for {self.cause}: {', '.join(self.paths)}"


@dataclass(frozen=True, kw_only=True)
class ChildStarted(Event):
    """A child begins a task of the run; `warnings`: what it has not as was asked."""

    kind: ClassVar[str] = "child.started"
    child_run: UUID
    child_conversation: UUID
    agent: str
    title: str
    rounds: int
    depth: int
    context: str
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        warned = "".join(f"; warning: {one}" for one in self.warnings)
        return f"[child] {self.agent} started: {self.title}{warned}"


@dataclass(frozen=True, kw_only=True)
class ChildFinished(Event):
    """A child of the run has ended; its tokens and cost are its own run's."""

    kind: ClassVar[str] = "child.finished"
    child_run: UUID
    agent: str
    state: str
    rounds: int
    tokens_in: int
    tokens_out: int
    cost: str | None = None
    message: str = ""

    @property
    def text(self) -> str:
        why = f": {self.message}" if self.message else ""
        return (
            f"[child] {self.agent} {self.state} after {_rounds(self.rounds)}, "
            f"{self.tokens_in} in, {self.tokens_out} out{why}"
        )
