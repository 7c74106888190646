"""Posts that are repeated, simultaneous or many: one message each, one order for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any
from uuid import uuid4

import httpx

from agents.models import Run
from tests.chaos.report import Report
from tests.chaos.world import World, script, talk, wait_ended
from tests.harness.installation import wait_until
from tests.harness.people import Person, more_people
from tests.harness.viewer import ChatViewer, Watching
from workspace.models import Conversation, Entry

#: Seconds within which a post must be accepted, p95 (row 18 of the server's reports).
ACCEPT_P95 = 0.5


def run(world: World, report: Report) -> None:
    repeats(world, report)
    after_restart(world, report)
    two_at_once(world, report)
    for count in (20, 50):
        crowd(world, report, count)


def at_once(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """Do them at the same moment, each in a thread; returns what they returned."""
    barrier = Barrier(len(works))

    def begin(work: Callable[[], Any]) -> Any:
        barrier.wait(30)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(begin, works))


def repeats(world: World, report: Report) -> None:
    """The same POST twice in a row, and four times at once."""
    wrong: list[str] = []
    for number in range(count := world.times(10)):
        conversation, tag = world.owner.converse(), f"twice-{number}"
        text = script(tag, talk(5))
        send = partial(world.owner.post, conversation, text, str(uuid4()))
        answers = at_once([send] * 4) if number % 2 else [send(), send()]
        wrong += single(world, conversation, tag, answers)
    report.check("a repeated POST is one message and one provider call", wrong, count)


def single(
    world: World, conversation: Conversation, tag: str, answers: Sequence[Any]
) -> Iterator[str]:
    if bad := [one.text[:200] for one in answers if one.status_code != 200]:
        yield f"{tag}: refused: {bad}"
    yield from wait_ended([conversation], 60)
    messages = Entry.objects.filter(conversation=conversation, kind="user").count()
    runs = Run.objects.filter(conversation=conversation).count()
    calls = len(world.asked_for(tag))
    if (messages, runs, calls) != (1, 1, 1):
        yield f"{tag}: {messages} messages, {runs} runs, {calls} provider calls"
    seqs = {one.json().get("seq") for one in answers if one.status_code == 200}
    if len(seqs) != 1:
        yield f"{tag}: the answers differ: {seqs}"


def after_restart(world: World, report: Report) -> None:
    """Sent, answered, the server restarted, and the same POST sent again."""
    conversation, key = world.owner.converse(), str(uuid4())
    text = script("restart", talk(40))
    answers = [world.owner.say(conversation, text, key)]
    world.installation.stop()
    world.installation.start()
    answers.append(world.owner.say(conversation, text, key))
    yielded = list(wait_ended([conversation], 60))
    messages = Entry.objects.filter(conversation=conversation, kind="user").count()
    runs = Run.objects.filter(conversation=conversation).count()
    if (messages, runs) != (1, 1):
        yielded.append(f"{messages} messages, {runs} runs")
    report.check("the same POST after a restart is the same message", yielded)


def two_at_once(world: World, report: Report) -> None:
    """Two people post at the same moment; both pages must show one order."""
    conversation = world.owner.converse("two")
    [other] = more_people(world.owner, 1, "second")
    people = [world.owner, other]
    viewers = [ChatViewer(person, conversation) for person in people]
    refused: list[str] = []
    rounds = world.times(100, least=10)
    with Watching() as watching:
        for viewer in viewers:
            watching.add(viewer)
        for number in range(rounds):
            texts = [script(f"pair-{number}-{who.user}", talk(3)) for who in people]
            answers = at_once(
                [
                    partial(who.post, conversation, text)
                    for who, text in zip(people, texts, strict=True)
                ]
            )
            refused += [one.text[:200] for one in answers if one.status_code != 200]
        refused += wait_ended([conversation], 120)
        conversation.refresh_from_db()
        wait_until(
            lambda: all(one.last == conversation.head_seq for one in viewers),
            20,
            "both pages are complete",
        )
    said = Entry.objects.filter(conversation=conversation, kind="user")
    texts = set(said.values_list("stored__text", flat=True))
    if said.count() != 2 * rounds or len(texts) != 2 * rounds:
        refused.append(f"{said.count()} messages, {len(texts)} of them different")
    report.check("two people at once, none lost", refused, f"{rounds} pairs")
    orders = {tuple(viewer.shown) for viewer in viewers}
    faults = [fault for viewer in viewers for fault in viewer.faults]
    differing = [] if len(orders) == 1 else ["the pages show different orders"]
    report.check("both see the same order", faults + differing)


def crowd(world: World, report: Report, count: int) -> None:
    """So many people post three messages each at the same moment, on SQLite."""
    people = more_people(world.owner, count, f"crowd{count}x")
    conversations = [person.converse() for person in people]
    taken: list[float] = []
    refused: list[str] = []
    for number in range(3):
        answers = at_once(
            [
                partial(timed, taken, person, conversation, f"crowd-{count}-{number}")
                for person, conversation in zip(people, conversations, strict=True)
            ]
        )
        refused += [one.text[:200] for one in answers if one.status_code != 200]
    refused += wait_ended(conversations, 120)
    said = Entry.objects.filter(conversation__in=conversations, kind="user").count()
    if said != 3 * count:
        refused.append(f"{said} of {3 * count} messages are stored")
    failed = Run.objects.filter(conversation__in=conversations).exclude(
        state=Run.State.FINISHED
    )
    refused += [f"{run}: {run.message}" for run in failed]
    report.check(f"{count} people at once, none refused or lost", refused)
    report.times(f"{count} people at once, accepted in", taken, p95=ACCEPT_P95)


def timed(
    taken: list[float], person: Person, conversation: Conversation, tag: str
) -> httpx.Response:
    """A post, and how long it took to be accepted."""
    text = script(f"{tag}-{person.user}", talk(5))
    begun = time.monotonic()
    answer = person.post(conversation, text)
    taken.append(time.monotonic() - begun)
    return answer
