"""A run's way through its states, and who may write for it.

queued -> running -> (waiting -> queued)* -> finished | failed | stopped

Each change is one transaction that takes the conversation's row, then the run's, and
whose conditional update says who won; events come last. The turn shows the run's state to people.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _

from agents import doorbell, events, results
from agents.children import family, reporting
from agents.context.breaks import Sent
from agents.context.growing import Kept
from agents.context.view import Item
from agents.errors import RunReleased, RunStoppedByUser
from agents.interrupts import Interrupt
from agents.models import Agent, Delegation, ModelCall, Run, ToolCall, Wait
from agents.providers.wire import clean_values
from workspace import access, live, transcript
from workspace.actions import conversations
from workspace.errors import Conflict, LeaseLost
from workspace.events import Event, emit
from workspace.models import Conversation, Entry, QueuedMessage, Turn, User
from workspace.prepared import Select, Update, given, insert
from workspace.transcript import Draft, Sealed

#: What people read while a run waits for nobody but its children.
CHILDREN_AT_WORK = "The agents it handed tasks to are at work."
OF_CHILDREN = (Wait.Kind.CHILDREN.value,)

_HELD = Update(
    lambda: Run.objects.filter(
        pk=given("pk", Run, "id"),
        fence=given("fence", Run, "fence"),
        state=Run.State.RUNNING,
    )
)

#: A stop of a queued run ends it at once, so none is asked for here.
_NEW = Update(
    lambda: Run.objects.filter(
        pk=given("pk", Run, "id"), fence=0, state=Run.State.QUEUED
    )
)


@dataclass
class Hold:
    """A worker's right to write for a run: the fence it claimed."""

    run: Run
    fence: int
    interrupt: Interrupt = field(default_factory=Interrupt)
    #: `time.monotonic()` after which the present step counts as stuck.
    stuck_after: float = float("inf")
    #: Set when the worker drains: the run is handed back between two rounds.
    leave_at_boundary: bool = False
    #: Whether the model that is asked may be shown images.
    sees_images: bool = True
    #: A run that nobody has claimed yet: the first write does.
    is_new: bool = False
    #: Set once the run's end is stored.
    has_ended: bool = False
    #: The transcript as far as it was read: reading on costs what is new.
    items: list[Item] = field(default_factory=list)
    #: The conversation's previous model call, once it was looked up.
    previous: Sent | None = None
    #: What was made of it for requests so far.
    kept: Kept = field(default_factory=Kept)

    def guard(self, **changes: Any) -> None:
        """Check the fence and change the run in one statement; LeaseLost if lost."""
        changes = changes or {"fence": self.fence}
        if self.is_new and self._claim(changes):
            return
        if not _HELD.run(changes, pk=self.run.pk, fence=self.fence):
            raise LeaseLost(f"Run {self.run.pk} is no longer held by this worker.")

    def let_go(self, **changes: Any) -> None:
        """`guard` for who gives the run back: one that was never claimed stays queued."""
        is_mine = _HELD.run(changes, pk=self.run.pk, fence=self.fence)
        if not is_mine and not self.is_new:
            raise LeaseLost(f"Run {self.run.pk} is no longer held by this worker.")

    def _claim(self, changes: dict[str, Any]) -> bool:
        """Claim a new run together with its first changes; False if it is not queued.

        It stays new until that is committed, and is claimed again after a rollback.
        """
        run = self.run
        claimed = {
            "state": Run.State.RUNNING,
            "fence": self.fence,
            "worker": run.worker,
            "lease_until": lease_end(),
            "started_at": run.started_at,
        }
        try:
            if not _NEW.run(claimed | changes, pk=run.pk):
                return False
        except IntegrityError:
            raise LeaseLost(f"Another run is at work before run {run.pk}.") from None
        emit(events.RunStarted(**self.ids, worker=run.worker, agent=run.agent.name))
        show(run, Turn.State.RUNNING)
        transaction.on_commit(self._is_claimed)
        return True

    def _is_claimed(self) -> None:
        self.is_new = False

    def check(self) -> None:
        """At a round boundary: raise if the run was stopped or has to move on."""
        self.interrupt.check()
        if self.leave_at_boundary:
            raise RunReleased

    def append(self, *drafts: Draft | Sealed, **changes: Any) -> list[Entry]:
        """Append entries as this run, with changes to its row; all or nothing."""
        entries = transcript.append(
            self.run.conversation_id, *drafts, guard=lambda: self.guard(**changes)
        )
        conversations.push_appended(self.run.conversation_id, entries)
        return entries

    def expect(self, seconds: float) -> None:
        """Announce how long the next step may take before the watchdog gives up."""
        self.stuck_after = time.monotonic() + seconds + 30

    @property
    def seen_seq(self) -> int:
        return self.items[-1].seq if self.items else 0

    @property
    def ids(self) -> dict[str, UUID]:
        """What every event of the run carries."""
        return ids_of(self.run)


def ids_of(run: Run) -> dict[str, UUID]:
    return {"run_id": run.pk, "conversation_id": run.conversation_id}


def lease_end(now: datetime | None = None) -> datetime:
    return (now or timezone.now()) + timedelta(seconds=settings.RUN_LEASE_SECONDS)


def lock(conversation_id: UUID) -> Conversation:
    """Take the conversation's row: the first lock of every change."""
    rows = Conversation.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("workspace").get(pk=conversation_id)


def lock_row(conversation_id: UUID) -> None:
    """The same for who needs nothing of the row.

    Where rows have no locks (SQLite), the transaction has kept other writers out.
    """
    if not connection.features.has_select_for_update:
        return
    rows = Conversation.objects.select_for_update().filter(pk=conversation_id)
    rows.values_list("pk").get()


def lock_line(run: Run) -> None:
    """Take the run's conversation to end it, after the one it works for.

    Always downwards: a parent that ends takes those of its children.
    """
    if run.conversation.parent_id:
        lock_row(run.conversation.parent_id)
    lock_row(run.conversation_id)


def open_run(
    *,
    turn: Turn,
    agent: Agent,
    trigger: str,
    started_by: User | None,
    since_seq: int,
) -> Run:
    """Queue one attempt at a turn and ring for it. Inside the caller's transaction.

    `since_seq` is the transcript's head: what is appended later is the run's.
    """
    run = Run(
        turn=turn,
        conversation_id=turn.conversation_id,
        workspace_id=agent.workspace_id,
        agent=agent,
        trigger=trigger,
        started_by=started_by,
        since_seq=since_seq,
        rung_at=timezone.now(),
    )
    insert(run)
    emit(events.RunQueued(**ids_of(run), trigger=trigger, turn_id=turn.pk))
    doorbell.ring_on_commit(run.pk, run.trigger)
    return run


_AT_WORK = Select[Run](
    lambda: (
        Run.objects.filter(
            conversation=given("conversation", Run, "conversation"),
            state__in=Run.OPEN,
        )
        .select_related("turn")
        .order_by("created_at")[:1]
    )
)


def at_work(conversation: Conversation) -> Run | None:
    """The run that is queued, running or waiting; the oldest of them."""
    return _AT_WORK.first(conversation=conversation.pk)


def require_people(conversation: Conversation) -> None:
    """Raises Conflict in a child: only its parent's task is answered there."""
    if conversation.parent_id:
        raise Conflict(
            _(
                "This is an agent at work on a task of another one. Write in the "
                "conversation that it works for."
            )
        )


def require_own(user: User, run: Run, ability: access.Ability) -> None:
    """One's own turn, or the right to act on anyone's."""
    if run.turn.author_id != user.pk:
        access.require(user, run.conversation.workspace, ability)


def take(run_id: UUID, worker: str) -> Hold | None:
    """A queued run for this worker to play; None if it is not queued.

    A new run is claimed by the first write for it, mostly that of its first request:
    who is late loses what was made ready, and no write is spent on the claim alone.
    """
    run = _WHOLE.first(pk=run_id)
    if run is None or run.state != Run.State.QUEUED:
        return None
    if run.fence or run.round:
        return claim(run_id, worker)
    run.state, run.fence = Run.State.RUNNING, 1
    run.worker, run.started_at = worker, run.started_at or timezone.now()
    return Hold(run, run.fence, is_new=True)


def claim(run_id: UUID, worker: str) -> Hold | None:
    """Take a queued run; None if it is not queued or another one is at work."""
    try:
        with transaction.atomic():
            return _claim(run_id, worker)
    except IntegrityError:
        return None  # one run at work per conversation; the sweeper rings again


_WHOLE = Select[Run](
    lambda: Run.objects.select_related(
        "turn__author", "agent", "conversation__workspace", "started_by"
    ).filter(pk=given("pk", Run, "id"))
)


def _claim(run_id: UUID, worker: str) -> Hold | None:
    taken = Run.objects.filter(pk=run_id, state=Run.State.QUEUED).update(
        state=Run.State.RUNNING,
        fence=F("fence") + 1,
        worker=worker,
        lease_until=lease_end(),
        started_at=Coalesce("started_at", timezone.now()),
    )
    if not taken:
        return None
    run = _WHOLE.first(pk=run_id)
    assert run, "it was there a moment ago, and rows are never deleted"
    if run.fence == 1:
        emit(events.RunStarted(**ids_of(run), worker=worker, agent=run.agent.name))
    else:
        cause = "restart" if run.restarts else "wait"
        emit(events.RunResumed(**ids_of(run), worker=worker, cause=cause))
    show(run, Turn.State.RUNNING)
    hold = Hold(run, run.fence)
    if run.stop_requested_at:
        hold.interrupt.stop(RunStoppedByUser())  # asked of a worker that was lost
    return hold


_TURN = Update(lambda: Turn.objects.filter(pk=given("pk", Turn, "id")))


def show(run: Run, state: Turn.State, message: str = "") -> None:
    """Set what people see of the run's turn, and push it."""
    ended = None if state in Turn.OPEN else timezone.now()
    changes = {"state": state, "message": message, "ended_at": ended}
    _TURN.run(changes, pk=run.turn_id)
    live.push_on_commit(
        live.conversation_group(run.conversation_id),
        {"type": "turn.changed", "turn": str(run.turn_id), "state": state},
    )
    push_of_child(run.conversation)


def push_of_child(conversation: Conversation) -> None:
    """Tell the page of people that something changed about a child."""
    if conversation.top_id:
        live.push_on_commit(
            live.conversation_group(conversation.top_id), {"type": "child.changed"}
        )


_STOPPED = Select[tuple[UUID]](
    lambda: Run.objects.filter(
        pk=given("pk", Run, "id"), stop_requested_at__isnull=False
    ).values_list("pk")
)


def finish(hold: Hold, seen_seq: int) -> bool:
    """End an answered run; False if somebody said something it has not heard."""
    run = hold.run
    with transaction.atomic():
        lock_line(run)
        if _STOPPED.first(pk=run.pk):
            raise RunStoppedByUser
        if unheard(run.conversation_id, seen_seq) or _unread(run, seen_seq):
            return False
        if family.works_on(run):
            _rest_for_children(hold)
            return True
        _finish(hold)
    return True


def finish_with_answer(hold: Hold, seen_seq: int) -> bool:
    """`finish` in the transaction that stores the answer, if nothing stands against it.

    Otherwise, and for a child, whose parent must be locked first, the loop does it.
    """
    run = hold.run
    if run.conversation.parent_id or _STOPPED.first(pk=run.pk):
        return False
    if unheard(run.conversation_id, seen_seq) or _unread(run, seen_seq):
        return False
    if family.works_on(run):
        return False
    _finish(hold)
    return True


def _finish(hold: Hold) -> None:
    _end(hold, Run.State.FINISHED)
    emit(events.RunFinished(**hold.ids, rounds=hold.run.round))


_SAID = Select[tuple[int]](
    lambda: Entry.objects.filter(
        conversation=given("conversation", Entry, "conversation"),
        seq__gt=given("seen", Entry, "seq"),
        kind=Entry.Kind.USER,
    ).values_list("seq")[:1]
)


def unheard(conversation_id: UUID, seen_seq: int) -> bool:
    """Whether people spoke after the request that the last answer answers."""
    return bool(_SAID.first(conversation=conversation_id, seen=seen_seq))


@transaction.atomic
def fail(hold: Hold, message: str) -> None:
    """End a run that cannot go on; `message` is a sentence for people."""
    lock_line(hold.run)
    _end(hold, Run.State.FAILED, message)
    emit(events.RunFailed(**hold.ids, message=message))


@transaction.atomic
def stop(hold: Hold) -> None:
    """End a run that somebody stopped."""
    lock_line(hold.run)
    by = _stopper(hold.run)
    _end(hold, Run.State.STOPPED, f"Stopped by {by}.")
    emit(events.RunStopped(**hold.ids, by=by))


def _stopper(run: Run) -> str:
    return str(_asked_to_stop(run) or "the system")


def _asked_to_stop(run: Run) -> User | None:
    """Who asked for the run's end; None if nobody did."""
    asked = Run.objects.select_related("stop_requested_by").get(pk=run.pk)
    return asked.stop_requested_by


_SENT_CALLS = Update(
    lambda: ModelCall.objects.filter(
        run=given("run", ModelCall, "run"), state=ModelCall.State.SENT
    )
)
_OPEN_WAITS = Update(
    lambda: Wait.objects.filter(run=given("run", Wait, "run"), outcome="")
)


def _end(hold: Hold, state: Run.State, message: str = "") -> None:
    """The common end, in the caller's transaction, with the conversation locked."""
    run = hold.run
    close_calls(hold)
    now = timezone.now()
    hold.guard(state=state, ended_at=now, lease_until=None, message=message)
    was_stopped = state == Run.State.STOPPED
    lost = ModelCall.State.STOPPED if was_stopped else ModelCall.State.LOST
    _SENT_CALLS.run({"state": lost}, run=run.pk)
    _OPEN_WAITS.run({"outcome": Wait.Outcome.CANCELLED, "answered_at": now}, run=run.pk)
    show(run, Turn.State(state.value), message)
    stop_children(run)
    tell_parent(run, state, message)
    start_next(run)


def _unread(run: Run, seen_seq: int) -> bool:
    """Whether a task in the background has ended that the last answer did not hear of."""
    if not family.in_background(run).exists():
        return False
    notices = Entry.objects.filter(
        turn=run.turn_id, seq__gt=seen_seq, kind=Entry.Kind.NOTICE
    )
    bodies = transcript.bodies(list(notices.select_related("stored")))
    return any(body.get("type") == "child" for body in bodies)


def _rest_for_children(hold: Hold) -> None:
    """An answered run waits for what it started in the background, without a worker."""
    wait = Wait.objects.create(
        run=hold.run, kind=Wait.Kind.CHILDREN, payload={"why": CHILDREN_AT_WORK}
    )
    hold.guard(state=Run.State.WAITING, worker="", lease_until=None)
    _tell_opened(hold, wait, "")
    emit(events.RunWaiting(**hold.ids, waits_for=OF_CHILDREN))
    show(hold.run, Turn.State.WAITING, CHILDREN_AT_WORK)


def hear(run: Run) -> None:
    """Let a run that rests for its children read what was said. Inside a transaction."""
    resting = Wait.objects.filter(
        run=run, kind=Wait.Kind.CHILDREN, tool_call=None, outcome=""
    )
    if resting.update(outcome=Wait.Outcome.ANSWERED, answered_at=timezone.now()):
        wake(run)


def admit(parent: Run) -> None:
    """Begin as many of the run's tasks as may work at once.

    Inside a transaction that holds the conversation of the run.
    """
    for task in family.next_ones(parent):
        conversation = task.conversation
        task.run = open_run(
            turn=conversation.turns.get(),
            agent=task.agent,
            trigger="delegation",
            started_by=parent.started_by,
            since_seq=conversation.head_seq,
        )
        task.save(update_fields=["run"])
        emit(
            events.ChildStarted(
                **ids_of(parent),
                child_run=task.run.pk,
                child_conversation=conversation.pk,
                agent=task.agent.name,
                title=task.title,
                rounds=task.rounds,
                depth=task.limits["depth"],
                context=task.context,
                warnings=tuple(task.warnings),
            )
        )


_TASKS = Select[tuple[Any]](
    lambda: Delegation.objects.filter(
        parent_run=given("run", Delegation, "parent_run")
    ).values_list("pk")[:1]
)


def stop_children(run: Run) -> None:
    """Stop what a run that ends has left at work. Inside the transaction of its end."""
    if not _TASKS.first(run=run.pk):
        return
    for task in family.without_place(run):
        task.conversation.turns.update(
            state=Turn.State.STOPPED, ended_at=timezone.now()
        )
    for child in family.open_children(run).select_related("conversation"):
        request_stop(child, _asked_to_stop(run))


def request_stop(run: Run, by: User | None) -> None:
    """Stop a run in whatever state it is. Inside a transaction, from above downwards."""
    lock_line(run)
    Run.objects.filter(pk=run.pk, stop_requested_at=None).update(
        stop_requested_at=timezone.now(), stop_requested_by=by
    )
    run.refresh_from_db(fields=["state"])
    if run.state == Run.State.RUNNING:
        transaction.on_commit(lambda: doorbell.announce_stop(run.pk))
    elif hold := take_over(run):
        stop(hold)


def tell_parent(run: Run, state: Run.State, message: str) -> None:
    """A child's end: its parent is woken, and the next sibling begins.

    In the transaction of the end, with both conversations held: no wake-up is lost.
    """
    task = family.delegation_of(run)
    if task is None:
        return
    parent = task.parent_run
    meet_wait(task)
    if (
        task.background
        and Run.objects.filter(pk=parent.pk, state__in=Run.OPEN).exists()
    ):
        body = reporting.notice(task)
        draft = Draft(kind=Entry.Kind.NOTICE, body=body, turn=parent.turn)
        entries = transcript.append(parent.conversation_id, draft)
        conversations.push_appended(parent.conversation_id, entries)
        hear(parent)
    emit(
        events.ChildFinished(
            **ids_of(parent),
            child_run=run.pk,
            agent=run.agent.name,
            state=state.value,
            rounds=run.round,
            tokens_in=run.tokens_in,
            tokens_out=run.tokens_out,
            cost=None if run.cost is None else str(run.cost),
            message=message,
        )
    )
    admit(parent)
    wake(parent)


def meet_wait(task: Delegation) -> None:
    """Close the wait for a child that has ended."""
    Wait.objects.filter(
        tool_call=task.tool_call_id, kind=Wait.Kind.CHILDREN, outcome=""
    ).update(outcome=Wait.Outcome.ANSWERED, answered_at=timezone.now())


_OPEN_CALLS = Select[ToolCall](
    lambda: ToolCall.objects.filter(
        run=given("run", ToolCall, "run"), result_entry__isnull=True
    ).order_by("entry_id", "index")
)


def open_calls(run: Run) -> list[ToolCall]:
    """The calls whose results are not in the transcript yet, in call order."""
    return _OPEN_CALLS.all(run=run.pk)


def close_calls(hold: Hold) -> None:
    """Answer every call that the run leaves behind, in call order."""
    left = open_calls(hold.run)
    if not left:
        return
    for call in left:
        if call.state != ToolCall.State.ENDED:
            call.outcome, call.ok = results.interruption_of(call), False
            call.state, call.ended_at = ToolCall.State.ENDED, timezone.now()
    store_results(hold, left)


def store_results(
    hold: Hold, calls: list[ToolCall], *after: Draft, told: Sequence[Event] = ()
) -> None:
    """Append the results of calls whose outcome is known, and link them.

    What comes `after` them, and the events that tell of it, are stored along with them.
    """
    drafts = [results.draft_of(call, hold.run) for call in calls]
    sealed = transcript.seal(hold.run.conversation_id, *drafts, *after)
    with transaction.atomic():
        entries = hold.append(*sealed)
        for call, entry in zip(calls, entries[: len(calls)], strict=True):
            call.result_entry = entry
        ToolCall.objects.bulk_update(
            calls, ["result_entry", "outcome", "ok", "state", "ended_at"]
        )
        if told:
            emit(*told)


_QUEUE = Select[QueuedMessage](
    lambda: (
        QueuedMessage.objects.filter(
            conversation=given("conversation", QueuedMessage, "conversation"),
            sent_at__isnull=True,
            withdrawn_at__isnull=True,
        )
        .select_related("author")
        .order_by("created_at")
    )
)


def start_next(run: Run) -> None:
    """Turn the oldest queued message into the next turn, if there is one."""
    conversation = run.conversation
    for queued in _QUEUE.all(conversation=run.conversation_id):
        if not access.can(queued.author, conversation.workspace, "post"):
            queued.withdrawn_at = timezone.now()
            queued.save(update_fields=["withdrawn_at"])
            continue
        said = transcript.find_by_client_id(conversation.pk, queued.client_id)
        queued.sent_at = timezone.now()
        queued.save(update_fields=["sent_at"])
        if said:
            continue
        turn, entry = conversations.open_turn(
            conversation=conversation,
            author=queued.author,
            body=queued.body,
            client_id=queued.client_id,
        )
        open_run(
            turn=turn,
            agent=run.agent,
            trigger="queue",
            started_by=queued.author,
            since_seq=entry.seq,
        )
        live.push_on_commit(
            live.conversation_group(conversation.pk), {"type": "queue.changed"}
        )
        return


def open_wait(
    hold: Hold,
    call: ToolCall,
    kind: Wait.Kind,
    payload: dict[str, Any],
    *,
    lasting: bool = False,
) -> Wait:
    """Ask whoever must act before the call can go on; once per call and arguments.

    A `lasting` wait has no deadline: what it waits for ends by itself.
    """
    ends = timezone.now() + timedelta(seconds=settings.WAIT_TIMEOUT_SECONDS)
    deadline = None if lasting else ends
    payload = clean_values(payload)
    with transaction.atomic():
        hold.guard()
        wait, created = Wait.objects.get_or_create(
            tool_call=call,
            kind=kind,
            argument_hash=call.argument_hash,
            defaults={"run": hold.run, "payload": payload, "deadline": deadline},
        )
        if created:
            _tell_opened(hold, wait, call.call_id)
    return wait


def _tell_opened(hold: Hold, wait: Wait, call_id: str) -> None:
    emit(
        events.WaitOpened(
            **hold.ids,
            wait_id=wait.pk,
            wait_kind=wait.kind,
            call_id=call_id,
            why=str(wait.payload.get("why", "")),
        )
    )
    push_wait(wait, hold.run.conversation, "wait.opened")


def push_wait(wait: Wait, conversation: Conversation, what: str) -> None:
    """Push to the conversation, and to that of the people a child works for."""
    for one in {conversation.pk, conversation.people_id}:
        live.push_on_commit(
            live.conversation_group(one), {"type": what, "wait": str(wait.pk)}
        )


@transaction.atomic
def open_retry(hold: Hold, seconds: float, message: str) -> None:
    """Let the run rest until the model service takes requests again."""
    hold.guard()
    wait = Wait.objects.create(
        run=hold.run,
        kind=Wait.Kind.RETRY,
        payload={"why": message},
        deadline=timezone.now() + timedelta(seconds=seconds),
    )
    _tell_opened(hold, wait, "")


def rest(hold: Hold) -> bool:
    """Give the worker back until a wait is answered; False if one already was."""
    run = hold.run
    with transaction.atomic():
        lock_row(run.conversation_id)
        if Run.objects.filter(pk=run.pk).exclude(stop_requested_at=None).exists():
            return False
        waits = list(Wait.objects.filter(run=run).select_related("tool_call"))
        if any(_is_due(wait) for wait in waits):
            return False
        kinds = tuple(sorted({wait.kind for wait in waits if not wait.outcome}))
        hold.guard(state=Run.State.WAITING, worker="", lease_until=None)
        emit(events.RunWaiting(**hold.ids, waits_for=kinds))
        show(run, Turn.State.WAITING, CHILDREN_AT_WORK if kinds == OF_CHILDREN else "")
    return True


def _is_due(wait: Wait) -> bool:
    """Whether a wait is answered and its call has not gone on yet."""
    call = wait.tool_call
    return bool(wait.outcome) and call is not None and call.state == call.State.ASKED


def wake(run: Run) -> bool:
    """Queue a waiting run again and ring for it; False if it was not waiting."""
    woken = Run.objects.filter(pk=run.pk, state=Run.State.WAITING).update(
        state=Run.State.QUEUED, rung_at=timezone.now(), rings=0
    )
    if woken:
        doorbell.ring_on_commit(run.pk, run.trigger)
    return bool(woken)


@transaction.atomic
def abandon(hold: Hold) -> None:
    """Let the lease end now: a sweeper finds the run and counts one restart."""
    hold.let_go(lease_until=timezone.now())


@transaction.atomic
def release(hold: Hold) -> None:
    """Give a run back whole, at a round boundary or in an aborted step."""
    hold.let_go(
        state=Run.State.QUEUED, worker="", lease_until=None, rung_at=timezone.now()
    )
    doorbell.ring_on_commit(hold.run.pk, hold.run.trigger)


def take_over(run: Run) -> Hold | None:
    """Take the right to write from whoever has it, to end the run here and now.

    For runs that no worker plays: waiting, queued, or lost too often. None if it has
    ended already. Inside the caller's transaction, with the conversation locked.
    """
    fence = Run.objects.select_for_update().get(pk=run.pk).fence + 1
    taken = Run.objects.filter(pk=run.pk, state__in=Run.OPEN, fence=fence - 1).update(
        state=Run.State.RUNNING, fence=fence, worker="", lease_until=lease_end()
    )
    if not taken:
        return None
    fresh = Run.objects.select_related("turn", "agent", "conversation__workspace")
    return Hold(fresh.get(pk=run.pk), fence)
