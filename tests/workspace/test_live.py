"""Pushing: what reaches a group, how text streams, what a broken broker costs."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from uuid import uuid4

import pytest
from channels.layers import get_channel_layer
from django.db import transaction

from workspace import live


@pytest.fixture(autouse=True)
async def _disconnected():
    yield
    await live.disconnect()


async def listen(group: str):
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    return layer, channel


async def received(layer, channel, count: int = 100, patience: float = 0.4) -> list:
    messages = []
    try:
        while len(messages) < count:
            event = await asyncio.wait_for(layer.receive(channel), patience)
            messages.append(json.loads(event["text"]))
    except TimeoutError:
        pass
    return messages


async def settled() -> None:
    assert await asyncio.to_thread(live.pusher().settle)


async def test_pushes_arrive_in_the_order_of_the_calls():
    group = live.conversation_group(uuid4())
    layer, channel = await listen(group)
    for seq in range(50):
        live.push(group, {"type": "entry.appended", "seq": seq})
    messages = await received(layer, channel, 50)
    assert [message["seq"] for message in messages] == list(range(50))


async def test_a_message_over_the_limit_becomes_a_request_to_catch_up():
    group = live.conversation_group(uuid4())
    layer, channel = await listen(group)
    live.push(group, {"type": "entry.appended", "body": "한" * live.LARGEST_PUSH})
    assert await received(layer, channel, 1) == [{"type": "resync"}]


def test_a_push_on_commit_waits_for_the_commit_and_dies_with_a_rollback(
    monkeypatch, db, django_capture_on_commit_callbacks
):
    pushed = []
    monkeypatch.setattr(live, "push", lambda group, message: pushed.append(message))
    with django_capture_on_commit_callbacks(execute=True):
        with transaction.atomic():
            live.push_on_commit("g", {"type": "lost"})
            transaction.set_rollback(True)
        live.push_on_commit("g", {"type": "kept"})
        assert pushed == []
    assert pushed == [{"type": "kept"}]


async def test_the_first_delta_goes_at_once_and_the_rest_in_few_pushes():
    conversation = uuid4()
    layer, channel = await listen(live.conversation_group(conversation))
    stream = live.TextStream(conversation, "r:1:0")
    stream.write("first")
    [first] = await received(layer, channel, 1)
    assert (first["offset"], first["text"]) == (0, "first")
    for _ in range(40):
        stream.write("😀한")
        await asyncio.sleep(0.005)
    stream.close()
    rest = await received(layer, channel)
    assert rest.pop() == {"type": "message.closed", "stream": "r:1:0"}
    assert len(rest) <= 15
    assert "".join(delta["text"] for delta in rest) == "😀한" * 40
    assert [d["offset"] for d in rest] == [
        5 + sum(len(e["text"]) for e in rest[:n]) for n in range(len(rest))
    ]


async def test_whoever_joins_in_mid_stream_gets_the_text_so_far():
    conversation = uuid4()
    stream = live.TextStream(conversation, "r:2:0", "reasoning")
    stream.write("It was a long ")
    await settled()
    stream.write("night. " + "x" * 25_000)
    await settled()
    assert await live.text_so_far(conversation) == [
        live.StreamText("r:2:0", "reasoning", 0, "It was a long night. " + "x" * 25_000)
    ]
    stream.close()
    await settled()
    assert await live.text_so_far(conversation) == []


async def test_a_stream_begun_anew_after_a_lost_worker_replaces_the_old_text():
    conversation = uuid4()
    lost, anew = (live.TextStream(conversation, "r:1:1:text") for _ in range(2))
    lost.write("never finis")
    await settled()
    [before] = await live.text_so_far(conversation)
    anew.write("The ")
    await settled()
    [after] = await live.text_so_far(conversation)
    assert after.text == "The "
    assert after.epoch != before.epoch
    lost.close()
    anew.close()


async def test_a_superseded_stream_says_so_and_takes_no_more_text():
    conversation = uuid4()
    layer, channel = await listen(live.conversation_group(conversation))
    stream = live.TextStream(conversation, "r:1:0")
    stream.write("half")
    stream.supersede()
    stream.write(" more")
    stream.close()
    messages = await received(layer, channel)
    assert [message["type"] for message in messages] == [
        "message.delta",
        "message.superseded",
    ]


async def test_of_a_tools_endless_output_only_the_end_is_kept():
    conversation = uuid4()
    stream = live.TextStream(conversation, "call:1", "tool")
    for number in range(30):
        stream.write(f"{number:05d}" * 1000)
        await settled()
    [kept] = await live.text_so_far(conversation)
    assert len(kept.text) <= 2 * live.TOOL_TAIL
    assert kept.start + len(kept.text) == 150_000
    assert kept.text.endswith("00029")
    stream.close()


async def test_a_lone_surrogate_breaks_nothing():
    conversation = uuid4()
    layer, channel = await listen(live.conversation_group(conversation))
    stream = live.TextStream(conversation, "r:1:0")
    stream.write("a\ud800b")
    live.push(live.conversation_group(conversation), {"type": "x", "text": "\ud800"})
    messages = await received(layer, channel)
    assert messages[0]["text"] == "a?b"
    stream.close()


async def test_writing_costs_microseconds_and_waits_for_nobody():
    stream = live.TextStream(uuid4(), "r:1:0")
    stream.write("warm")
    begun = time.perf_counter()
    for _ in range(10_000):
        stream.write("token ")
    each = (time.perf_counter() - begun) / 10_000
    stream.close()
    assert each < 200e-6


def test_while_the_broker_is_away_memory_is_bounded_and_text_comes_whole_later(
    settings, monkeypatch
):
    address = settings.REDIS_URL
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    pusher = live.Pusher()
    monkeypatch.setattr(live, "pusher", lambda: pusher)
    conversation = uuid4()
    stream = live.TextStream(conversation, "r:1:0")
    stream.write("before ")
    for _ in range(300):
        live.push("g", {"type": "x", "padding": "y" * 50_000})
    assert not pusher.settle(1.0)
    assert pusher._bytes <= live.LARGEST_BACKLOG

    async def reach_it_again() -> None:
        live._clients.pop(pusher.loop, None)
        settings.REDIS_URL = address

    asyncio.run_coroutine_threadsafe(reach_it_again(), pusher.loop).result(5)
    stream.write("after")
    assert pusher.settle(10)
    read = asyncio.run_coroutine_threadsafe(live.text_so_far(conversation), pusher.loop)
    assert [text.text for text in read.result(5)] == ["before after"]
    stream.close()
    assert pusher.settle(5)
    asyncio.run_coroutine_threadsafe(live.disconnect(), pusher.loop).result(5)


async def test_threads_that_write_at_once_lose_nothing():
    conversation = uuid4()
    streams = [live.TextStream(conversation, f"r{n}:1:0") for n in range(20)]

    def write(stream: live.TextStream) -> None:
        for number in range(200):
            stream.write(f"{number} ")

    threads = [threading.Thread(target=write, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await settled()
    whole = "".join(f"{number} " for number in range(200))
    texts = await live.text_so_far(conversation)
    assert [text.text for text in texts] == [whole] * 20
    for stream in streams:
        stream.close()
