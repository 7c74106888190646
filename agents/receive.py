"""One model call: sent, streamed to whoever looks on, stored as the next entry."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Any

from django.db import transaction

from agents import events
from agents.calls import hash_of
from agents.children import warming
from agents.children.family import effort_of
from agents.context.assemble import Assembled, declaring
from agents.context.breaks import Sent, bundled_rows, compared, judge, rows_of
from agents.context.preview import report_of
from agents.context.startup import mode_in
from agents.endpoints import Choice
from agents.errors import (
    ImagesRefused,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    RunReleased,
    RunStopped,
)
from agents.models import LanguageModel, ModelCall, Run, ToolCall
from agents.providers.base import Completion, Delta, ToolRequest, Usage
from agents.providers.retry import Restarted, Retry, stream_with_retries
from agents.providers.wire import clean
from agents.runs import Hold, finish_with_answer
from agents.surface.refused import advice
from workspace import live, transcript
from workspace.events import Event, emit
from workspace.models import Entry
from workspace.prepared import Select, Update, given, insert
from workspace.transcript import Draft

#: Seconds that one model call may take, all tries together, before it counts as stuck.
LONGEST_CALL = 3600
#: Characters of a call's id and of a tool's name.
LONGEST_NAME = 200
#: Of a call's usage: counted apart from each other.
AXES = ("input", "cache_read", "cache_write", "output", "reasoning")
#: Changes of the prefix that nothing else tells of when they happen.
TOLD_HERE = frozenset(
    {
        "mode",
        "model",
        "effort",
        "endpoint",
        "rules reload",
        "policy change",
        "deferral switch",
        "restart",
        "nondeterminism",
    }
)


@dataclass
class Stream:
    """An answer as it comes in, and its way to the browsers."""

    hold: Hold
    call: ModelCall
    started: float = field(default_factory=time.monotonic)
    first_token_ms: int | None = None
    attempt: int = 1
    parts: dict[str, list[str]] = field(default_factory=dict)
    streams: dict[str, live.TextStream] = field(default_factory=dict)

    def take(self, delta: Delta) -> None:
        if self.first_token_ms is None:
            self.first_token_ms = self.elapsed_ms
            self._tell_siblings()
        if delta.kind == "tool_call":
            return
        self.parts.setdefault(delta.kind, []).append(delta.text)
        if delta.kind not in self.streams:
            self.streams[delta.kind] = self._open(delta.kind)
        self.streams[delta.kind].write(delta.text)

    def _tell_siblings(self) -> None:
        """A child's first byte means that its beginning is in the service's cache."""
        if self.call.round == 1 and self.hold.run.conversation.parent_id:
            warming.answered(self.hold.run)

    def _open(self, kind: str) -> live.TextStream:
        run = self.hold.run
        name = f"{run.pk}:{self.call.round}:{self.attempt}:{kind}"
        return live.TextStream(run.conversation_id, name, kind)  # type: ignore[arg-type]

    def restart(self) -> None:
        """The answer begins anew: what was shown so far is superseded."""
        for stream in self.streams.values():
            stream.supersede()
        self.parts.clear()
        self.streams.clear()
        self.attempt += 1

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()

    def text(self, kind: str) -> str:
        return "".join(self.parts.get(kind, ()))

    @property
    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self.started) * 1000)


def open_call(hold: Hold, choice: Choice, assembled: Assembled) -> ModelCall:
    """Write down that the request goes out, before it does."""
    run = hold.run
    with transaction.atomic():
        changes = _next_round(run)
        hold.guard(model_name=choice.language_model.name, **changes)
        run.model_name = choice.language_model.name
        started = events.RoundStarted(**hold.ids, round=run.round)
        return write_down(hold, choice, assembled, run.round, started)


def write_down(
    hold: Hold,
    choice: Choice,
    assembled: Assembled,
    round_number: int,
    *before: Event,
) -> ModelCall:
    """The row of a request that is about to be sent. Inside a transaction.

    `before` are the events that come before its own.
    """
    run = hold.run
    call = ModelCall(
        run=run,
        round=round_number,
        endpoint_name=choice.endpoint.name,
        model_name=choice.language_model.name,
        mode=mode_in(run.conversation, declaring(hold.items)[0]),
        effort=effort_of(run),
        estimated_tokens=assembled.tokens,
        segments=bundled_rows(rows_of(assembled.segments)),
        seen_seq=assembled.seen_seq,
    )
    insert(call)
    emit(
        *before,
        events.RequestAssembled(
            **hold.ids,
            round=round_number,
            tokens=assembled.tokens,
            digest=assembled.digest,
            size=len(assembled.body),
        ),
    )
    return call


def _next_round(run: Run) -> dict[str, int]:
    """Changes of the run's row: a round whose answer was never stored is played again."""
    tried = ModelCall.objects.filter(run=run, round=run.round)
    if run.round and not tried.filter(state=ModelCall.State.COMPLETED).exists():
        tried.filter(state=ModelCall.State.SENT).update(state=ModelCall.State.LOST)
        return {"round": run.round}
    run.round += 1
    return {"round": run.round, "restarts": 0}


def receive(
    hold: Hold, choice: Choice, assembled: Assembled, *, final: bool = False
) -> list[ToolCall]:
    """Ask the model, stream its answer, store it; returns the calls it asks for.

    A `final` answer may ask for none: its calls are left out.
    Raises ProviderError when the service gives no answer, and what the interrupt says
    when stopped: the text so far is then stored as a stopped message.
    """
    call = open_call(hold, choice, assembled)
    stream = Stream(hold, call)
    hold.expect(LONGEST_CALL)
    try:
        completion = listen(hold, choice, assembled, stream)
        completion = replace(
            completion, tool_calls=() if final else storable(completion.tool_calls)
        )
        _require_something(completion, choice)
    except RunStopped as stop:
        settle_stopped(stream, assembled, keep=not isinstance(stop, RunReleased))
        raise
    except ProviderError as error:
        stream.restart()
        settle_failed(stream, error)
        if isinstance(error, ImagesRefused) and not assembled.request.pictures:
            raise ProviderRejected(error.message) from error
        if more := _advice(error, hold, assembled):
            raise ProviderRejected(f"{error.message} {more}") from error
        raise
    calls = _store(stream, choice, assembled, completion)
    stream.close()
    return calls


def _advice(error: ProviderError, hold: Hold, assembled: Assembled) -> str:
    """What to do when the service refuses a tool's schema; "" for all else."""
    if type(error) is not ProviderRejected:
        return ""
    declared = [
        one.id.removeprefix("tool:")
        for one in assembled.segments
        if one.kind == "tools"
    ]
    loaded = declaring(hold.items)[0].get("loaded", {})
    return advice(error.message, declared, loaded.get("preload", ()))


def listen(
    hold: Hold, choice: Choice, assembled: Assembled, stream: Stream
) -> Completion:
    items = stream_with_retries(
        choice.provider,
        assembled.request,
        hold.interrupt,
        lambda retry: _tell_retry(stream, retry),
    )
    for item in items:
        if isinstance(item, Delta):
            stream.take(item)
        elif isinstance(item, Restarted):
            stream.restart()
        else:
            return item
    raise ProviderUnavailable("The model service ended without an answer.")


def _require_something(completion: Completion, choice: Choice) -> None:
    """An answer must say or ask something. Raises ProviderRejected."""
    if completion.text or completion.tool_calls or completion.stop_reason == "pause":
        return
    reasons = {
        "refusal": "refused to answer this.",
        "max_tokens": "used up its output limit before it said anything.",
    }
    why = reasons.get(completion.stop_reason, "gave an empty answer.")
    raise ProviderRejected(
        f"{choice.language_model.name} {why} Nothing is lost: press Retry, or say it "
        "in other words."
    )


def storable(requests: tuple[ToolRequest, ...]) -> tuple[ToolRequest, ...]:
    """The calls with ids, names and arguments that every database can hold."""
    return tuple(
        ToolRequest(
            _short_id(clean(request.call_id)),
            clean(request.name)[:LONGEST_NAME],
            clean(request.arguments),
        )
        for request in requests
    )


def _short_id(call_id: str) -> str:
    if len(call_id) <= LONGEST_NAME:
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()


def _tell_retry(stream: Stream, retry: Retry) -> None:
    stream.call.retries = retry.tries
    emit(
        events.ProviderRetried(
            **stream.hold.ids,
            round=stream.call.round,
            attempt=retry.tries + 1,
            delay=round(retry.pause, 1),
            error=retry.error.message,
        )
    )


def _store(
    stream: Stream, choice: Choice, assembled: Assembled, completion: Completion
) -> list[ToolCall]:
    """Append the answer with its calls, and settle the model call: all or nothing."""
    hold, run = stream.hold, stream.hold.run
    body = _answer_body(stream, assembled, completion)
    cost = cost_of(completion.usage, choice.language_model)
    draft = Draft(kind=Entry.Kind.ASSISTANT, body=body, turn=run.turn)
    sealed = transcript.seal(run.conversation_id, draft)
    with transaction.atomic():
        [entry] = hold.append(*sealed, **totals(stream, completion.usage, cost))
        transaction.on_commit(stream.close)
        calls = _open_tool_calls(stream, entry, completion.tool_calls)
        changed = judged(stream, assembled, completion.usage)
        settle(stream, ModelCall.State.COMPLETED, completion, cost)
        completed = events.MessageCompleted(
            **hold.ids,
            seq=entry.seq,
            characters=len(completion.text),
            tool_calls=len(calls),
        )
        reports = [] if calls else [_report_event(stream, assembled, completion.usage)]
        emit(
            *changed,
            called_event(stream, completion.usage, completion.stop_reason),
            completed,
            *reports,
        )
        is_answer = not calls and completion.stop_reason != "pause"
        ends = is_answer and finish_with_answer(hold, assembled.seen_seq)
    hold.has_ended = ends
    return calls


def judged(stream: Stream, assembled: Assembled, usage: Usage) -> list[Event]:
    """Note on the call what the service's cache lacked; tell of a prefix that changed.

    What was declared in between told of itself when it was.
    """
    hold, call = stream.hold, stream.call
    sent = sent_of(call, usage, rows_of(assembled.segments))
    before = hold.previous or previous_call(call)
    hold.previous = sent
    verdict = judge(before, sent, hold.items)
    call.prefix_tokens_expected = verdict.expected
    change = verdict.change
    if change is None:
        return []
    if verdict.is_break and reports_cache(call, before, sent):
        call.cache_break = {
            "segment": change.segment,
            "cause": change.cause,
            "lost_tokens": verdict.lost,
            "at_byte": assembled.offset_of(change.segment),
        }
    if change.cause not in TOLD_HERE:
        return []
    return [
        events.PrefixChanged(**hold.ids, segment=change.segment, cause=change.cause)
    ]


def sent_of(call: ModelCall, usage: Usage, rows: Iterable[Sequence[Any]]) -> Sent:
    return Sent(
        endpoint=call.endpoint_name,
        model=call.model_name,
        mode=call.mode,
        effort=call.effort,
        at=call.at,
        seen_seq=call.seen_seq,
        rows=compared(rows),
        input=usage.total_input if usage.reported else None,
        cache_read=usage.cache_read if usage.reported else None,
    )


_ANSWERED = Select[ModelCall](
    lambda: ModelCall.objects.filter(
        run__conversation=given("conversation", Run, "conversation"),
        state=ModelCall.State.COMPLETED,
        pk__lt=given("before", ModelCall, "id"),
    ).order_by("-pk")[:1]
)


def previous_call(call: ModelCall) -> Sent | None:
    """The conversation's last answered request before this one. One query."""
    found = _ANSWERED.first(conversation=call.run.conversation_id, before=call.pk)
    if found is None:
        return None
    usage = Usage(
        found.input or 0,
        found.cache_read or 0,
        found.cache_write or 0,
        reported=found.input is not None,
    )
    return sent_of(found, usage, found.segments)


def reports_cache(call: ModelCall, *requests: Sent | None) -> bool:
    """Whether the service tells of its cache at all: many count what they read, some
    never do, and then nothing can be missed. A query only if these calls do not tell.
    """
    if any(one and one.cache_read for one in requests):
        return True
    same = ModelCall.objects.filter(
        endpoint_name=call.endpoint_name, model_name=call.model_name, cache_read__gt=0
    )
    return same.exists()


def _report_event(
    stream: Stream, assembled: Assembled, usage: Usage
) -> events.ContextReported:
    """The account of the turn's last request."""
    reported = usage.total_input if usage.reported else None
    report = report_of(assembled, reported, cached=usage.cache_read)
    return events.ContextReported(
        **stream.hold.ids,
        rows={row.key: row.tokens for row in report.rows},
        total=report.total,
        window=report.cap,
    )


def _answer_body(
    stream: Stream, assembled: Assembled, completion: Completion
) -> dict[str, Any]:
    return {
        "text": completion.text,
        "reasoning": completion.reasoning,
        "tool_calls": [asdict(call) for call in completion.tool_calls],
        "opaque": completion.opaque,
        "usage": asdict(completion.usage),
        "stop_reason": completion.stop_reason,
        "round": stream.call.round,
        "model_name": stream.call.model_name,
        "seen_seq": assembled.seen_seq,
        "stopped": False,
        "duration_ms": stream.elapsed_ms,
    }


def totals(stream: Stream, usage: Usage, cost: Decimal | None) -> dict[str, Any]:
    """The run's sums after this call."""
    run = stream.hold.run
    run.tokens_in += usage.total_input
    run.tokens_cached += usage.cache_read
    run.tokens_out += usage.output + usage.reasoning
    if cost is not None:
        run.cost = (run.cost or Decimal()) + cost
    return {
        "tokens_in": run.tokens_in,
        "tokens_cached": run.tokens_cached,
        "tokens_out": run.tokens_out,
        "cost": run.cost,
    }


def _open_tool_calls(
    stream: Stream, entry: Entry, requests: tuple[ToolRequest, ...]
) -> list[ToolCall]:
    return ToolCall.objects.bulk_create(
        ToolCall(
            run=stream.hold.run,
            entry=entry,
            round=stream.call.round,
            index=index,
            call_id=request.call_id,
            name=request.name,
            arguments=request.arguments,
            argument_hash=hash_of(request.name, request.arguments),
        )
        for index, request in enumerate(requests)
    )


_CALL = Update(lambda: ModelCall.objects.filter(pk=given("pk", ModelCall, "id")))


def settle(
    stream: Stream,
    state: ModelCall.State,
    completion: Completion | None = None,
    cost: Decimal | None = None,
    error: str = "",
) -> None:
    """Write down how the model call ended."""
    changes: dict[str, Any] = {
        "state": state,
        "error": error,
        "cost": cost,
        "retries": stream.call.retries,
        "first_token_ms": stream.first_token_ms,
        "duration_ms": stream.elapsed_ms,
        "prefix_tokens_expected": stream.call.prefix_tokens_expected,
        "cache_break": stream.call.cache_break,
    }
    if completion is not None:
        changes["stop_reason"] = completion.stop_reason
        if completion.usage.reported:
            changes |= {axis: getattr(completion.usage, axis) for axis in AXES}
    _CALL.run(changes, pk=stream.call.pk)


def settle_stopped(stream: Stream, assembled: Assembled, *, keep: bool) -> None:
    """Keep the text so far as a stopped message, or show that it is superseded."""
    hold, text = stream.hold, stream.text("text")
    if not keep:
        stream.restart()
    with transaction.atomic():
        if keep and text:
            said = Completion(text, stream.text("reasoning"), (), Usage(), "other")
            body = _answer_body(stream, assembled, said) | {"stopped": True}
            hold.append(Draft(kind=Entry.Kind.ASSISTANT, body=body, turn=hold.run.turn))
        else:
            hold.guard()
        settle(stream, ModelCall.State.STOPPED)
        emit(called_event(stream, Usage(), "stopped"))
    stream.close()


@transaction.atomic
def settle_failed(stream: Stream, error: ProviderError) -> None:
    stream.hold.guard()
    settle(stream, ModelCall.State.FAILED, error=error.message)
    emit(called_event(stream, Usage(), "other", error.message))


def called_event(
    stream: Stream, usage: Usage, stop_reason: str, error: str = ""
) -> events.ModelCalled:
    return events.ModelCalled(
        **stream.hold.ids,
        round=stream.call.round,
        model_name=stream.call.model_name,
        input=usage.input,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        output=usage.output,
        reasoning=usage.reasoning,
        first_token_ms=stream.first_token_ms,
        duration_ms=stream.elapsed_ms,
        stop_reason=stop_reason,
        error=error,
    )


def cost_of(usage: Usage, model: LanguageModel) -> Decimal | None:
    """US dollars of one call; None when a price that it needs is unknown."""
    if not usage.reported or model.price_input is None or model.price_output is None:
        return None
    read = model.price_cache_read
    write = model.price_cache_write
    return (
        usage.input * model.price_input
        + usage.cache_read * (model.price_input if read is None else read)
        + usage.cache_write * (model.price_input if write is None else write)
        + (usage.output + usage.reasoning) * model.price_output
    ) / 1_000_000
