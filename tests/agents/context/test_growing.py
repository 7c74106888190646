"""What is kept between two requests never changes what is sent."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.context import outgoing
from agents.context.budget import Limits
from agents.context.growing import Growing, GrowingView, Kept, settled_rows
from agents.context.pruning import Settings
from agents.context.segments import segments_of
from agents.context.view import Item, standing, view
from agents.providers import anthropic, chat_completions
from agents.providers.base import Block, Message, Owner, Prompt, Request
from agents.providers.chat_completions import Dialect
from tests.agents.acting import Acting
from tests.agents.test_view import answer, logs, result, user

OPTIONS = st.sampled_from([1, 50, 400, 1_500, 9_000])
ACTS = st.one_of(
    st.tuples(st.just("shell"), OPTIONS),
    st.tuples(st.just("user"), OPTIONS),
    st.tuples(st.just("write"), OPTIONS),
)


@given(logs(), st.lists(st.integers(1, 6), min_size=1))
def test_a_view_that_grows_is_the_view_of_the_whole(
    items: list[Item], steps: list[int]
):
    growing, end = GrowingView(), 0
    for step in [*steps, len(items)]:
        end = min(len(items), end + step)
        rows = standing(items[:end])
        assert growing.of(rows) == list(view(rows))


def test_only_what_follows_the_last_whole_round_is_worked_on_again():
    items = [user(3, "go"), answer(4, 3, "a"), result(5, "a"), user(6, "on")]
    assert settled_rows(items) == 3
    assert settled_rows([*items, answer(7, 6, "b", "c"), result(8, "b")]) == 3
    assert settled_rows(items[:2]) == 0
    growing = GrowingView()
    first = growing.of(items)
    again = growing.of([*items, answer(7, 6)])
    assert all(one is other for one, other in zip(first[:3], again, strict=False))


def test_a_list_that_changed_in_the_middle_is_worked_on_from_there():
    seen: list[str] = []

    def each(text: str) -> str:
        seen.append(text)
        return text.upper()

    growing: Growing[str, str] = Growing()
    first = ["a-1", "b-1", "c-1"]
    assert growing.of(first, each, 1) == ["A-1", "B-1", "C-1"]
    assert growing.of([*first[:1], "x-1", *first[2:]], each, 1)[1] == "X-1"
    assert seen == ["a-1", "b-1", "c-1", "x-1", "c-1"]
    growing.of(first[:1], each, 2)
    assert seen[-1] == "a-1"


def play(acting: Acting, what: str, size: int) -> None:
    if what == "user":
        acting.user(f"{len(acting.items)} " + "w " * size)
    elif what == "write":
        acting.call("write_file", path=f"{len(acting.items)}", content="x " * size)
    else:
        command = f"c{len(acting.items)}"
        acting.outputs[f"shell {command}"] = f"{len(acting.items)} " * size
        acting.call("shell", command=command)


@settings(max_examples=100, deadline=None)
@given(st.lists(ACTS, min_size=1, max_size=25))
def test_pruned_and_compacted_histories_are_sent_alike_with_and_without_what_was_kept(
    acts: list[tuple[str, Any]],
):
    acting = Acting(settings=Settings(keep_rounds=2, batch_rounds=1))
    limits, kept = Limits.of(8_000, 2_000), Kept()
    for what, size in acts:
        play(acting, what, size)
        acting.compact(limits)
        sent = outgoing.messages(acting.items, kept)
        assert sent == outgoing.messages(acting.items)
        for encode in (openai, claude):
            again = outgoing.messages(acting.items)
            assert encode(sent) == encode(sent) == encode(again)


def prompt(messages: tuple[Message, ...]) -> Prompt:
    system = (Block("Be brief.", Owner("system", "base", "Base")),)
    return Prompt("model", (), system, messages, 100)


def accounted(request: Request) -> tuple[bytes, Any]:
    return request.body, segments_of(request, "o200k_base")


def openai(messages: tuple[Message, ...]) -> Any:
    return accounted(chat_completions.encode(prompt(messages), Dialect()))


def claude(messages: tuple[Message, ...]) -> Any:
    pieces = anthropic._encode(prompt(messages), b',"cache_control":{}}')
    return accounted(Request(tuple(pieces)))


def test_bytes_kept_for_one_kind_of_service_are_not_sent_to_another():
    message = Message("user", "hi", Owner("message", "entry:3", "User"))
    plain = chat_completions.encode(prompt((message,)), Dialect()).body
    assert claude((message,))[0] != plain
    deepseek = Dialect(replays_reasoning=True)
    assert chat_completions.encode(prompt((message,)), deepseek).body == plain
