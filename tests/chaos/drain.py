"""The installation is asked to stop in the middle of work, and started again."""

from __future__ import annotations

import time

from agents.models import Run
from tests.chaos.kills import interrupted, wrong_effects
from tests.chaos.report import Report
from tests.chaos.world import World, script, shell, talk, wait_ended, wait_running
from workspace.models import Conversation

#: DRAIN_SECONDS of the scenario's installation, and what the stop itself may take.
DRAIN, SLACK = 10, 12


def run(world: World, report: Report) -> None:
    took: list[float] = []
    codes: list[str] = []
    hanging: list[str] = []
    made: list[Conversation] = []
    for number in range(world.times(4, least=1)):
        conversations = [
            begin(world, f"drain-{number}-short", "sleep 1"),
            begin(world, f"drain-{number}-long", "sleep 60"),
        ]
        made += conversations
        time.sleep(world.random.uniform(0.3, 1.2))
        begun = time.monotonic()
        code = world.installation.stop()
        took.append(time.monotonic() - begun)
        codes += [f"exit code {code}"] if code else []
        still = Run.objects.filter(conversation__in=made, state=Run.State.RUNNING)
        codes += [f"{run} is still held" for run in still]
        world.installation.start()
        hanging += wait_ended(conversations, 60)
    report.check("SIGTERM hands every run back and ends with 0", codes)
    report.limit("stopping takes", took, DRAIN + SLACK)
    report.check("they go on at the next start", hanging)
    unfinished = [
        f"{run}: {run.message}"
        for run in Run.objects.filter(conversation__in=made)
        if run.state != Run.State.FINISHED
    ]
    report.check("and finish", unfinished, f"{len(made)} runs")
    report.check("no effect is repeated or lost unmarked", list(wrong_effects(made)))
    count = interrupted(made).count()
    missing = [] if count == len(took) else [f"{count} of {len(took)}"]
    report.check("the long command is reported as interrupted", missing, count)


def begin(world: World, tag: str, command: str) -> Conversation:
    conversation = world.owner.converse(tag)
    effect = shell(f"echo {tag}.1 >> {tag}.log; {command}")
    step = {"text": "on", "tool_calls": [effect], **talk(5)}
    world.owner.say(conversation, script(tag, step, talk(10)))
    wait_running(conversation)
    return conversation
