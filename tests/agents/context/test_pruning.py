"""Which outputs become stubs, when, and that a stub once sent stays as it is."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.context import outgoing, pruning
from agents.context.cadence import Prices
from agents.context.folding import fold
from agents.context.pruning import Settings
from agents.context.view import result_text
from tests.agents.acting import Acting, find, whole_texts

STUB = "[earlier {} output pruned — {} chars; re-run the tool if you need it again]"
BIG = "x" * 5000
CACHED = Prices(0.1, 1.25)


def shells(acting: Acting, number: int, text: str = BIG) -> None:
    for _ in range(number):
        command = f"c{acting.round_number}"
        acting.outputs[f"shell {command}"] = text
        acting.call("shell", command=command)


def test_case_14_the_first_four_of_ten_rounds_are_stubs_and_six_are_whole():
    acting = Acting()
    shells(acting, 10)
    before = deepcopy([one for one in acting.items if one.kind != "notice"])
    assert whole_texts(acting.messages()) == [STUB.format("shell", 5000)] * 4 + (
        [BIG] * 6
    )
    assert [one for one in acting.items if one.kind != "notice"] == before


@pytest.mark.parametrize("rounds", [0, 1, 6])
def test_up_to_the_kept_rounds_nothing_is_pruned(rounds: int):
    acting = Acting()
    shells(acting, rounds)
    assert whole_texts(acting.messages()) == [BIG] * rounds


def test_case_15_bodies_answers_reports_schemas_and_short_results_stay():
    acting = Acting(outputs={"shell ok": "0123456789"})
    names = ("skill_view", "ask_user", "delegate_task", "tool_search")
    for name in names:
        acting.outputs[f"{name} n"] = BIG
        acting.call(name, name="n")
    acting.call("shell", command="ok")
    shells(acting, 6)
    assert whole_texts(acting.messages())[:5] == [BIG] * 4 + ["0123456789"]


def test_the_last_failure_of_each_tool_stays_until_a_later_one():
    acting = Acting()
    acting.settings = Settings(keep_rounds=1, batch_rounds=1)
    for command in ("a", "b"):
        acting.outputs[f"shell {command}"] = None
        acting.call("shell", command=command)
    failed = [one for one in acting.items if one.kind == "tool_result"]
    for one in failed:
        one.body["output"] = "trace\n" * 50
    acting.call("glob", pattern="y")
    first, second, _ = whole_texts(acting.messages())
    assert first.startswith("[earlier shell output pruned")
    assert second.startswith("trace\n")


def test_at_least_one_round_is_always_kept():
    acting = Acting(settings=Settings(keep_rounds=0, batch_rounds=1))
    shells(acting, 2)
    assert whole_texts(acting.messages()) == [STUB.format("shell", 5000), BIG]


def test_a_stub_never_invites_to_repeat_an_effect():
    acting = Acting(settings=Settings(keep_rounds=1, batch_rounds=1))
    acting.outputs |= {"execute_code c": BIG, "mcp__tickets__create t": BIG}
    acting.call("execute_code", code="c")
    acting.call("mcp__tickets__create", command="t")
    shells(acting, 1)
    for text in whole_texts(acting.messages())[:2]:
        assert text.endswith("chars; it was carried out; do not repeat it to see this]")


def test_a_refused_repeat_is_not_invited_again():
    acting = Acting({"a": "1\n"}, settings=Settings(keep_rounds=1, batch_rounds=1))
    for _ in range(5):
        acting.call("read_file", path="a")
    acting.call("glob", pattern="y")
    refused = [text for text in whole_texts(acting.messages()) if "refused" in text]
    assert refused[0].endswith("the call was refused as a repeat]")


def test_large_arguments_of_old_writes_become_size_and_hash():
    acting = Acting(settings=Settings(keep_rounds=1, batch_rounds=1))
    acting.call("write_file", path="a.txt", content=BIG)
    shells(acting, 1)
    written = next(one for one in acting.messages() if one.tool_calls)
    values = json.loads(written.tool_calls[0].arguments)
    assert values["path"] == "a.txt"
    assert values["content"].startswith("[written earlier — 5000 chars, sha256 ")


def test_a_result_that_a_recent_stub_points_to_stays_whole():
    acting = Acting({"a.txt": "line\n" * 100})
    acting.call("read_file", path="a.txt")
    for number in range(5):
        acting.call("glob", pattern=f"{number}")
    acting.call("read_file", path="a.txt")
    texts = whole_texts(acting.messages())
    assert texts[0].startswith("1\tline")
    assert texts[-1].startswith("unchanged since")
    shells(acting, 6)
    assert whole_texts(acting.messages())[0].startswith("[earlier read_file output")


def test_switched_off_nothing_is_pruned_and_what_was_is_whole_again():
    acting = Acting()
    shells(acting, 8)
    acting.settings = Settings(on=False)
    shells(acting, 1)
    assert whole_texts(acting.messages()) == [BIG] * 9
    assert pruning.decide(fold(acting.items).rows, acting.settings, CACHED) is None


def test_a_fixed_batch_moves_the_boundary_in_steps():
    acting = Acting(settings=Settings(keep_rounds=2, batch_rounds=3))
    moves = []
    for _ in range(9):
        shells(acting, 1)
        texts = whole_texts(acting.messages())
        moves.append(sum(text.startswith("[earlier") for text in texts))
    assert moves == [0, 0, 0, 0, 3, 3, 3, 6, 6]


def test_with_a_cache_the_boundary_waits_until_it_pays():
    acting = Acting(settings=Settings(), prices=CACHED)
    shells(acting, 7, "x" * 400)
    assert STUB.format("shell", 400) not in whole_texts(acting.messages())
    shells(acting, 40, "x" * 400)
    steps = [one for one in acting.items if one.kind == "notice"]
    assert 1 <= len(steps) <= 6
    assert {one.body["cause"] for one in steps} == {"pays"}


def test_a_cold_cache_is_used_to_prune_for_free():
    acting = Acting(settings=Settings(), prices=CACHED)
    shells(acting, 7, "x" * 400)
    acting.prune(cold=True)
    assert whole_texts(acting.messages())[0] == STUB.format("shell", 400)
    assert acting.items[-1].body["cause"] == "cold"


def test_a_step_previews_the_bytes_that_are_sent_when_it_is_recorded():
    acting = Acting(settings=Settings(keep_rounds=1, batch_rounds=99))
    shells(acting, 3)
    step = pruning.decide(
        fold(acting.items).rows, Settings(keep_rounds=1, batch_rounds=1), CACHED
    )
    assert step
    preview = outgoing.messages([*acting.items, step.item(acting.items[-1].seq + 1)])
    acting.append("notice", json.loads(json.dumps(step.body())))
    assert acting.messages() == preview
    assert step.text.startswith("Outputs of 2 older tool calls")


TOOLS = st.sampled_from(["shell", "grep", "execute_code", "skill_view", "fail"])
SIZES = st.sampled_from([0, 10, 90, 300, 4000])


def play(calls: list[tuple[str, int]], acting: Acting) -> None:
    for number, (name, size) in enumerate(calls):
        tool = "shell" if name == "fail" else name
        acting.outputs[f"{tool} {number}"] = None if name == "fail" else "z" * size
        acting.call(tool, key=str(number))


def by_the_rule(acting: Acting, keep: int) -> list[str]:
    """The seed's rule, written down a second time, with the exemptions."""
    rounds = [one for one in acting.items if one.kind == "tool_result"]
    newest = {
        one.body["name"]: one.seq for one in rounds if not one.body["ok"]
    }.values()
    texts = []
    for index, one in enumerate(rounds):
        name, text = one.body["name"], result_text(one.body)
        stub = pruning.stub_of(one.body, find)
        old = index < len(rounds) - keep
        if not old or name == "skill_view" or one.seq in newest:
            texts.append(text)
        else:
            texts.append(stub if len(stub) < len(text) else text)
    return texts


@settings(deadline=None)
@given(st.lists(st.tuples(TOOLS, SIZES), max_size=14), st.integers(1, 4))
def test_the_literal_cadence_is_the_rule(calls: list[tuple[str, int]], keep: int):
    acting = Acting(settings=Settings(keep_rounds=keep, batch_rounds=1))
    play(calls, acting)
    assert whole_texts(acting.messages()) == by_the_rule(acting, keep)


@settings(deadline=None)
@given(
    st.lists(st.tuples(TOOLS, SIZES), min_size=1, max_size=20),
    st.sampled_from([1, 3, "auto"]),
    st.sets(st.integers(0, 19)),
)
def test_a_stub_once_sent_keeps_its_bytes(
    calls: list[tuple[str, int]], cadence: int | str, cold: set[int]
):
    acting = Acting(
        settings=Settings(keep_rounds=2, batch_rounds=cadence),  # type: ignore[arg-type]
        prices=CACHED,
    )
    sent: list[str] = []
    for number, call in enumerate(calls):
        play([call], acting)
        if number in cold:
            acting.prune(cold=True)
        now = whole_texts(acting.messages())
        for before, after in zip(sent, now, strict=False):
            assert before == after or after.startswith("[earlier ")
            assert not before.startswith("[earlier ") or before == after
        sent = now
        assert len("".join(now)) <= len("".join(map(result_text, bodies(acting))))


def bodies(acting: Acting) -> list[dict]:
    return [one.body for one in acting.items if one.kind == "tool_result"]


@settings(deadline=None)
@given(st.lists(st.tuples(TOOLS, SIZES), max_size=20))
def test_requests_extend_each_other_except_at_recorded_steps(
    calls: list[tuple[str, int]],
):
    acting = Acting(settings=Settings(keep_rounds=2), prices=CACHED)
    sent = acting.messages()
    for number, call in enumerate(calls):
        steps = sum(one.kind == "notice" for one in acting.items)
        acting.outputs[f"{call[0]} {number}"] = "z" * call[1]
        acting.call(call[0], key=str(number))
        now = acting.messages()
        if steps == sum(one.kind == "notice" for one in acting.items):
            assert now[: len(sent)] == sent
        sent = now
