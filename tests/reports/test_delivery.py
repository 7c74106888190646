"""Reports about delivery: reconnects, tabs, several servers, large results."""

from __future__ import annotations

import asyncio
import json

import psutil
import pytest

from tests.harness.installation import WEB, WORKER, wait_until
from tests.harness.viewer import ChatViewer, Watching
from tests.reports.live import (
    deltas,
    frames,
    script,
    second_server,
    shell,
    story,
    told,
)

pytestmark = [pytest.mark.kill, pytest.mark.timeout(240)]

#: Bytes of one push on the wire, and what a result of 40 MB may add to a process.
LARGEST_FRAME, LARGEST_GROWTH = 64 * 1024, 400 * 1024 * 1024


#: The turns of row 4: a text, or None to have the last one answered again.
BEFORE_RESTART = ("one", "two", None)
AFTER_RESTART = ("three", None, "four", "five")


def settled(viewers: list[ChatViewer], rows, talk) -> None:
    """Wait until every page has shown the conversation to its end."""

    def there() -> bool:
        [(head,)] = rows.all(
            "SELECT head_seq FROM workspace_conversation WHERE id = ?", talk.pk.hex
        )
        return all(viewer.last == head and not viewer.streams for viewer in viewers)

    wait_until(there, 20, "every page is complete")


def take_turns(boss, rows, talk, pages: list[ChatViewer], turns, seq: int = 0) -> int:
    """Play the turns, each to its end on every page; returns the last message's seq."""
    for name in turns:
        if name is None:
            answer = boss.send(boss.path(talk, "retry"), {"to_seq": seq})
            assert answer.status_code == 200, answer.text
        else:
            seq = boss.say(talk, script({"text": f"{name} {told(30)}"}))["seq"]
        assert rows.wait_ended(talk) == "finished"
        settled(pages, rows, talk)
    return seq


def test_row_4_two_tabs_on_two_servers_show_the_same_over_turns_and_restarts(
    installation, boss, rows
):
    talk = boss.converse()
    near = ChatViewer(boss, talk)
    with Watching() as watching:
        watching.add(near)
        seq, faults = 0, []
        for turns in (BEFORE_RESTART, AFTER_RESTART):
            with second_server(installation) as origin:
                far, begun = ChatViewer(boss.at(origin), talk), near.last
                watching.add(far)
                settled([near, far], rows, talk)
                said = len(near.finished_streams)
                seq = take_turns(boss, rows, talk, [near, far], turns, seq)
                faults += far.faults
                assert [one for one in far.shown if one > begun] == [
                    one for one in near.shown if one > begun
                ]
                assert far.finished_streams == near.finished_streams[said:]
                assert len(far.finished_streams) == len(turns)
    assert near.faults + faults == []
    assert near.finished_streams[-1].strip() == f"five {told(30)}"


def test_row_5_a_result_that_came_while_the_socket_was_cut_is_there_on_return(
    boss, rows
):
    talk = boss.converse("auto")
    command = "sleep 3; echo it took a while"

    async def cut_and_return():
        async with boss.socket(talk) as socket:
            boss.say(talk, script(shell(command), {"text": "All done."}))
            await frames(socket, 10, "tool.started")
        await asyncio.to_thread(rows.wait_ended, talk)
        async with boss.socket(talk) as socket:
            await socket.send({"after": 0})
            return (await frames(socket, 5, "sync"))[-1]

    sync = asyncio.run(cut_and_return())
    assert sync["turns"][-1]["state"] == "finished"
    assert sync["streams"] == []
    shown = boss.entries(talk)
    assert "it took a while" in shown
    assert "All done." in shown


def test_row_7_a_huge_result_goes_by_reference_and_stops_nobodys_stream(
    installation, boss, rows
):
    big, other = boss.converse("auto"), boss.converse()
    children = [*installation.processes(WEB), *installation.processes(WORKER)]
    before = [child.memory_info().rss for child in children]
    heard: dict[str, list] = {}

    async def listen(name, talk, seconds):
        async with boss.socket(talk) as socket:
            heard[name] = await frames(socket, seconds)

    async def watch():
        listening = [listen(f"big{n}", big, 14) for n in range(3)]
        listening.append(listen("other", other, 14))
        tasks = [asyncio.create_task(one) for one in listening]
        await asyncio.sleep(0.5)
        command = "head -c 40000000 /dev/zero | tr '\\0' 'x' | fold -w 1000"
        boss.say(big, script(shell(command), {"text": "That was a lot."}))
        boss.say(other, script(story(150, 40)))
        await asyncio.gather(*tasks)

    asyncio.run(watch())
    assert (rows.wait_ended(big), rows.wait_ended(other)) == ("finished", "finished")
    sizes = [len(json.dumps(one)) for found in heard.values() for one in found]
    assert max(sizes) < LARGEST_FRAME
    assert deltas(heard["other"]).strip() == told(150)
    for name in ("big0", "big1", "big2"):
        assert "That was a lot." in deltas(heard[name])
    [result] = rows.bodies(big, "tool_result")
    assert len(json.dumps(result)) < LARGEST_FRAME
    assert result["output_sha256"]
    grown = [
        child.memory_info().rss - rss
        for child, rss in zip(children, before, strict=True)
        if psutil.pid_exists(child.pid)
    ]
    print(f"memory grew by {[size // 2**20 for size in grown]} MiB")  # noqa: T201
    assert max(grown) < LARGEST_GROWTH


def test_ten_tabs_of_one_person_hear_only_the_conversation_that_each_shows(boss, rows):
    shown = boss.converse()
    others = [boss.converse() for _ in range(9)]

    async def watch():
        sockets = [boss.socket(talk) for talk in (shown, *others)]
        for socket in sockets:
            await socket.open()
        reading = [asyncio.create_task(frames(socket, 5)) for socket in sockets]
        boss.say(shown, script(story(60, 20)))
        found = [await one for one in reading]
        for socket in sockets:
            await socket.leave()
        return found

    mine, *rest = asyncio.run(watch())
    assert rows.wait_ended(shown) == "finished"
    assert deltas(mine).strip() == told(60)
    kinds = {message["type"] for found in rest for message in found}
    assert kinds.isdisjoint({"message.delta", "entry.appended", "turn.changed"})
