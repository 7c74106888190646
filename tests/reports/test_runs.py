"""Reports about runs: exactly once, stoppable, survivable."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import Celery
from django.db import connections

from agents import runs
from agents.models import Run
from tests.harness.installation import Installation, wait_until
from tests.reports.live import (
    SLUG,
    Rows,
    Talk,
    Visitor,
    second_server,
    second_worker,
    shell,
    story,
)
from tests.reports.live import script as message
from workspace.var import broker_socket

running = pytest.mark.kill
pytestmark = pytest.mark.timeout(240)

#: Seconds within which a stop must have closed the provider's connection.
NEVER_OVER = 1.0
CARD = re.compile(r"/waits/([0-9a-f-]{36})")


def asked_about(installation: Installation, tag: str) -> list[dict[str, Any]]:
    return [one for one in installation.asked() if tag in one["body"]]


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """Do them at the same moment, each in a thread."""
    barrier = threading.Barrier(len(works))

    def begin(work: Callable[[], Any]) -> Any:
        barrier.wait(30)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(begin, works))


@pytest.fixture
def asking(boss: Visitor) -> Iterator[None]:
    """A workspace in which each `touch` is asked about."""
    rules = f"/w/{SLUG}/settings/permissions/"
    assert boss.send(rules, {"ask": "shell(touch)"}).status_code == 302
    yield
    assert boss.send(rules, {"ask": ""}).status_code == 302


@running
def test_row_10_a_task_delivered_again_and_again_plays_its_run_once(
    installation, boss, rows
):
    tag = uuid4().hex
    talk = boss.converse("auto")
    steps = (shell(f"echo once >> {tag}.txt; sleep 3"), story(60, 30))
    broker = str(broker_socket(installation.var))
    app = Celery(broker=f"redis+socket://{broker}")
    with second_worker(installation), redis.Redis(unix_socket_path=broker) as valkey:
        boss.say(talk, message(*steps, words=tag))
        run_id = rows.wait_state(talk, "running")
        with app.connection_for_write() as again:
            while rows.runs(talk)[-1][0] in ("queued", "running"):
                task = {"args": [run_id], "queue": "turns", "connection": again}
                app.send_task("agents.play", **task)
                time.sleep(0.3)
        wait_until(lambda: not valkey.llen("turns"), 5, "every ring is heard")
        left = valkey.hlen("unacked")
    app.close()
    assert rows.runs(talk)[-1][0] == "finished"
    assert len(asked_about(installation, tag)) == 2
    text = boss.client.get(f"/w/{SLUG}/files/raw/{tag}.txt").text
    assert text == "once\n"
    [(fence, restarts)] = rows.all(
        "SELECT fence, restarts FROM agents_run WHERE conversation_id = ?", talk.pk.hex
    )
    assert (fence, restarts) == (1, 0)
    assert left == 0  # acknowledged early: no visibility timeout brings it back


@running
def test_row_10_nothing_waits_for_a_visibility_timeout_while_a_run_is_at_work(
    installation, boss, rows
):
    talk = boss.converse()
    boss.say(talk, message(story(100, 30)))
    rows.wait_state(talk, "running")
    broker = str(broker_socket(installation.var))
    with redis.Redis(unix_socket_path=broker) as valkey:
        wait_until(lambda: not valkey.hlen("unacked"), 2, "the task is acknowledged")
        assert rows.runs(talk)[-1][0] == "running"
    assert rows.wait_ended(talk) == "finished"


@pytest.mark.usefixtures("real_transactions")
def test_row_10_of_workers_told_to_play_the_same_run_one_gets_it(stage):
    stage.post("Hello")
    run = Run.objects.get(conversation=stage.conversation)

    def claim(name: str) -> runs.Hold | None:
        try:
            return runs.claim(run.pk, name)
        finally:
            connections.close_all()

    held = at_once([lambda name=f"w{n}": claim(name) for n in range(8)])
    [winner] = [hold for hold in held if hold is not None]
    run.refresh_from_db()
    assert (run.state, run.fence) == ("running", winner.fence)
    assert run.worker == winner.run.worker


@running
@pytest.mark.parametrize(
    ("step", "reached"),
    [
        ({"fault": "silence"}, lambda asked: bool(asked)),
        (story(400, 40), lambda asked: asked and asked[-1]["deltas"] > 3),
        (shell("sleep 600"), lambda asked: asked and asked[-1]["ended_at"]),
    ],
    ids=["before the first token", "in mid-stream", "in a command"],
)
def test_row_15_stop_on_another_server_ends_what_is_at_work(
    installation, boss, rows, replica, step, reached
):
    tag, talk = uuid4().hex, boss.converse("auto")
    boss.say(talk, message(step, words=tag))
    wait_until(lambda: reached(asked_about(installation, tag)), 20, "it is at work")
    if "tool_calls" in step:
        wait_until(
            lambda: rows.all(
                "SELECT 1 FROM agents_toolcall c JOIN agents_run r ON r.id = c.run_id"
                " WHERE r.conversation_id = ? AND c.state = 'started'",
                talk.pk.hex,
            ),
            20,
            "the command runs",
        )
    clicked, begun = time.time(), time.monotonic()
    assert replica.send(replica.path(talk, "stop")).status_code == 200
    assert rows.wait_ended(talk) == "stopped"
    took = time.monotonic() - begun
    [asked] = asked_about(installation, tag)
    assert took < NEVER_OVER + 0.5  # the reader's own steps of 50 ms included
    if "tool_calls" not in step:
        wait_until(
            lambda: asked_about(installation, tag)[0]["ended_at"], 2, "it hangs up"
        )
        [asked] = asked_about(installation, tag)
        assert asked["state"] == "aborted"
        assert asked["ended_at"] - clicked < NEVER_OVER
    assert "Mina Park" in rows.runs(talk)[-1][1]
    boss.say(talk, message({"text": "Going on."}))
    assert rows.wait_ended(talk) == "finished"


@pytest.fixture(scope="module")
def replica(installation: Installation, boss: Visitor) -> Iterator[Visitor]:
    """The same person at another web process."""
    with second_server(installation) as origin:
        yield boss.at(origin)


def card_of(boss: Visitor, talk: Talk) -> str:
    """The address of the open approval."""

    def shown() -> str | None:
        found = CARD.search(boss.page(boss.path(talk, "waits")))
        return found[1] if found else None

    return boss.path(talk, f"waits/{wait_until(shown, 20, 'the card is shown')}")


def calls_of(rows: Rows, talk: Talk) -> list[tuple[Any, ...]]:
    return rows.all(
        "SELECT c.state, c.ok FROM agents_toolcall c JOIN agents_run r"
        " ON r.id = c.run_id WHERE r.conversation_id = ?",
        talk.pk.hex,
    )


@running
@pytest.mark.usefixtures("asking")
def test_row_16_an_approval_survives_a_restart_and_is_given_from_a_phone(
    installation, boss, rows
):
    talk, tag = boss.converse(), uuid4().hex
    boss.say(talk, message(shell(f"touch {tag}"), {"text": "Done with it."}))
    card = card_of(boss, talk)
    assert installation.stop() == 0
    installation.start()
    assert rows.runs(talk)[-1][0] == "waiting"
    phone = Visitor(boss.origin).sign_in("boss")
    assert f"touch {tag}" in phone.page(phone.path(talk, "waits"))
    assert phone.send(card, {"decision": "once"}).status_code == 200
    assert rows.wait_ended(talk) == "finished"
    assert calls_of(rows, talk) == [("ended", 1)]
    assert phone.send(card, {"decision": "once"}).status_code == 409
    assert boss.client.get(f"/w/{SLUG}/files/raw/{tag}").status_code == 200


@running
@pytest.mark.usefixtures("asking")
def test_row_16_of_two_admins_who_answer_at_once_one_decides(boss, rows):
    other = boss.invite("second-admin", "admin", "Jun Seo")
    for _ in range(5):
        talk = boss.converse()
        boss.say(talk, message(shell("touch it"), {"text": "Done with it."}))
        card = card_of(boss, talk)
        answers = at_once(
            [
                partial(boss.send, card, {"decision": "once"}),
                partial(other.send, card, {"decision": "deny"}),
            ]
        )
        by_status = {answer.status_code: answer for answer in answers}
        assert set(by_status) == {200, 409}
        winner = "Mina Park" if answers[0].status_code == 200 else "Jun Seo"
        assert winner in by_status[409].json()["error"]
        assert rows.wait_ended(talk) == "finished"
        [(_, ok)] = calls_of(rows, talk)
        assert bool(ok) == (winner == "Mina Park")


@running
def test_a_message_queued_behind_a_turn_that_fails_is_answered(boss, rows):
    talk = boss.converse("auto")
    boss.say(talk, message(shell("sleep 2"), {"fault": "bad_request"}))
    rows.wait_state(talk, "running")
    queued = {
        "text": message({"text": "Going on."}),
        "client_id": str(uuid4()),
        "when": "queue",
    }
    answer = boss.send(boss.path(talk, "messages"), queued)
    assert answer.json()["queued"]
    wait_until(lambda: len(rows.runs(talk)) == 2, 20, "the next turn begins")
    assert rows.wait_ended(talk) == "finished"
    (first, said, _), _ = rows.runs(talk)
    assert first == "failed"
    assert "refuses the request" in said


@running
def test_the_bytes_of_a_turn_begin_the_request_of_the_next_one(
    installation, boss, rows
):
    tag, talk = uuid4().hex, boss.converse("auto")
    for number in range(2):
        words = f"{tag} number {number}"
        boss.say(talk, message(shell("echo hi"), {"text": "Fine."}, words=words))
        assert rows.wait_ended(talk) == "finished"
    bodies = [one["body"] for one in asked_about(installation, tag)]
    assert len(bodies) == 4
    for earlier, later in zip(bodies, bodies[1:], strict=False):
        end = earlier.rindex('"}]') if '"}]' in earlier else earlier.rindex("}]")
        assert later.startswith(earlier[:end])
    reported = rows.all(
        "SELECT m.input, m.cache_read FROM agents_modelcall m JOIN agents_run r"
        " ON r.id = m.run_id WHERE r.conversation_id = ? ORDER BY m.id",
        talk.pk.hex,
    )
    assert [cached > fresh for fresh, cached in reported][1:] == [True] * 3
