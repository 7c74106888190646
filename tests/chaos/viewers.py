"""Web is killed while two pages and two logs look on; nobody misses or sees twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

from agents.models import Run
from observability.models import Record
from tests.chaos.report import Report
from tests.chaos.world import (
    World,
    script,
    shell,
    talk,
    wait_ended,
    wait_running,
)
from tests.harness.installation import WEB, GaveUp, wait_until
from tests.harness.people import more_people
from tests.harness.viewer import ChatViewer, LogViewer, Watching
from workspace import transcript
from workspace.models import Conversation, Entry

KILLS_PER_START = 5
#: Seconds: an open page asks every five, a socket reconnects within one.
SECONDS_TO_AGREE = 20


def run(world: World, report: Report) -> None:
    conversation = world.owner.converse("viewers")
    [other] = more_people(world.owner, 1, "looker")
    chats = [ChatViewer(person, conversation) for person in (world.owner, other)]
    logs: list[LogViewer] = []
    wrong: list[str] = []
    with Watching() as watching:
        for chat in chats:
            watching.add(chat)
        for number in range(kills := world.times(20, least=4)):
            if number and number % KILLS_PER_START == 0:
                world.installation.stop()
                world.installation.start()
            world.owner.say(conversation, viewer_script(f"view-{number}"))
            job = wait_running(conversation)
            logs += [LogViewer(person, str(job.pk)) for person in (world.owner, other)]
            for log in logs[-2:]:
                watching.add(log)
            time.sleep(world.random.uniform(0, 1.5))
            world.installation.kill_child(WEB)
            wrong += wait_ended([conversation], 60)
            wrong += disagreements(conversation, chats, logs)
    report.check("runs end although web is killed", wrong, f"{kills} kills")
    tell(report, conversation, chats, logs)


def viewer_script(tag: str) -> str:
    command = f"echo {tag}; sleep 0.3"
    first = {"text": "on", "tool_calls": [shell(command)], **talk(20)}
    return script(tag, first, talk(30))


def tell(
    report: Report,
    conversation: Conversation,
    chats: list[ChatViewer],
    logs: list[LogViewer],
) -> None:
    viewers = [*chats, *logs]
    report.check(
        "no viewer saw a gap or a duplicate",
        [fault for viewer in viewers for fault in viewer.faults],
        f"{sum(one.connections for one in viewers)} connections,"
        f" {sum(one.pushes for one in viewers)} pushes,"
        f" {sum(one.silences for one in viewers)} sockets given up as silent",
    )
    report.check(
        "both pages show the same", [] if chats[0].shown == chats[1].shown else ["no"]
    )
    report.check(
        "streamed text is stored text",
        list(strange_texts(conversation, chats)),
        f"{sum(len(chat.finished_streams) for chat in chats)} streams",
    )


def disagreements(
    conversation: Conversation, chats: list[ChatViewer], logs: list[LogViewer]
) -> Iterator[str]:
    """Whatever a viewer still lacks some seconds after the run ended."""
    conversation.refresh_from_db()
    last = Run.objects.filter(conversation=conversation).latest("created_at")
    heads = {
        log.run_id: Record.objects.filter(run_id=log.run_id).count() for log in logs
    }

    def agree() -> bool:
        return all(
            chat.last == conversation.head_seq
            and chat.turns.get(str(last.turn_id)) == last.state
            for chat in chats
        ) and all(log.position() == heads[log.run_id] for log in logs)

    try:
        wait_until(agree, SECONDS_TO_AGREE, "viewers catch up")
    except GaveUp:
        for chat in chats:
            state = chat.turns.get(str(last.turn_id))
            if chat.last != conversation.head_seq or state != last.state:
                yield f"page at {chat.last} of {conversation.head_seq}, turn {state}"
        for log in logs:
            if log.position() != heads[log.run_id]:
                yield f"log at {log.position()} of {heads[log.run_id]}"


def strange_texts(conversation: Conversation, chats: list[ChatViewer]) -> Iterator[str]:
    """Whole streams must be answers or tool output, and cut ones their beginning."""
    stored = []
    for entry in transcript.entries(conversation.pk):
        body = transcript.body(entry)
        if entry.kind == Entry.Kind.ASSISTANT:
            stored.append(body["text"])
        elif entry.kind == Entry.Kind.TOOL_RESULT:
            stored.append(body["output"])
    for chat in chats:
        for text in chat.finished_streams:
            if not any(one.startswith(text) or text in one for one in stored):
                yield repr(text[:80])
