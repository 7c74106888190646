"""Reports about storage, scale and time: locks, a busy event loop, long talks."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.reports.live import script as message
from tests.reports.live import second_server, story
from tests.reports.watched_web import Watch
from workspace import transcript
from workspace.models import Entry, Turn
from workspace.transcript import Draft

running = pytest.mark.kill
pytestmark = pytest.mark.timeout(240)

WATCHED = Path(__file__).with_name("watched_web.py")
#: Words of a database that no person may have to read.
INNER_WORDS = ("sqlite", "database is locked", "OperationalError", "Traceback")
#: A long conversation: entries, and characters of each (5 MB in all).
ENTRIES, LENGTH = 2000, 2500
#: Callbacks of the event loop that may be late on a machine that others use as well.
LATE = 3


class Lock:
    """Somebody who writes to the database for so many seconds."""

    def __init__(self, rows, seconds: float) -> None:
        self.taken = threading.Event()
        self.thread = threading.Thread(target=self.hold, args=(rows.file, seconds))

    def hold(self, file: Path, seconds: float) -> None:
        with closing(sqlite3.connect(file, timeout=20)) as held:
            held.isolation_level = None
            held.execute("BEGIN IMMEDIATE")
            self.taken.set()
            time.sleep(seconds)
            held.execute("ROLLBACK")

    def __enter__(self) -> Lock:
        self.thread.start()
        assert self.taken.wait(20)
        return self

    def __exit__(self, *error: object) -> None:
        self.thread.join()


@running
def test_row_18_a_message_waits_for_a_lock_instead_of_being_refused(boss, rows):
    talk = boss.converse()
    with Lock(rows, 3):
        begun = time.monotonic()
        answer = boss.post(talk, message({"text": "There."}))
    assert answer.status_code == 200, answer.text[:500]
    assert time.monotonic() - begun > 2
    assert rows.wait_ended(talk) == "finished"


@running
def test_row_18_a_lock_that_outlasts_all_patience_is_a_sentence_and_loses_nothing(
    boss, rows
):
    talk, client_id = boss.converse(), str(uuid4())
    text = message({"text": "There."})
    with Lock(rows, 26):
        answer = boss.post(talk, text, client_id)
    assert answer.status_code == 503
    assert "Send it again" in answer.json()["error"]
    assert not any(word in answer.text for word in INNER_WORDS)
    assert boss.post(talk, text, client_id).status_code == 200
    assert rows.wait_ended(talk) == "finished"
    assert len(rows.bodies(talk, "user")) == 1


@running
def test_row_20_no_callback_blocks_the_event_loop_while_twenty_answers_stream(
    installation, boss, rows
):
    late = installation.folder / "late.jsonl"
    with second_server(installation, str(WATCHED), LATE_FILE=str(late)) as origin:
        reader = boss.at(origin)
        talks = [reader.converse() for _ in range(20)]
        late.write_text("")
        for talk in talks:
            reader.say(talk, message(story(100, 40)))
        for talk in talks:
            assert rows.wait_ended(talk) == "finished"
            reader.entries(talk)
    found = [json.loads(line) for line in late.read_text().splitlines()]
    assert found[-1]["callbacks"] > 500, "the server's loop was watched"
    slow = [one for one in found if "took" in one]
    assert len(slow) <= LATE, slow


def test_row_20_the_watch_notices_what_blocks_and_nothing_else(tmp_path):
    watch = Watch(tmp_path / "late.jsonl")
    loop = asyncio.new_event_loop()
    for seconds in (0.001, 0.08):
        watch(asyncio.Handle(time.sleep, (seconds,), loop))
    loop.close()
    [line] = (tmp_path / "late.jsonl").read_text().splitlines()
    assert json.loads(line)["took"] > 0.08


@pytest.fixture
def reader(owner) -> Client:
    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    return client


def fill(conversation, author, entries: int) -> None:
    """Questions and long answers."""
    drafts, turn = [], None
    for number in range(entries):
        if turn and number % 2:
            body = {
                "text": f"answer {number} " + "x " * (LENGTH // 2),
                "tool_calls": [],
            }
            drafts.append(Draft(Entry.Kind.ASSISTANT, body, turn))
            continue
        turn = Turn.objects.create(
            conversation=conversation, author=author, state=Turn.State.FINISHED
        )
        body = {"text": f"question {number} " + "y " * (LENGTH // 2)}
        drafts.append(Draft(Entry.Kind.USER, body, turn, author))
    transcript.append(conversation.pk, *drafts)
    conversation.refresh_from_db()


def opened(client: Client, conversation) -> tuple[int, int, float]:
    """Queries, bytes and seconds of opening the page."""
    address = conversation.get_absolute_url()
    client.get(address)
    with CaptureQueriesContext(connection) as queries:
        begun = time.perf_counter()
        answer = client.get(address)
        took = time.perf_counter() - begun
    assert answer.status_code == 200
    return len(queries), len(answer.content), took


def sent(stage) -> tuple[int, float]:
    """Queries and seconds of accepting a message; the run is played afterwards."""
    with CaptureQueriesContext(connection) as queries:
        begun = time.perf_counter()
        stage.post("And one more")
        took = time.perf_counter() - begun
    return len(queries), took


@pytest.mark.django_db
def test_row_22_opening_and_sending_cost_the_same_however_long_the_talk(
    stage, script, conversation, owner, reader
):
    from agents.providers.scripted import says

    fill(conversation, owner, 60)
    short = opened(reader, conversation)
    script(says("Yes."))
    stage.post("Hello")
    stage.play()
    short_send = sent(stage)
    script(says("Yes."))
    stage.play()
    fill(conversation, owner, ENTRIES)
    long = opened(reader, conversation)
    long_send = sent(stage)
    print(  # noqa: T201 - the figures that a change would show in
        f"open: {short[2] * 1000:.0f} ms, with {ENTRIES} more {long[2] * 1000:.0f} ms,"
        f" {long[1] // 1024} KiB; send {short_send[1] * 1000:.1f} ms and"
        f" {long_send[1] * 1000:.1f} ms"
    )
    assert long[0] <= short[0] + 1
    assert long[1] < short[1] * 1.2
    assert long_send[0] == short_send[0]
