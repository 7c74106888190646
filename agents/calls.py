"""One call's way: resolve, schema, surface, guard, decide, run, cap, store.

Every step is stored before the next one begins, so a worker that takes over knows what
was started and what came of it. Outcomes are never repeated; a call that was started
and has none is run again only if its tool is idempotent.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from uuid import UUID

from django.db import close_old_connections, connections, transaction
from django.utils import timezone
from pydantic import ValidationError

from agents import events, planning, results
from agents.approvals import Pending, answer_of_people, permit
from agents.attaching import Brought, brought_in
from agents.batches import Ready, batches
from agents.children import reporting, starting
from agents.children.desk import Desk as AgentDesk
from agents.children.family import is_read_only
from agents.context import outgoing
from agents.context.governance import Governance
from agents.context.restating import reviewed
from agents.context.skills import is_before_the_model
from agents.errors import RunStopped, RunWaiting, ToolError
from agents.guard import Remark
from agents.guarding import Watch
from agents.mcp.schemas import problems
from agents.memories import Desk
from agents.models import ToolCall
from agents.providers.wire import clean
from agents.reach import bridge_of, read_on, record_loads
from agents.results import outcome_of
from agents.runs import Hold, store_results
from agents.surface.bridge import Bridge, schema_digest
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult
from agents.tools.caps import cap
from agents.tools.registry import resolve
from workspace import attachments, blobs, live
from workspace.events import emit
from workspace.models import Attachment

logger = logging.getLogger(__name__)

#: Tools of all runs of this process work here, so that their number is bounded.
_POOL = ThreadPoolExecutor(max_workers=64, thread_name_prefix="tool")

#: Seconds of the longest tool timeout, for the watchdog.
LONGEST_TOOL = 3600


def hash_of(name: str, arguments: str) -> str:
    """What approvals are bound to: the tool and its arguments, order of keys aside."""
    try:
        plain = json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        plain = arguments
    return hashlib.sha256(f"{name}\n{plain}".encode("utf-8", "replace")).hexdigest()


def answer_calls(hold: Hold, calls: Sequence[ToolCall]) -> None:
    """Carry out the calls of one message and append their results in call order.

    Raises RunWaiting when some of them need a person first; the others are done then.
    """
    read_on(hold)
    bridge = bridge_of(hold)
    watch = Watch(
        hold,
        calls,
        Governance.now(hold.run.conversation),
        lambda name: find_tool(name, bridge),
    )
    ready: list[Ready] = []
    waiting = False
    for call in calls:
        if call.state == ToolCall.State.ENDED:
            continue
        try:
            prepared = prepare(hold, call, bridge, watch)
        except ToolError as error:
            prepared = ToolResult.failed(error.code, error.message)
        except Pending:
            waiting = True
            continue
        if isinstance(prepared, ToolResult):
            _end(hold, call, prepared, watch)
        else:
            ready.append(prepared)
    tasks = [one for one in ready if one.tool.waits_for == "children"]
    for batch in batches([one for one in ready if one not in tasks]):
        hold.interrupt.check()
        if left := [one for one in batch if not _answered(hold, one, watch)]:
            run_batch(hold, left, watch)
    waiting |= hand_out(hold, tasks, watch)
    _append_known(hold, calls)
    if waiting:
        raise RunWaiting


def hand_out(hold: Hold, tasks: Sequence[Ready], watch: Watch) -> bool:
    """Begin the children of a message, once its other calls are done; whether any did."""
    begun = False
    for one in tasks:
        hold.interrupt.check()
        if _answered(hold, one, watch):
            continue
        try:
            starting.begin(hold, one)
            if result := reporting.outcome_of(one.call):  # it works in the background
                _end(hold, one.call, _marked(result, one), watch, one)
            else:
                begun = True
        except ToolError as error:
            _end(hold, one.call, ToolResult.failed(error.code, error.message), watch)
    return begun


def _answered(hold: Hold, one: Ready, watch: Watch) -> bool:
    """Whether the guard answers a call that it could not judge before its turn came."""
    if not one.unchecked:
        return False
    result = watch.check(one.call, one.tool, one.arguments)
    if result is not None:
        _end(hold, one.call, result, watch)
    return result is not None


def _append_known(hold: Hold, calls: Sequence[ToolCall]) -> None:
    """Append the results up to the first call that is still open."""
    known: list[ToolCall] = []
    for call in calls:
        if call.state != ToolCall.State.ENDED:
            break
        if call.result_entry_id is None:
            known.append(call)
    if not known:
        return
    is_whole = all(call.state == ToolCall.State.ENDED for call in calls)
    brought = brought_in(hold, calls) if is_whole else Brought()
    store_results(hold, known, *brought.drafts, told=brought.events)


def prepare(
    hold: Hold, call: ToolCall, bridge: Bridge, watch: Watch
) -> Ready | ToolResult:
    """Check a call, cheap checks first; a question that was answered is its result.

    Raises ToolError to refuse the call and Pending when somebody must act first.
    """
    tool, text = resolve_tool(hold, call, bridge)
    if call.state == ToolCall.State.STARTED and not tool.idempotent:
        raise ToolError(
            results.interruption_of(call)["error"]["message"], code="interrupted"
        )
    if tool.waits_for == "children" and reporting.is_begun(call):
        return result_of_child(call)
    arguments = read_arguments(tool, text)
    unchecked = watch.is_early(call)
    if not unchecked and (known := watch.check(call, tool, arguments)):
        return known
    if tool.waits_for == "question":
        return answer_of_people(hold, call, arguments)
    permit(hold, call, tool, arguments)
    if tool.waits_for == "plan":
        planning.ask_people(hold, call, arguments)
    return Ready(
        call,
        tool,
        arguments,
        bridge,
        direct=tool.name in bridge.hidden and call.name != "tool_call",
        follows=watch.is_ahead(call),
        unchecked=unchecked,
    )


def result_of_child(call: ToolCall) -> ToolResult:
    """The report of the call's child; Pending until it has ended."""
    result = reporting.outcome_of(call)
    if result is None:
        raise Pending
    return result


def resolve_tool(hold: Hold, call: ToolCall, bridge: Bridge) -> tuple[Tool, str]:
    """The real tool and its raw arguments. ToolError says what to do instead."""
    tool = find_tool(call.name, bridge)
    if tool is None:
        raise ToolError(_unknown(call.name, bridge), code="unknown_tool")
    surface = bridge.surface
    if tool.name in (*surface.denied, *surface.absent):
        code = "absent" if tool.name in surface.absent else "denied"
        why = surface.reasons[tool.name]
        raise ToolError(f"{tool.name} is not available: {why}", code=code)
    if tool.name == "tool_call":
        return bridge.unwrap(call.arguments, reviewed(hold.items))
    return tool, call.arguments


def find_tool(name: str, bridge: Bridge) -> Tool | None:
    """The tool with this name or alias that the workspace knows, reachable or not."""
    return resolve(name) or bridge.tools.get(name)


def _unknown(name: str, bridge: Bridge) -> str:
    """Names the nearest declared tools, and the way to the others."""
    names = sorted(bridge.declared)
    near = difflib.get_close_matches(name, names, n=3)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    if bridge.hidden:
        hint += " Find others with tool_search, or see list_my_tools."
    elif not near:
        hint = f" There are: {', '.join(names)}."
    return f"There is no tool named {name!r}.{hint}"


def read_arguments(tool: Tool, text: str) -> Arguments:
    """Parse and validate. ToolError says what is wrong and repeats the schema."""
    try:
        arguments = tool.arguments.model_validate(json.loads(text or "{}"))
        found = problems(tool.served_schema, arguments.model_dump())
        if not found:
            return arguments
        wrong = "; ".join(found)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, row['loc'])) or 'arguments'}: {row['msg']}"
            for row in error.errors(include_url=False)[:5]
        )
    except (ValueError, RecursionError) as error:
        wrong = f"not valid JSON ({error})"
    raise ToolError(
        f"The arguments of {tool.name} do not fit: {wrong}. Its schema: {tool.schema}",
        code="bad_arguments",
    )


def run_batch(hold: Hold, batch: Sequence[Ready], watch: Watch) -> None:
    """Mark the calls started, run them side by side, store each outcome as it comes."""
    _mark_started(hold, batch)
    hold.expect(LONGEST_TOOL)
    if len(batch) == 1:
        [one] = batch
        _end(hold, one.call, carry_out(hold, one), watch, one)
        return
    futures: dict[Future[ToolResult], Ready] = {
        _POOL.submit(_carry_out_in_thread, hold, one): one for one in batch
    }
    for future in as_completed(futures):
        one = futures[future]
        _end(hold, one.call, future.result(), watch, one)


@transaction.atomic
def _mark_started(hold: Hold, batch: Sequence[Ready]) -> None:
    hold.guard()
    now = timezone.now()
    for one in batch:
        one.call.state, one.call.started_at = ToolCall.State.STARTED, now
        live.push_on_commit(
            live.conversation_group(hold.run.conversation_id),
            {
                "type": "tool.started",
                "call_id": one.call.call_id,
                "name": one.tool.name,
            },
        )
    ToolCall.objects.bulk_update(
        [one.call for one in batch], ["state", "started_at", "decision"]
    )
    emit(
        *(
            events.ToolCalled(
                **hold.ids,
                tool=one.tool.name,
                call_id=one.call.call_id,
                arguments=one.call.arguments[:2000],
                decision=(one.call.decision or {}).get("rule", ""),
            )
            for one in batch
        )
    )


def _carry_out_in_thread(hold: Hold, one: Ready) -> ToolResult:
    close_old_connections()
    try:
        return carry_out(hold, one)
    finally:
        connections.close_all()


def carry_out(hold: Hold, one: Ready) -> ToolResult:
    """Run a tool; whatever goes wrong in it becomes its result."""
    assert one.tool.run is not None, "a tool that waits is answered before this"
    stream = live.TextStream(
        hold.run.conversation_id, f"call:{one.call.call_id}", "tool"
    )
    try:
        result = one.tool.run(context_of(hold, one, stream), one.arguments)
        return _marked(result, one)
    except RunStopped:
        return _cut_short(one)
    except ToolError as error:
        return ToolResult.failed(error.code, error.message)
    except Exception:
        logger.exception("Tool %r failed in run %s", one.tool.name, hold.run.pk)
        return ToolResult.failed(
            "internal",
            f"{one.tool.name} failed inside the server; the operator's log has the "
            "details. Try another way.",
        )
    finally:
        stream.close()


def _marked(result: ToolResult, one: Ready) -> ToolResult:
    """Note in the result's meta what the page cannot see from the call itself."""
    meta = dict(result.meta)
    if one.direct:
        meta |= {"direct": True, "loaded": {one.tool.name: schema_digest(one.tool)}}
        meta |= one.bridge.introduced([one.tool])
    if one.call.name == "tool_call":
        meta |= {"tool": one.tool.name}
    return dataclasses.replace(result, meta=meta)


def _cut_short(one: Ready) -> ToolResult:
    error = results.interruption_of(one.call)["error"]
    return ToolResult.failed(error["code"], error["message"])


def context_of(hold: Hold, one: Ready, stream: live.TextStream) -> ToolContext:
    run, author = hold.run, hold.run.turn.author
    return ToolContext(
        root=run.conversation.root,
        workspace_id=run.workspace_id,
        conversation_id=run.conversation_id,
        run_id=run.pk,
        call_id=one.call.call_id,
        interrupt=hold.interrupt,
        author_name=str(author) if author else "Tallyroom",
        author_email=(author.email if author else "") or "agent@tallyroom.invalid",
        network=run.conversation.workspace.network,
        read_only=is_read_only(run.conversation),
        last_seen=lambda path: last_seen(run.conversation_id, path),
        stored_output=lambda path: stored_output(hold, path),
        has_skill=lambda name, digest: has_skill(hold, name, digest),
        unavailable=one.bridge.unavailable,
        progress=stream.write,
        settle=lambda arguments: planning.settle(hold, one.call, one.tool, arguments),
        sees_images=hold.sees_images,
        memory=Desk(run),
        agents=AgentDesk(run),
        bridge=one.bridge,
    )


def last_seen(conversation_id: UUID, path: str) -> str | None:
    """The sha256 under which the conversation last read or wrote a file."""
    calls = ToolCall.objects.filter(
        run__conversation_id=conversation_id,
        ok=True,
        outcome__meta__path=path,
        outcome__meta__sha256__isnull=False,
    )
    newest = calls.order_by("-ended_at").values_list("outcome", flat=True).first()
    return newest["meta"]["sha256"] if newest else None


def has_skill(hold: Hold, name: str, digest: str) -> bool:
    """Whether the model has this very text of a skill before it."""
    items = hold.items
    return is_before_the_model(items, outgoing.verbatim(items), name, digest)


def stored_output(hold: Hold, path: str) -> bytes | None:
    """The whole output or attached text of this conversation at a virtual path."""
    prefix = path.rsplit("/", 1)[-1].removesuffix(".txt")
    if len(prefix) < 8:
        return None
    found = ToolCall.objects.filter(
        run__conversation_id=hold.run.conversation_id,
        outcome__output_sha256__startswith=prefix,
    ).first()
    if found and found.outcome:
        return blobs.get(hold.run.workspace_id, found.outcome["output_sha256"])
    text = Attachment.objects.filter(
        conversation=hold.run.conversation_id,
        kind=Attachment.Kind.TEXT,
        sha256__startswith=prefix,
        sent_at__isnull=False,
    ).first()
    return blobs.get(hold.run.workspace_id, text.sha256) if text else None


def _end(
    hold: Hold,
    call: ToolCall,
    result: ToolResult,
    watch: Watch,
    ran: Ready | None = None,
) -> None:
    """Cap, annotate and store what a call came to. Its whole output goes to the blobs."""
    if call.state == ToolCall.State.ENDED:
        return
    remark = watch.remark(call, result)
    shown, sha256 = _shown(hold, result, remark)
    call.state, call.ended_at, call.ok = ToolCall.State.ENDED, timezone.now(), result.ok
    call.started_at = call.started_at or call.ended_at
    annotated = dataclasses.replace(
        result, error=remark.error(result.error), meta=remark.meta(result.meta)
    )
    call.outcome = outcome_of(annotated, output=shown, output_sha256=sha256)
    with transaction.atomic():
        hold.guard()
        notes = record_loads(hold, call, ran.tool, result, ran.bridge) if ran else []
        if notes:
            call.outcome["notes"] = notes
        call.save()
        attachments.register_images(
            hold.run.conversation_id,
            hold.run.workspace_id,
            result.meta.get("images", ()),
        )
        emit(_finished_event(hold, call, len(result.output)))
        if remark.suspected:
            name, count = remark.suspected
            emit(events.LoopSuspected(**hold.ids, tool=name, count=count))
    live.push(
        live.conversation_group(hold.run.conversation_id),
        {"type": "tool.ended", "call_id": call.call_id},
    )


def _shown(hold: Hold, result: ToolResult, remark: Remark) -> tuple[str, str]:
    """The output as it is sent, and under which hash the whole one is kept, or ""."""
    data = result.output.encode("utf-8", "replace")
    sha256 = hashlib.sha256(data).hexdigest()
    shown = clean(cap(result.output, sha256))
    is_kept = shown != result.output and remark.stub is None
    if is_kept:
        blobs.put(hold.run.workspace_id, data)
    return remark.output(shown, result.ok), sha256 if is_kept else ""


def _finished_event(hold: Hold, call: ToolCall, size: int) -> events.ToolFinished:
    assert call.started_at, "set when the call ends, at the latest"
    assert call.ended_at, "set by the caller"
    error = (call.outcome or {}).get("error") or {}
    return events.ToolFinished(
        **hold.ids,
        tool=call.name,
        call_id=call.call_id,
        ok=bool(call.ok),
        characters=size,
        duration_ms=int((call.ended_at - call.started_at).total_seconds() * 1000),
        error=error.get("code", ""),
    )
