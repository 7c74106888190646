"""Every fault of a model service ends in an answer or in a sentence; nothing hangs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import httpx

from agents.models import Run
from agents.providers.retry import MAX_TRIES
from agents.simulator import faults as simulated
from tests.chaos.report import Report
from tests.chaos.world import World, script, talk, wait_ended
from tests.harness.installation import wait_until
from workspace.models import Conversation, Entry

#: Seconds: five tries of a silent service, its timeout at four seconds, and pauses.
LONGEST = 90
#: Asks for a rest that outlives the run's own patience: the run waits instead.
RESTS = "rate_limit_long"
CODE = re.compile(r"Traceback|Exception|Error\(|object at 0x|httpx|\{'")


def run(world: World, report: Report) -> None:
    conversations = {
        name: world.owner.converse(f"fault {name}") for name in sorted(simulated.NAMES)
    }
    for name, conversation in conversations.items():
        world.owner.say(conversation, f"tag:fault-{name}; hello [[fault:{name}]]")
    ended = [one for name, one in conversations.items() if name != RESTS]
    report.check("nothing hangs", wait_ended(ended, LONGEST), f"{len(ended)} faults")
    report.check("each ends with a sentence", list(unclear_ends(conversations)))
    report.check("no retry storm", list(storms(world, conversations)))
    for name, conversation in conversations.items():
        report.figure(f"  {name}", ending(conversation))
    report.check("a long rest is a wait", list(long_rest(world, conversations[RESTS])))
    broken = [
        f"{name}: {answer.text[:200]}"
        for name, conversation in conversations.items()
        if (answer := say_instead(world, conversation, name)).status_code != 200
    ]
    broken += wait_ended(list(conversations.values()), 60)
    for name, conversation in conversations.items():
        last = Run.objects.filter(conversation=conversation).latest("created_at")
        if last.state != Run.State.FINISHED:
            broken.append(f"after {name}: {last} {last.message}")
    report.check("another message in its place works", broken)


def say_instead(world: World, conversation: Conversation, name: str) -> httpx.Response:
    """Edit the message and send it again: as long as it stands, so does its fault."""
    said = Entry.objects.filter(conversation=conversation, kind=Entry.Kind.USER)
    data = {
        "to_seq": said.latest("seq").seq,
        "text": script(f"after-{name}", talk(3)),
        "client_id": f"after-{name}",
    }
    return world.owner.client.post(world.owner.path(conversation, "resend"), data=data)


def ending(conversation: Conversation) -> str:
    last = Run.objects.filter(conversation=conversation).latest("created_at")
    calls = last.model_calls.count()
    return f"{last.state} after {calls} model calls. {last.message}"


def unclear_ends(conversations: dict[str, Conversation]) -> Iterator[str]:
    for name, conversation in conversations.items():
        job = Run.objects.filter(conversation=conversation).latest("created_at")
        if name == RESTS or job.state == Run.State.FINISHED:
            continue
        text = job.message
        is_sentence = len(text) > 20 and text[0].isupper() and text.rstrip()[-1] in ".!"
        if job.state != Run.State.FAILED or not is_sentence or CODE.search(text):
            yield f"{name}: {job.state}, {text!r}"


def storms(world: World, conversations: dict[str, Conversation]) -> Iterator[str]:
    """At most five requests for one round, and few rounds."""
    for name in conversations:
        rounds = Counter(one.round for one in world.asked_for(f"fault-{name}"))
        if not rounds:
            yield f"{name}: the service was never asked"
        if rounds and (max(rounds.values()) > MAX_TRIES or len(rounds) > 4):
            yield f"{name}: requests by round {dict(rounds)}"


def long_rest(world: World, conversation: Conversation) -> Iterator[str]:
    job = Run.objects.filter(conversation=conversation).latest("created_at")
    wait = job.waits.first()
    if job.state != Run.State.WAITING or wait is None:
        yield f"{job.state}: {job.message}"
        return
    if not wait.payload.get("why"):
        yield "it does not say why"
    world.owner.stop(conversation)
    open_there = Run.objects.filter(conversation=conversation, state__in=Run.OPEN)
    wait_until(lambda: not open_there.exists(), 10, "the rest is stopped")
