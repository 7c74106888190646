"""The log in stretches: in order, filtered, searched, resumed at any point."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents import events
from observability import queries
from observability.models import Record
from tests.observability.conftest import a_round, tell


def shown(window) -> list[int]:
    return [line.seq for line in window.lines]


@pytest.fixture
def long_run(run):
    """Ten rounds of six events each."""
    for number in range(1, 11):
        a_round(run, number, ok=number % 5 != 0)
    return run


def test_a_run_opens_at_its_end_and_pages_backwards_without_gap(long_run):
    window = queries.window(long_run, limit=25)
    assert shown(window) == list(range(36, 61))
    assert (window.cursor, window.more_before, window.more_after) == (60, True, False)
    earlier = queries.window(long_run, before=window.first, limit=25)
    assert shown(earlier) == list(range(11, 36))
    first = queries.window(long_run, before=earlier.first, limit=25)
    assert shown(first) == list(range(1, 11))
    assert not first.more_before


def test_a_link_to_an_event_shows_what_is_around_it(long_run):
    window = queries.window(long_run, around=30, limit=10)
    assert shown(window) == list(range(25, 35))
    assert window.more_before
    assert window.more_after


def test_a_filter_keeps_its_kinds_and_errors_are_whatever_failed(long_run):
    tools = queries.window(long_run, group="tools")
    assert {line.kind for line in tools.lines} == {"tool.called", "tool.finished"}
    assert len(tools.lines) == 20
    errors = queries.window(long_run, group="errors")
    assert [line.round for line in errors.lines] == [5, 10]
    counts = queries.count_kinds(long_run.pk)
    assert counts == {
        "all": 60,
        "loads": 0,
        "tools": 20,
        "model": 20,
        "loops": 0,
        "cache": 0,
        "waits": 0,
        "errors": 2,
    }


def test_a_search_finds_words_in_the_line_and_in_the_data(run):
    a_round(run, 1)
    tell(run, (events.RunFailed, {"message": '모델이 "거절"했습니다'}))
    assert shown(queries.window(run, words="README.MD")) == [4]
    assert shown(queries.window(run, words='"거절"했')) == [7]
    assert shown(queries.window(run, words="100%_")) == []
    assert shown(queries.window(run, words="[tool] read_file ok")) == [5]


def test_a_filtered_log_resumes_behind_what_the_filter_left_out(long_run):
    window = queries.window(long_run, group="errors", after=10)
    assert window.cursor == 60
    assert shown(queries.window(long_run, group="errors", after=window.cursor)) == []


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 7), st.booleans()), max_size=12
    ),
    group=st.sampled_from(["all", "tools", "errors"]),
)
def test_a_reader_who_is_cut_off_anywhere_gets_every_event_once(make_run, steps, group):
    """Each step: some rounds happen, the reader asks for a portion, or loses it."""
    run = make_run()
    seen: list[int] = []
    cursor = 0
    for rounds, limit, lost in steps:
        for _ in range(rounds):
            a_round(run, len(seen) + 1, ok=False)
        window = queries.window(run, group=group, after=cursor, limit=limit)
        if not lost:
            seen += shown(window)
            cursor = window.cursor
    while (window := queries.window(run, group=group, after=cursor, limit=5)).lines:
        seen += shown(window)
        cursor = window.cursor
    wanted = queries.filtered(run.pk, group=group).order_by("seq")
    assert seen == list(wanted.values_list("seq", flat=True))


def test_a_run_of_50_000_events_is_read_within_its_budget(run):
    Record.objects.bulk_create(
        (
            Record(
                run=run,
                conversation=run.conversation,
                seq=seq,
                round=seq // 6,
                kind="tool.finished" if seq % 3 else "model.called",
                failed=seq % 9973 == 0,
                text=f"[tool] read_file ok: {seq} characters, 3 ms",
                data={"tool": "read_file", "call_id": f"call-{seq}", "n": "x" * 120},
            )
            for seq in range(1, 50_001)
        ),
        batch_size=2000,
    )
    asked = (
        {},
        {"before": 25_000},
        {"around": 30_000},
        {"group": "errors"},
        {"group": "waits"},
        {"words": "call-31337"},
        {"words": "nothing of the kind"},
    )
    spent = {}
    for question in asked:
        started = time.perf_counter()
        queries.window(run, **question)
        queries.count_kinds(run.pk)
        spent[str(question)] = time.perf_counter() - started
    # The budget is 300 ms; the rest is for a machine that does other work meanwhile.
    assert max(spent.values()) < 0.9, spent
    assert sorted(spent.values())[2] < 0.3, spent
