"""When a conversation is compacted, what is kept, and that it never goes in circles."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.context.budget import Counts, Limits
from agents.context.compaction import APART, Plan, plan
from agents.context.folding import fold
from agents.context.pruning import Settings, estimate
from agents.context.summary import mechanical
from agents.context.view import Item
from tests.agents.acting import Acting, find, whole_texts
from tests.agents.test_view import is_valid

OFF = Settings(on=False)
SMALL = Limits.of(8_000, 2_000)
LARGE = Limits.of(270_000, 20_000)


def shell(acting: Acting, tokens: int) -> None:
    command = f"c{acting.round_number}"
    acting.outputs[f"shell {command}"] = f"{acting.round_number:03} " * tokens
    acting.call("shell", command=command)


def test_the_limits_of_a_window_are_those_of_the_specification():
    assert Limits(270_000, 20_000, 189_000) == LARGE
    assert SMALL.compact_at == 5_600
    assert Limits.of(32_768, 4_000).compact_at == int(0.7 * 32_768)
    assert Limits.of(1_000_000, 20_000, 190_000).compact_at == 190_000


def test_a_long_tool_loop_is_compacted_once_on_the_way_past_the_point():
    acting = Acting(settings=OFF)
    made: list[Plan] = []
    while len(made) < 1 or acting.counts().total < 150_000:
        shell(acting, 5_000)
        step = acting.compact(LARGE)
        made += [step] if step else []
    assert [one.strategy for one in made] == ["summarise"]
    assert made[0].before >= 189_000
    assert made[0].gain >= LARGE.gain


def test_nothing_happens_before_the_point():
    acting = Acting(settings=OFF)
    shell(acting, 100_000)
    assert acting.compact(LARGE) is None


def test_the_last_request_stays_word_for_word_and_calls_keep_their_results():
    acting = Acting(settings=OFF)
    request = "Count   the words,\n please: 말 그대로"
    acting.user(request)
    for _ in range(30):
        shell(acting, 400)
    made = acting.compact(SMALL)
    assert made
    texts = [one.text for one in acting.messages()]
    assert texts[0].startswith("Summary of the earlier part")
    assert texts[1] == request
    assert is_valid(acting.messages())
    assert texts.count(request) == 1


def test_rules_in_force_are_kept_and_older_texts_of_them_are_not():
    acting = Acting(settings=OFF)
    for version in ("old", "new"):
        acting.append(
            "notice",
            {"type": "rules", "path": "src", "text": version, "to_model": True},
        )
        shell(acting, 400)
    for _ in range(14):
        shell(acting, 400)
    acting.compact(SMALL)
    texts = [one.text for one in acting.messages()]
    assert "new" in texts
    assert "old" not in texts


def test_small_skills_survive_and_large_old_ones_leave_a_pointer():
    acting = Acting(settings=OFF)
    acting.outputs |= {"skill_view small": "do it so", "skill_view big": "b" * 6_000}
    acting.call("skill_view", name="small")
    acting.call("skill_view", name="big")
    for text in ("next", "and next"):
        acting.user(text)
    for _ in range(12):
        shell(acting, 400)
    acting.compact(SMALL)
    summary = acting.messages()[0].text
    assert "Skill small, still loaded:\ndo it so" in summary
    assert (
        "[SKILL_PRUNED: content lost in compaction; reload with "
        'skill_view(name="big")]' in summary
    )


def test_a_large_skill_of_the_last_turns_survives():
    acting = Acting(settings=OFF)
    acting.outputs["skill_view big"] = "b" * 6_000
    acting.call("skill_view", name="big")
    for _ in range(20):
        shell(acting, 2_000)
    acting.compact(Limits.of(40_000, 2_000))
    assert "b" * 6_000 in acting.messages()[0].text


@pytest.mark.parametrize(("turns", "survives"), [(0, False), (1, False), (2, True)])
def test_the_settings_say_of_how_many_turns_skills_survive(turns, survives):
    acting = Acting(settings=OFF)
    acting.outputs["skill_view big"] = "b" * 6_000
    acting.call("skill_view", name="big")
    acting.user("next")
    for _ in range(20):
        shell(acting, 2_000)
    acting.compact(Limits.of(40_000, 2_000), recent_turns=turns)
    assert ("b" * 6_000 in acting.messages()[0].text) is survives


def test_two_summaries_are_five_rounds_apart_and_never_of_a_summary_alone():
    acting = Acting(settings=OFF)
    acting.user("go")
    for _ in range(15):
        shell(acting, 400)
    assert acting.compact(SMALL)
    for played in range(APART):
        made = acting.compact(SMALL, asked=True)
        assert made
        assert made.strategy == "refuse"
        assert f"{played} round" in made.sentence
        shell(acting, 400)
    made = acting.compact(SMALL, asked=True)
    assert made
    assert made.strategy == "summarise"
    assert sum(one.kind == "summary" for one in acting.items) == 2


def test_a_person_is_told_when_nothing_is_old_enough():
    made = Acting().compact(LARGE, asked=True)
    assert made
    assert made.sentence == (
        "Nothing in this conversation is old enough to be compacted yet."
    )


def test_a_summary_as_long_as_what_it_replaces_is_not_used():
    acting = Acting(settings=OFF)
    for _ in range(15):
        shell(acting, 400)
    before = acting.counts().total
    made = acting.compact(SMALL, text="word " * 6_000)
    assert made
    [summary] = [one for one in acting.items if one.kind == "summary"]
    assert summary.body["source"] == "mechanical"
    assert acting.counts().total <= before - SMALL.gain


def test_without_a_text_of_the_model_calls_and_files_are_listed():
    acting = Acting({"a.txt": "1\n" * 2_000}, settings=OFF)
    acting.call("read_file", path="a.txt")
    for _ in range(12):
        shell(acting, 400)
    acting.compact(SMALL, text="")
    text = acting.messages()[0].text
    assert "## Done" in text
    assert "## Goal\n- start" in text


def test_one_huge_output_is_left_out_when_the_service_refuses_the_request():
    acting = Acting(settings=OFF)
    shell(acting, 20)
    shell(acting, 30_000)
    made = acting.compact(LARGE, overflow=True)
    assert made
    assert made.strategy == "prune"
    assert whole_texts(acting.messages())[-1].startswith("[earlier shell output pruned")


def test_an_output_larger_than_a_small_window_does_not_end_the_conversation():
    acting = Acting(settings=OFF)
    shell(acting, 12_000)
    assert acting.compact(SMALL)
    assert SMALL.fits(acting.counts().total)


def test_when_nothing_helps_the_sentence_names_what_fills_the_window():
    acting = Acting(settings=OFF)
    made = acting.compact(SMALL, fixed=7_000)
    assert made
    assert made.strategy == "stop"
    assert "Tool definitions (7,000 tokens)" in made.sentence


def test_images_are_left_out_when_nothing_else_helps():
    items = [Item(3, "user", {"text": "a"}), Item(4, "user", {"text": "b"})]
    counts = Counts({"tools": 500}, {3: 4_000, 4: 4_000}, {3: 3_900, 4: 3_900})
    made = plan(items, counts, SMALL)
    assert made
    assert made.step
    assert (made.strategy, made.step.images) == ("images", (3,))


def test_the_request_for_a_summary_begins_with_what_was_sent_last():
    acting = Acting(settings=OFF)
    for _ in range(13):
        shell(acting, 400)
    sent = acting.messages()
    made = plan(acting.items, acting.counts(), SMALL, focus="the tests", find=find)
    assert made
    asked = made.asking(sent)
    assert asked[:-1] == sent[: len(asked) - 1]
    assert "in particular: the tests" in asked[-1].text
    assert made.by_model


def test_a_stub_that_points_to_a_covered_result_shows_its_text():
    acting = Acting({"a.txt": "line\n" * 900}, settings=OFF)
    acting.call("read_file", path="a.txt")
    for number in range(9):
        shell(acting, 400 + number)
    acting.call("read_file", path="a.txt")
    assert whole_texts(acting.messages())[-1].startswith("unchanged since")
    made = acting.compact(SMALL)
    assert made
    assert made.strategy == "summarise"
    assert whole_texts(acting.messages())[-1].startswith("1\tline")
    assert acting.call("read_file", path="a.txt")["output"].startswith("unchanged")


def test_segments_are_counted_by_their_entries():
    class Part:
        def __init__(self, kind: str, id: str, tokens: int) -> None:
            self.kind, self.id, self.tokens = kind, id, tokens

    parts = [Part("tools", "tool:a", 10), Part("message", "entry:4:call", 5)]
    counts = Counts.of([*parts, Part("message", "entry:4", 7)], factor=2.0)
    assert counts == Counts({"builtinTools": 20}, {4: 24})


@given(st.text(max_size=3_000), st.integers(20, 200))
def test_a_mechanical_summary_fits_its_budget(text: str, budget: int):
    rows = [Item(3, "user", {"text": text}), Item(4, "assistant", {"text": text})]
    made = mechanical(rows, text, budget, estimate, open_end=True)
    assert estimate(made) <= budget


EVENTS = st.one_of(
    st.tuples(st.just("shell"), st.sampled_from([1, 50, 400, 1_500, 9_000])),
    st.tuples(st.just("user"), st.sampled_from([5, 60, 700])),
    st.tuples(st.just("skill"), st.sampled_from([20, 1_500])),
    st.tuples(st.just("say"), st.sampled_from([10, 300])),
)
WINDOWS = st.sampled_from([8_000, 16_000, 128_000])


def happen(acting: Acting, what: str, size: int) -> None:
    if what == "shell":
        shell(acting, size)
    elif what == "user":
        acting.user(f"request {len(acting.items)} " + "w " * size)
    elif what == "skill":
        acting.outputs[f"skill_view s{size}"] = "s " * size
        acting.call("skill_view", name=f"s{size}")
    else:
        body = {"text": "t " * size, "seen_seq": acting.items[-1].seq, "tool_calls": []}
        acting.append("assistant", body)


def settle(acting: Acting, limits: Limits) -> Plan | None:
    """All decisions before one request; the last one, or what ended the run."""
    for _ in range(4):
        before = acting.counts().total
        made = acting.compact(limits)
        if made is None or made.strategy == "stop":
            return made
        assert acting.counts().total < before, made
        if made.strategy == "summarise":
            assert acting.counts().total <= before - limits.gain
    pytest.fail("compaction went in circles")


def assert_kept(acting: Acting) -> None:
    messages = acting.messages()
    assert is_valid(messages)
    said = [one.body["text"] for one in acting.items if one.kind == "user"][-1]
    assert sum(one.text == said for one in messages) == 1
    newest = [one for one in acting.items if one.kind == "assistant"][-1:]
    for one in newest:
        assert any(message.text == one.body["text"] for message in messages)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=40), WINDOWS)
def test_compaction_never_loops_never_grows_and_keeps_what_it_must(
    events: list[tuple[str, Any]], window: int
):
    acting = Acting(settings=Settings(keep_rounds=2, batch_rounds=1))
    limits = Limits.of(window, window // 4)
    for what, size in events:
        happen(acting, what, size)
        made = settle(acting, limits)
        assert_kept(acting)
        if made is not None:
            assert made.sentence
            return
        assert limits.fits(acting.counts().total)
    assert_apart(acting)


def assert_apart(acting: Acting) -> None:
    """At least five rounds lie between two summaries."""
    since = APART
    for one in acting.items:
        if one.kind == "summary":
            assert since >= APART
            since = 0
        since += one.kind == "assistant"


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, min_size=8, max_size=30), st.data())
def test_a_rewind_over_a_summary_brings_back_what_it_stood_for(
    events: list[tuple[str, Any]], data: st.DataObject
):
    acting = Acting(settings=Settings(keep_rounds=2, batch_rounds=1))
    states: dict[int, Any] = {}
    for what, size in events:
        happen(acting, what, size)
        states[acting.items[-1].seq] = acting.messages()
        acting.compact(SMALL)
    place = data.draw(st.sampled_from(sorted(states)))
    acting.append("notice", {"type": "rewind", "to_seq": place})
    assert acting.messages() == states[place]
    assert fold(acting.items).rows


def test_a_window_of_a_million_is_no_reason_at_a_quarter_of_it():
    wide = Limits.of(1_000_000, 20_000)
    acting = Acting(settings=OFF)
    while acting.counts().total < 250_000:
        shell(acting, 5_000)
    assert acting.compact(wide) is None
    assert wide.gain == 250_000


def test_an_absolute_point_holds_in_a_window_of_a_million():
    early = Limits.of(1_000_000, 20_000, 190_000)
    acting = Acting(settings=OFF)
    while acting.counts().total < 190_000:
        assert acting.compact(early) is None
        shell(acting, 5_000)
    made = acting.compact(early)
    assert made
    assert made.before < 200_000
    assert made.gain >= early.gain == 67_857


def test_a_summary_that_saves_one_in_a_hundred_is_not_kept():
    acting = Acting(settings=OFF)
    while acting.counts().total < SMALL.compact_at:
        shell(acting, 400)
    before = acting.counts().total
    made = acting.compact(SMALL, text="word " * int(0.9 * before))
    assert made
    assert before - acting.counts().total >= SMALL.gain
    assert not any("word word" in str(one.body) for one in acting.items)
