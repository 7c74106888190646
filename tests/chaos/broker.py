"""The broker is emptied and killed while runs are at work; it is only a doorbell."""

from __future__ import annotations

import time

import redis
from django.conf import settings

from tests.chaos.report import Report
from tests.chaos.viewers import disagreements
from tests.chaos.world import World, script, shell, talk, wait_ended
from tests.harness.installation import BROKER
from tests.harness.viewer import ChatViewer, Watching
from workspace.models import Conversation

FLUSHES_PER_RUN, AT_ONCE = 2, 3


def run(world: World, report: Report) -> None:
    seen = world.owner.converse("broker")
    viewer = ChatViewer(world.owner, seen)
    flushed = killed = 0
    hanging: list[str] = []
    lacking: list[str] = []
    with Watching() as watching:
        watching.add(viewer)
        for number in range(world.times(10, least=3)):
            others = [world.owner.converse(f"b{number}") for _ in range(AT_ONCE - 1)]
            flushed += ask_while_flushing(world, [seen, *others], number)
            if number % 2:
                time.sleep(world.random.uniform(0, 0.5))
                world.installation.kill_child(BROKER)
                killed += 1
            hanging += wait_ended([seen, *others], 60)
            lacking += disagreements(seen, [viewer], [])
            if killed and killed % 5 == 0:
                world.installation.stop()
                world.installation.start()
    report.check(
        "no run is lost with the broker's memory",
        hanging,
        f"{flushed} times FLUSHALL, {killed} kills",
    )
    report.check("the page catches up", lacking + viewer.faults)


def ask_while_flushing(
    world: World, conversations: list[Conversation], number: int
) -> int:
    """Post everywhere, with a flush right after a post and one in mid-run."""
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5)
    for place, conversation in enumerate(conversations):
        tag = f"broker-{number}-{place}"
        first = {"text": "on", "tool_calls": [shell("sleep 0.2")], **talk(20)}
        world.owner.say(conversation, script(tag, first, talk(20)))
        if place < FLUSHES_PER_RUN:
            time.sleep(world.random.uniform(0, 0.2) * place)
            client.flushall()
    client.close()
    return FLUSHES_PER_RUN
