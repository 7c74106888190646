"""A new run is claimed by its first write, and its answer ends it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents import doorbell, runs, tasks
from agents.models import ModelCall, Run
from agents.providers.scripted import Step, says
from observability.models import Record
from workspace.errors import LeaseLost
from workspace.models import Turn

pytestmark = pytest.mark.django_db


def queued(stage) -> Run:
    stage.post("hello")
    return Run.objects.get(conversation=stage.conversation)


def kinds(run: Run) -> list[str]:
    rows = Record.objects.filter(run=run).order_by("seq")
    return list(rows.values_list("kind", flat=True))


def test_taking_a_new_run_writes_nothing(stage):
    run = queued(stage)
    hold = runs.take(run.pk, "a worker")
    run.refresh_from_db()
    assert hold
    assert (run.state, run.fence, run.worker) == ("queued", 0, "")
    assert kinds(run) == ["run.queued"]


def test_the_first_write_claims_it(stage, script):
    seen = []
    run = queued(stage)
    look = lambda: seen.append(Run.objects.get(pk=run.pk))  # noqa: E731
    script(Step(text="hi", before=look))
    tasks.play_held(runs.take(run.pk, "a worker"), stage.choice)
    [at_request] = seen
    assert (at_request.state, at_request.fence) == ("running", 1)
    assert (at_request.worker, at_request.round) == ("a worker", 1)
    assert at_request.lease_until
    assert at_request.started_at
    assert kinds(run)[:4] == [
        "run.queued",
        "run.started",
        "round.started",
        "request.assembled",
    ]
    run.refresh_from_db()
    assert run.state == "finished"
    assert kinds(run)[-1] == "run.finished"


def test_of_two_that_took_it_one_plays_it(stage, script):
    run = queued(stage)
    first, late = runs.take(run.pk, "one"), runs.take(run.pk, "two")
    provider = script(says("hi"))
    tasks.play_held(first, stage.choice)
    tasks.play_held(late, stage.choice)
    assert len(provider.requests) == 1
    assert Run.objects.get(pk=run.pk).worker == "one"
    assert ModelCall.objects.filter(run=run).count() == 1
    assert [entry["text"] for entry in stage.entries("assistant")] == ["hi"]


def test_a_stop_before_the_first_write_wins(stage, script, owner):
    from agents.actions import stop_turn

    run = queued(stage)
    hold = runs.take(run.pk, "a worker")
    stop_turn(conversation=stage.conversation, user=owner)
    provider = script(says("hi"))
    tasks.play_held(hold, stage.choice)
    assert provider.requests == []
    assert Run.objects.get(pk=run.pk).state == "stopped"
    assert stage.turn().state == Turn.State.STOPPED


def test_a_claim_that_was_rolled_back_is_made_again(stage, script):
    run = queued(stage)
    hold = runs.take(run.pk, "a worker")
    with transaction.atomic():
        hold.guard()
        transaction.set_rollback(True)
    assert Run.objects.get(pk=run.pk).state == "queued"
    script(says("hi"))
    tasks.play_held(hold, stage.choice)
    assert Run.objects.get(pk=run.pk).state == "finished"
    assert kinds(run).count("run.started") == 1


def test_a_run_that_fails_before_its_first_request_has_started_and_failed(stage):
    run = queued(stage)
    hold = runs.take(run.pk, "a worker")
    runs.fail(hold, "There is no model.")
    run.refresh_from_db()
    assert (run.state, run.fence, run.message) == ("failed", 1, "There is no model.")
    assert kinds(run) == ["run.queued", "run.started", "run.failed"]
    with pytest.raises(LeaseLost), transaction.atomic():
        hold.guard()


def test_a_worker_that_drains_leaves_it_queued(stage, monkeypatch):
    rung = []
    run = queued(stage)
    hold = runs.take(run.pk, "a worker")
    monkeypatch.setattr(doorbell, "ring_on_commit", lambda *ring: rung.append(ring[0]))
    hold.leave_at_boundary = True
    tasks.play_held(hold, stage.choice)
    run.refresh_from_db()
    assert (run.state, run.fence) == ("queued", 0)
    assert rung == [run.pk]


def test_a_run_that_was_claimed_before_is_claimed_at_once(stage):
    run = queued(stage)
    Run.objects.filter(pk=run.pk).update(fence=2)
    hold = runs.take(run.pk, "a worker")
    assert hold
    assert (hold.fence, hold.is_new) == (3, False)
    assert Run.objects.get(pk=run.pk).state == "running"
    assert runs.take(run.pk, "another") is None


def test_a_turn_takes_three_writes(stage, script):
    """The post, the request (before which nothing else is written), the answer."""
    choice = stage.choice
    with CaptureQueriesContext(connection) as posted:
        stage.post("hello")
    run = Run.objects.get(conversation=stage.conversation)
    at_request = []
    with CaptureQueriesContext(connection) as played:
        step = Step(text="hi", before=lambda: at_request.append(transactions(played)))
        provider = script(step)
        hold = runs.take(run.pk, "a worker")
        tasks.play_held(hold, replace(choice, provider=provider))
    assert Run.objects.get(pk=run.pk).state == "finished"
    assert transactions(posted) == 1
    assert at_request == [1]
    assert transactions(played) == 2


def transactions(seen: CaptureQueriesContext) -> int:
    """Outermost ones: within a test's own each begins with a savepoint."""
    count = depth = 0
    for row in seen.captured_queries:
        if row["sql"].startswith("SAVEPOINT"):
            count += depth == 0
            depth += 1
        elif row["sql"].startswith("RELEASE"):
            depth -= 1
    return count
