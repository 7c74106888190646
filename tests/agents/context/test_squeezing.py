"""What is taken away from a request that would not fit, and in which order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.context.pruning import LARGE_ARGUMENT, Settings, estimate
from agents.context.squeezing import left_out, squeeze
from tests.agents.acting import Acting, find, whole_texts
from tests.agents.test_view import is_valid

OFF = Settings(on=False)


def squeezed(acting: Acting, need: int) -> dict[str, Any] | None:
    step = squeeze(acting.items, need=need, find=find)
    if step is None:
        return None
    body = step.body()
    acting.append("notice", body)
    return body


def arguments_sent(acting: Acting) -> list[str]:
    return [call.arguments for one in acting.messages() for call in one.tool_calls]


def test_older_outputs_go_first_and_the_newest_stays_when_that_is_enough():
    acting = Acting(settings=OFF, outputs={"shell a": "a" * 4_000})
    acting.call("shell", command="a")
    acting.call("grep", pattern="b")
    squeezed(acting, 900)
    old, newest = whole_texts(acting.messages())
    assert old.startswith("[earlier shell output pruned — 4000 chars; ")
    assert newest == "output of grep b"


def test_an_output_of_the_newest_round_is_not_offered_to_be_run_again():
    acting = Acting(settings=OFF, outputs={"grep a": "a" * 4_000})
    acting.call("grep", pattern="a")
    squeezed(acting, 900)
    assert whole_texts(acting.messages()) == [
        "[earlier grep output pruned — 4000 chars; it is too large to be sent: ask for "
        "a part of it]"
    ]


def test_large_arguments_of_the_newest_call_are_sent_as_size_and_hash():
    acting = Acting(settings=OFF)
    acting.call("write_file", path="a.txt", content="x" * 8_000)
    body = squeezed(acting, 1_900)
    assert body
    [sent] = map(json.loads, arguments_sent(acting))
    assert sent["path"] == "a.txt"
    assert sent["content"].startswith("[left out — 8000 chars, sha256 ")
    assert body["text"].startswith("Large arguments of 1 messages are sent as size")


@pytest.mark.parametrize(
    "arguments",
    [
        "[" * 100_000,
        "no JSON " * 1_000,
        json.dumps({"k" * 9_000: 1}),
        json.dumps(["x" * 9_000]),
        json.dumps({"a": {"b": [{"c": "x" * 9_000}]}}),
    ],
)
def test_what_stands_for_large_arguments_is_a_small_json_object(arguments):
    text = left_out(arguments)
    assert text
    assert isinstance(json.loads(text), dict)
    assert len(text) < LARGE_ARGUMENT


def test_small_arguments_are_always_sent():
    assert left_out("x" * (LARGE_ARGUMENT - 1)) is None


calls = st.lists(
    st.tuples(
        st.sampled_from(["shell", "grep", "write_file", "read_file", "skill_view"]),
        st.integers(0, 6_000),
        st.integers(0, 6_000),
    ),
    min_size=1,
    max_size=8,
)


@given(calls, st.integers(0, 12_000))
def test_a_squeeze_saves_what_it_says_and_calls_keep_their_results(played, need):
    acting = Acting(settings=OFF)
    for name, argument, output in played:
        key = f"{acting.round_number}" + "x" * argument
        acting.outputs[f"{name} {key}"] = "o" * output
        given_ = {"path": key} if name.endswith("file") else {"command": key}
        acting.call(name, **given_, content="c" * (argument + 1))
    before, sent = acting.counts().total, acting.messages()
    body = squeezed(acting, need)
    if body is None:
        assert acting.messages() == sent
        return
    saved = before - acting.counts().total
    assert abs(saved - body["saved_tokens"]) <= 2 * len(played)
    assert is_valid(acting.messages())
    again = squeeze(acting.items, need=need, find=find, count=estimate)
    assert again is None or again.stubs.keys().isdisjoint(map(int, body["stubs"]))
