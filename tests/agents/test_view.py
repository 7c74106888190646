"""What the model is shown of a transcript, wherever it is cut."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.context.view import INTERRUPTED, Item, result_text, view
from agents.providers.base import Message


def user(seq: int, text: str) -> Item:
    return Item(seq, "user", {"text": text})


def answer(seq: int, seen: int, *call_ids: str, text: str = "said") -> Item:
    calls = [{"call_id": one, "name": "shell", "arguments": "{}"} for one in call_ids]
    return Item(seq, "assistant", {"text": text, "tool_calls": calls, "seen_seq": seen})


def result(seq: int, call_id: str, output: str = "out") -> Item:
    return Item(seq, "tool_result", {"call_id": call_id, "ok": True, "output": output})


def texts(items: list[Item]) -> list[str]:
    return [message.text for message in view(items)]


def test_a_message_said_between_calls_and_results_comes_after_the_last_result():
    items = [
        user(3, "go"),
        answer(4, 3, "a", "b"),
        result(5, "a", "first"),
        user(6, "hurry"),
        result(7, "b", "second"),
    ]
    assert texts(items) == ["go", "said", "first", "second", "hurry"]


def test_a_message_said_while_the_answer_was_made_comes_after_it():
    items = [user(3, "go"), user(4, "wait"), answer(5, 3)]
    assert texts(items) == ["go", "said", "wait"]


def test_a_call_without_a_result_gets_one_that_says_so():
    items = [user(3, "go"), answer(4, 3, "a"), user(5, "and?")]
    assert texts(items) == ["go", "said", INTERRUPTED, "and?"]


def test_a_rewind_leaves_out_what_came_after_its_place():
    rewind = Item(5, "notice", {"type": "rewind", "to_seq": 3})
    items = [user(3, "go"), answer(4, 3, text="old"), rewind, answer(6, 5, text="new")]
    assert texts(items) == ["go", "new"]


def test_a_notice_reaches_the_model_only_when_it_is_meant_to():
    items = [
        user(3, "go"),
        Item(4, "notice", {"type": "limit", "text": "last round", "to_model": True}),
        Item(5, "notice", {"type": "info", "text": "for people"}),
    ]
    assert texts(items) == ["go", "last round"]


def test_a_failed_result_gives_its_output_with_its_error():
    body = {
        "ok": False,
        "output": "half",
        "error": {"code": "timeout", "message": "after 3 s"},
    }
    assert result_text(body) == "half\nerror timeout: after 3 s"


@st.composite
def logs(draw: st.DrawFn) -> list[Item]:
    """A log as runs write it: rounds with 0 to 3 calls, people speaking anywhere."""
    items: list[Item] = [user(3, "start")]
    seq = 3

    def add(kind: str, body: dict[str, Any]) -> None:
        nonlocal seq
        seq += 1
        items.append(Item(seq, kind, body))

    def maybe_speak() -> None:
        for _ in range(draw(st.integers(0, 2))):
            add("user", {"text": f"said {seq}"})

    for _ in range(draw(st.integers(1, 5))):
        seen = seq
        maybe_speak()
        ids = [f"c{seq}_{n}" for n in range(draw(st.integers(0, 3)))]
        calls = [{"call_id": one, "name": "shell", "arguments": "{}"} for one in ids]
        add(
            "assistant",
            {"text": f"answer {seq}", "tool_calls": calls, "seen_seq": seen},
        )
        for one in ids:
            maybe_speak()
            add("tool_result", {"call_id": one, "ok": True, "output": f"of {one}"})
        maybe_speak()
        if draw(st.integers(0, 9)) == 0:
            add("notice", {"type": "rewind", "to_seq": draw(st.integers(3, seq))})
    return items


def is_valid(messages: tuple[Message, ...]) -> bool:
    """Every call is followed at once by exactly one result, in call order."""
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if message.role == "tool":
            return False
        for call in message.tool_calls:
            follows = position < len(messages) and messages[position]
            if not follows or follows.call_id != call.call_id:
                return False
            position += 1
    return True


@given(logs(), st.integers(0, 100))
def test_a_log_cut_anywhere_gives_a_valid_view_that_a_new_message_can_follow(
    items: list[Item], cut: int
):
    kept = items[: cut % len(items) + 1]
    messages = view([*kept, user(kept[-1].seq + 1, "continue")])
    assert is_valid(messages)
    assert messages[-1].text == "continue"


@given(logs())
def test_each_request_of_a_run_extends_the_one_before_it(items: list[Item]):
    if any(item.kind == "notice" for item in items):
        return
    previous: tuple[Message, ...] = ()
    for number, item in enumerate(items):
        if item.kind != "assistant":
            continue
        seen = [one for one in items[:number] if one.seq <= item.body["seen_seq"]]
        sent = view(seen)
        assert sent[: len(previous)] == previous
        previous = sent


@given(logs())
def test_nothing_that_people_said_is_lost_or_doubled(items: list[Item]):
    if any(item.kind == "notice" for item in items):
        return
    said = [item.body["text"] for item in items if item.kind == "user"]
    shown = [message.text for message in view(items) if message.role == "user"]
    assert sorted(said) == sorted(shown), json.dumps(shown)
