"""Stop in every state: how soon the run ends and the provider's connection closes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents.models import Run, ToolCall
from tests.chaos.report import Report
from tests.chaos.world import World, now, script, shell, talk, wait_ended
from tests.harness.installation import wait_until
from workspace.models import Conversation, Entry

#: Seconds: the promise that is never broken, and the goal on a machine that is idle.
NEVER_OVER, GOAL = 1.0, 0.5


@dataclass
class Measured:
    ended: list[float] = field(default_factory=list)
    closed: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class State:
    """What the simulator is told, and how to see that the run has come there."""

    name: str
    step: dict[str, Any]
    reached: Callable[[World, Conversation], bool]
    streams: bool


def run(world: World, report: Report) -> None:
    for state in STATES:
        conversation = world.owner.converse(f"stop {state.name}")
        measured = Measured()
        for number in range(count := world.times(20, least=3)):
            stop_once(world, conversation, state, number, measured)
        report.check(f"stop works in {state.name}", measured.wrong, f"{count} times")
        report.limit(f"  ended, {state.name}", measured.ended, NEVER_OVER)
        report.times(f"  goal, {state.name}", measured.ended, p95=GOAL)
        if state.streams:
            report.limit(
                f"  connection closed, {state.name}", measured.closed, NEVER_OVER
            )


def stop_once(
    world: World,
    conversation: Conversation,
    state: State,
    number: int,
    measured: Measured,
) -> None:
    tag = f"stop-{state.name.replace(' ', '-')}-{number}"
    world.owner.say(conversation, script(tag, state.step))
    wait_until(lambda: state.reached(world, conversation), 30, f"{tag} comes there")
    begun, clicked = time.monotonic(), now()
    answer = world.owner.stop(conversation)
    if answer.status_code != 200:
        measured.wrong.append(f"{tag}: {answer.status_code} {answer.text[:200]}")
    measured.wrong += await_stop(conversation, begun, measured)
    if state.streams:
        measured.wrong += await_close(world, tag, clicked, measured)
    measured.wrong += kept_text(conversation, state)
    world.owner.say(conversation, script(f"{tag}-next", talk(3)))
    measured.wrong += wait_ended([conversation], 30)
    last = Run.objects.filter(conversation=conversation).latest("created_at")
    if last.state != Run.State.FINISHED:
        measured.wrong.append(f"the message after {tag}: {last} {last.message}")


def await_stop(
    conversation: Conversation, begun: float, measured: Measured
) -> list[str]:
    open_there = Run.objects.filter(conversation=conversation, state__in=Run.OPEN)
    wait_until(lambda: not open_there.exists(), 30, "the stop", pause=0.005)
    measured.ended.append(time.monotonic() - begun)
    last = Run.objects.filter(conversation=conversation).latest("created_at")
    if last.state == Run.State.STOPPED and last.message:
        return []
    return [f"{last} says {last.message!r}"]


def await_close(
    world: World, tag: str, clicked: float, measured: Measured
) -> list[str]:
    """The simulator's own clock says when its client hung up."""
    [asked] = world.asked_for(tag)
    if asked.ended_at is None:
        time.sleep(NEVER_OVER)
        [asked] = world.asked_for(tag)
    if asked.ended_at is None:
        return [f"{tag}: the connection is still open"]
    measured.closed.append(asked.ended_at - clicked)
    return [] if asked.state == "aborted" else [f"{tag} is {asked.state}"]


def kept_text(conversation: Conversation, state: State) -> list[str]:
    """A stream's text so far is kept as a stopped message."""
    if state.name != "a stream":
        return []
    last = Entry.objects.filter(conversation=conversation).latest("seq")
    body = last.stored.text
    if last.kind == Entry.Kind.ASSISTANT and '"stopped":true' in body and "t0 " in body:
        return []
    return [f"the last entry is {last.kind}: {body[:100]}"]


def answering(world: World, conversation: Conversation, deltas: int) -> bool:
    asked = world.asked()
    return bool(
        asked
        and asked[-1].tag.startswith("stop")
        and asked[-1].state == "answering"
        and asked[-1].deltas >= deltas
    )


def in_tool(world: World, conversation: Conversation) -> bool:
    return ToolCall.objects.filter(
        run__conversation=conversation, state=ToolCall.State.STARTED
    ).exists()


def waiting(world: World, conversation: Conversation) -> bool:
    return Run.objects.filter(
        conversation=conversation, state=Run.State.WAITING
    ).exists()


QUESTION = {"question": "Which one?", "options": ["This", "That"]}
STATES = (
    State(
        "a silent stream", {"fault": "silence"}, lambda w, c: answering(w, c, 0), True
    ),
    State("a stream", talk(400, token_ms=50), lambda w, c: answering(w, c, 3), True),
    State(
        "a command",
        {"text": "on", "tool_calls": [shell("sleep 600")]},
        in_tool,
        False,
    ),
    State(
        "a wait",
        {
            "text": "on",
            "tool_calls": [
                {"name": "ask_user", "arguments": {"questions": [QUESTION]}}
            ],
        },
        waiting,
        False,
    ),
)
