"""Events become records with their fact, in order, without gap or secret."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import uuid4

from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents import events
from observability import recorder
from observability.models import Record
from tests.observability.conftest import a_round, ids, tell
from workspace import live
from workspace.events import Event, emit

CANARY = "sk-c4nary0Q9x7Zk2Lmc4nary"


def seqs(run) -> list[int]:
    return list(
        Record.objects.filter(run=run).order_by("seq").values_list("seq", flat=True)
    )


def test_a_step_is_stored_in_order_with_the_round_it_belongs_to(run):
    tell(run, (events.RunStarted, {"worker": "w", "agent": "a"}))
    a_round(run, 1)
    a_round(run, 2)
    tell(run, (events.RunFinished, {"rounds": 2}))
    rows = Record.objects.filter(run=run).order_by("seq")
    assert [row.seq for row in rows] == list(range(1, 15))
    assert [row.round for row in rows] == [0, *[1] * 6, *[2] * 7]
    assert rows[1].conversation_id == run.conversation_id
    assert rows[13].text == "[run] finished after 2 rounds"


def test_what_is_only_pushed_leaves_no_record(run):
    with CaptureQueriesContext(connection) as queries:
        emit(events.MessageDelta(**ids(run), offset=0, delta="Hel"))
    assert len(queries) == 0
    assert seqs(run) == []


def test_a_step_of_many_events_costs_four_statements(run):
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        emit(*(events.RoundStarted(**ids(run), round=number) for number in range(40)))
    assert [query["sql"].split()[0] for query in queries] == [
        "SAVEPOINT",
        "SELECT",
        "INSERT",
        "RELEASE",
    ]


def test_a_fact_that_is_rolled_back_takes_its_record_and_its_number_along(run):
    with transaction.atomic():
        emit(events.RoundStarted(**ids(run), round=1))
        transaction.set_rollback(True)
    assert seqs(run) == []
    a_round(run, 1)
    assert seqs(run) == [1, 2, 3, 4, 5, 6]


def test_a_notice_goes_out_on_commit_and_only_then(
    run, monkeypatch, django_capture_on_commit_callbacks
):
    pushed = []
    monkeypatch.setattr(live, "push", lambda *message: pushed.append(message))
    with django_capture_on_commit_callbacks(execute=True):
        a_round(run, 1)
        assert pushed == []
    notice = {"type": "record.appended", "run": str(run.pk), "seq": 6}
    assert pushed == [(live.run_group(run.pk), notice)]


def test_a_recorder_that_fails_is_logged_and_leaves_the_fact_alone(
    run, monkeypatch, caplog
):
    def broken(*args: Any) -> int:
        Record.objects.create(run=run, conversation=run.conversation, seq=1, text="x")
        raise RuntimeError("The disk of the log is full.")

    monkeypatch.setattr(recorder, "_insert", broken)
    with transaction.atomic():
        run.message = "the fact"
        run.save(update_fields=["message"])
        emit(events.RoundStarted(**ids(run), round=1))
    run.refresh_from_db()
    assert run.message == "the fact"
    assert "The disk of the log is full." in caplog.text


def test_an_insert_that_the_database_refuses_leaves_the_transaction_usable(
    run, monkeypatch, caplog
):
    monkeypatch.setattr(recorder, "last_place", lambda run_id: (None, 0))
    with transaction.atomic():
        emit(events.RoundStarted(**ids(run), round=1))
        run.message = "the fact"
        run.save(update_fields=["message"])
    run.refresh_from_db()
    assert run.message == "the fact"
    assert seqs(run) == []
    assert "round.started" in caplog.text


def test_an_event_of_a_run_that_is_not_there_fails_no_commit(db):
    with transaction.atomic():
        emit(events.RoundStarted(run_id=uuid4(), conversation_id=uuid4(), round=1))
    assert Record.objects.count() == 1


@dataclass(frozen=True, kw_only=True)
class Broken(Event):
    kind: ClassVar[str] = "run.finished"

    @property
    def text(self) -> str:
        raise ValueError("no line")


def test_an_event_that_cannot_be_described_keeps_its_place(run, caplog):
    with transaction.atomic():
        emit(
            events.RoundStarted(**ids(run), round=1),
            Broken(**ids(run)),
            events.RoundFinished(**ids(run), round=1, calls=0),
        )
    assert seqs(run) == [1, 2, 3]
    assert Record.objects.get(run=run, seq=2).data == {"unreadable": True}


def test_no_secret_reaches_a_record(run):
    tell(
        run,
        (
            events.ToolCalled,
            {
                "tool": "shell",
                "call_id": "c",
                "arguments": f'{{"command": "curl -H \'Authorization: {CANARY}\'"}}',
                "decision": "allow",
            },
        ),
        (events.RunFailed, {"message": f"https://u:{CANARY}@api.example/ said 401"}),
        (
            events.WaitAnswered,
            {
                "wait_id": uuid4(),
                "wait_kind": "question",
                "by": "mina",
                "answer": {"password": "hunter2", "note": CANARY},
            },
        ),
    )
    stored = str(list(Record.objects.values_list("text", "data")))
    assert CANARY not in stored
    assert "hunter2" not in stored


def test_large_arguments_are_cut_and_marked(run):
    tell(
        run,
        (
            events.ToolCalled,
            {
                "tool": "write_file",
                "call_id": "c",
                "arguments": "y" * 300_000,
                "decision": "allow",
            },
        ),
    )
    row = Record.objects.get(run=run)
    assert len(str(row.data)) < 16 * 1024
    assert "(300000 characters" in row.data["arguments"]


def test_failures_are_marked_by_kind_and_by_outcome(run):
    a_round(run, 1, ok=False)
    a_round(run, 2, ok=True)
    tell(run, (events.RunFailed, {"message": "no"}))
    failed = Record.objects.filter(run=run, failed=True).values_list("kind", "seq")
    assert list(failed.order_by("seq")) == [("tool.finished", 5), ("run.failed", 13)]


def test_runs_of_one_emit_are_numbered_apart(run, make_run):
    child = make_run()
    with transaction.atomic():
        emit(
            events.RoundStarted(**ids(run), round=1),
            events.RoundStarted(**ids(child), round=1),
            events.RoundFinished(**ids(run), round=1, calls=0),
        )
    assert (seqs(run), seqs(child)) == ([1, 2], [1])


def test_threads_that_emit_at_once_leave_neither_gap_nor_duplicate(
    real_transactions, run
):
    threads, each = 8, 12
    start = threading.Barrier(threads)

    def work(number: int) -> None:
        start.wait()
        try:
            for step in range(each):
                with transaction.atomic():
                    emit(
                        events.RoundStarted(**ids(run), round=number),
                        events.RoundFinished(**ids(run), round=number, calls=step),
                    )
                    if step % 4 == 3:
                        transaction.set_rollback(True)
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    kept = threads * 9 * 2
    assert seqs(run) == list(range(1, kept + 1))
    rows = Record.objects.filter(run=run).order_by("seq").values_list("kind", "round")
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    assert all(first[1] == second[1] for first, second in pairs)
    assert {first[0] for first, _ in pairs} == {"round.started"}
