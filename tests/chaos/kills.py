"""The worker is killed at random moments; every run must still end, once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agents.models import ModelCall, Run, ToolCall
from tests.chaos.promises import counted
from tests.chaos.report import Report
from tests.chaos.world import World, open_runs, script, shell, talk, wait_ended
from tests.harness.installation import WORKER
from workspace.models import Conversation

#: Runs at work when the worker is killed; kills before `up` is started anew, since it
#: waits ever longer before it restarts what keeps dying.
AT_ONCE, KILLS_PER_START = 5, 5
SECONDS_TO_END = 60


def run(world: World, report: Report) -> None:
    """Kill until enough runs were hit; count effects against results afterwards."""
    wanted = world.times(100, least=10)
    phases: Counter[str] = Counter()
    hanging: list[str] = []
    made: list[Conversation] = []
    wave = 0
    while phases.total() < wanted and wave < wanted:
        if wave and wave % KILLS_PER_START == 0:
            world.installation.stop()
            world.installation.start()
        wave += 1
        conversations = begin_wave(world, wave)
        made += conversations
        phases.update(kill_somewhere(world, conversations))
        hanging += wait_ended(conversations, SECONDS_TO_END)
    report.check("no run hangs", hanging, f"{wave} kills hit {phases.total()} runs")
    report.figure("killed while", ", ".join(f"{k} {v}" for k, v in phases.items()))
    states = Counter(Run.objects.filter(conversation__in=made).values_list("state"))
    unfinished = Run.objects.filter(conversation__in=made).exclude(
        state=Run.State.FINISHED
    )
    report.check(
        "every killed run was finished by another worker",
        [f"{run}: {run.message}" for run in unfinished],
        f"{states.total()} runs",
    )
    report.check("no effect is repeated or lost unmarked", list(wrong_effects(made)))
    report.figure("calls marked as interrupted", interrupted(made).count())


def begin_wave(world: World, wave: int) -> list[Conversation]:
    conversations = []
    for number in range(AT_ONCE):
        tag = f"kill-{wave}-{number}"
        conversation = world.owner.converse(tag)
        world.owner.say(conversation, kill_script(tag))
        conversations.append(conversation)
        time.sleep(world.random.uniform(0, 0.3))
    return conversations


def kill_script(tag: str) -> str:
    """Three rounds of about a second: silence, stream, tool."""

    def step(number: int) -> dict[str, object]:
        command = f"echo {tag}.{number} >> {tag}.log; sleep 0.4"
        spoken = talk(15, first_ms=200, token_ms=20)
        return {"text": "on", "tool_calls": [shell(command)], **spoken}

    return script(tag, step(1), step(2), talk(20, first_ms=200))


def kill_somewhere(world: World, conversations: list[Conversation]) -> Counter[str]:
    """Kill the worker at a random moment; returns what its runs were doing."""
    time.sleep(world.random.uniform(0, 1.5))
    hit = [run for run in open_runs(conversations) if run.state == Run.State.RUNNING]
    if not hit:
        return Counter()
    doing = Counter(phase(world, run) for run in hit)
    world.installation.kill_child(WORKER)
    return doing


def phase(world: World, run: Run) -> str:
    calls = ToolCall.objects.filter(run=run, result_entry=None)
    if calls.filter(state=ToolCall.State.STARTED).exists():
        return "in a tool"
    if calls.exists():
        return "before a tool"
    if not ModelCall.objects.filter(run=run, state=ModelCall.State.SENT).exists():
        return "between rounds"
    asked = world.asked_for(run.conversation.title)
    return "in the stream" if asked and asked[-1].deltas else "before the first token"


def wrong_effects(conversations: list[Conversation]) -> Iterator[str]:
    """Each command writes one line: more is a silent repetition, none a false result."""
    for conversation in conversations:
        lines = effects(conversation)
        for call in ToolCall.objects.filter(run__conversation=conversation):
            key = f"{conversation.title}.{call.round}"
            written, error = lines[key], (call.outcome or {}).get("error")
            if written > 1:
                yield f"{key} took effect {written} times"
            elif call.ok and written != 1:
                yield f"{key} is reported as done and took no effect"
            elif not call.ok and (error or {}).get("code") != "interrupted":
                yield f"{key} failed: {call.outcome}"


def effects(conversation: Conversation) -> Counter[str]:
    path = Path(conversation.root) / f"{conversation.title}.log"
    if not path.exists():
        return Counter()
    return counted(path.read_text().splitlines())


def interrupted(conversations: list[Conversation]):
    return ToolCall.objects.filter(
        run__conversation__in=conversations, outcome__error__code="interrupted"
    )
