"""Sums by hour: complete, made once, and the same as the calls themselves."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.utils import timezone

from agents.models import ModelCall
from observability import rollups
from observability.figures import Figures, percentile, total
from observability.models import (
    ConversationSums,
    HourSums,
    IdleCost,
    Record,
    ToolSums,
    Watermark,
)
from observability.periods import Period
from observability.selection import Selection, measure, measure_tools
from tests.observability.calls import a_call, a_record
from workspace.models import Workspace

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SEOUL = ZoneInfo("Asia/Seoul")


def chosen(place, start=NOON - 24 * HOUR, end=NOON + 24 * HOUR, **facets):
    facets = {name: (value,) for name, value in facets.items()}
    return Selection(place, Period(start, end, SEOUL), facets)


def scatter(make_run, seed: int, count: int = 60) -> list[ModelCall]:
    """Calls of all kinds over a day and a half: failed, unreported, unpriced, in flight."""
    dice = random.Random(seed)
    runs = [make_run(trigger=kind) for kind in ("message", "delegation", "retry")]
    states = [ModelCall.State.COMPLETED] * 6 + [
        ModelCall.State.FAILED,
        ModelCall.State.SENT,
        ModelCall.State.STOPPED,
    ]
    calls = []
    for _ in range(count):
        fields = {
            "state": dice.choice(states),
            "round": dice.randrange(0, 4),
            "model_name": dice.choice(["sim-1", "sim-2"]),
            "mode": dice.choice(["chat", "plan"]),
            "input": dice.choice([None, 0, dice.randrange(9000)]),
            "cache_read": dice.randrange(9000),
            "first_token_ms": dice.choice([None, dice.randrange(40_000)]),
            "duration_ms": dice.randrange(60_000),
        }
        if dice.random() < 0.3:
            fields["cost"] = None
        at = NOON - timedelta(minutes=dice.randrange(36 * 60))
        calls.append(a_call(dice.choice(runs), at, **fields))
    return calls


@pytest.mark.parametrize("seed", range(3))
def test_what_is_rolled_up_reads_exactly_as_the_calls_themselves(place, make_run, seed):
    scatter(make_run, seed)
    wide = chosen(place, NOON - 40 * HOUR, NOON + HOUR)

    def read():
        return [
            measure(wide, *by) for by in ((), ("hour",), ("agent", "role"), ("user",))
        ]

    before = read()
    rollups.roll_up(NOON - 15 * HOUR)  # half of it
    assert read() == before
    rollups.roll_up(NOON + HOUR)
    assert read() == before
    stored = sum(HourSums.objects.values_list("calls", flat=True))
    assert total(before[0].values()).calls == stored


def test_two_rollups_and_a_rebuild_change_nothing(place, make_run):
    scatter(make_run, 7)
    rollups.roll_up(NOON + HOUR)
    first = list(HourSums.objects.order_by("hour", "pk").values_list("hour", "calls"))
    rollups.roll_up(NOON + HOUR)
    again = list(HourSums.objects.order_by("hour", "pk").values_list("hour", "calls"))
    assert sorted(again) == sorted(first)
    rollups.rebuild()
    anew = list(HourSums.objects.values_list("hour", "calls"))
    assert sorted(anew) == sorted(first)


def test_an_answer_that_settles_late_is_still_counted(place, run):
    call = a_call(run, NOON - HOUR, state=ModelCall.State.SENT, input=None, cost=None)
    rollups.roll_up(NOON)
    assert not HourSums.objects.exists()
    ModelCall.objects.filter(pk=call.pk).update(state="completed", input=500)
    rollups.roll_up(NOON + HOUR)
    assert HourSums.objects.get().input == 500


def test_the_open_hour_is_read_from_the_calls(place, run):
    a_call(run, NOON - HOUR)
    a_call(run, NOON + timedelta(minutes=5))
    rollups.roll_up(NOON + timedelta(minutes=10))
    assert HourSums.objects.get().calls == 1
    assert measure(chosen(place))[()].calls == 2


def test_facets_join_across_and_choose_within(place, make_run):
    one, two = make_run(), make_run(author="ola")
    a_call(one, NOON, mode="chat")
    a_call(one, NOON, mode="plan")
    a_call(two, NOON, mode="plan")
    rollups.roll_up(NOON + 2 * HOUR)
    mina, ola = one.started_by_id, two.started_by_id
    assert measure(chosen(place, mode="plan"))[()].calls == 2
    assert measure(chosen(place, mode="plan", user=ola))[()].calls == 1
    both = Selection(place, chosen(place).period, {"user": (mina, ola)})
    assert measure(both)[()].calls == 3
    assert measure(chosen(place, conversation=one.conversation_id))[()].calls == 2


def test_another_workspace_adds_nothing(place, run):
    elsewhere = Workspace.objects.create(name="Elsewhere", slug="elsewhere")
    a_call(run, NOON)
    a_record(run, "tool.finished", NOON, tool="shell", ok=True, duration_ms=300)
    for until in (NOON, NOON + HOUR):  # from the calls, then from the sums
        rollups.roll_up(until)
        assert measure(chosen(elsewhere))[()] == Figures()
        assert measure_tools(chosen(elsewhere)) == {}


def test_rates_weigh_tokens_and_not_calls(place, run):
    a_call(run, NOON, input=100, cache_read=0)
    a_call(run, NOON, input=0, cache_read=900)
    found = measure(chosen(place))[()]
    assert found.cache_rate == 0.9
    assert found.total_input == 1000


def test_nothing_has_a_rate_when_nothing_was_reported(place, run):
    a_call(run, NOON, state="failed", input=None, cache_read=None, cost=None)
    found = measure(chosen(place))[()]
    assert (found.cache_rate, found.error_rate, found.failed) == (None, 1.0, 1)
    assert Figures().error_rate is None
    assert Figures().speed is None


def test_a_cost_is_unknown_rather_than_nothing_when_no_model_has_a_price(place, run):
    a_call(run, NOON, cost=None)
    assert measure(chosen(place))[()].known_cost is None
    a_call(run, NOON, cost=Decimal("0.5"))
    assert measure(chosen(place))[()].known_cost == Decimal("0.5")


def test_a_percentile_lies_within_its_class_and_grows_with_the_share():
    counts = (0, 0, 5, 0, 5, 0, 0, 0, 0, 0)
    half, most = percentile(counts, 0.5), percentile(counts, 0.95)
    assert half == 0.5
    assert 0.9 < most <= 1.5
    assert percentile((0,) * 10, 0.5) is None


def test_tools_are_summed_from_records_whatever_these_hold(place, run):
    a_record(run, "tool.finished", NOON, tool="shell", ok=True, duration_ms=300)
    a_record(run, "tool.finished", NOON, tool="shell", ok=False, duration_ms="x")
    a_record(run, "tool.loaded", NOON, names=["git_log"], cause="search")
    a_record(run, "tool.loaded", NOON, names="cut")
    a_record(run, "tool.finished", NOON)  # erased
    live = measure_tools(chosen(place))
    a_call(run, NOON)
    rollups.roll_up(NOON + 2 * HOUR)
    assert measure_tools(chosen(place)) == live
    shell, log = live["shell"], live["git_log"]
    assert (shell.calls, shell.errors, shell.milliseconds) == (2, 1, 300)
    assert (log.loads, log.searched) == (1, 1)
    assert set(live) == {"shell", "git_log"}


def test_old_records_are_deleted_and_their_sums_stay(place, run, settings):
    settings.RECORD_DAYS = 30
    old = timezone.now() - timedelta(days=31)
    a_record(run, "tool.finished", old, tool="shell", ok=True, duration_ms=1)
    a_record(run, "run.finished", timezone.now())
    a_call(run, old)
    rollups.roll_up()
    assert rollups.forget_old_records() == 1
    assert Record.objects.get().kind == "run.finished"
    rollups.rebuild()
    assert ToolSums.objects.get().calls == 1
    settings.RECORD_DAYS = 0
    assert rollups.forget_old_records() == 0


def test_the_command_sums_and_says_how_far(place, run, capsys):
    a_call(run, timezone.now() - 3 * HOUR)
    call_command("rollups")
    assert "hours summed, until" in capsys.readouterr().out
    call_command("rollups", rebuild=True)
    assert ConversationSums.objects.count() == 1
    assert Watermark.objects.get().until == rollups.hour_of(timezone.now())


SEGMENTS = [
    ["envelope", "envelope", "e1", 10],
    ["tools", "tool:shell", "t1", 300],
    ["system", "base", "s1", 200],
    ["startup", "environment", "v1", 20],
    ["startup", "rules:AGENTS.md", "r1", 90],
    ["message", "entry:3", "m1", 15],
]


def changed(place_in_list: int, digest: str, tokens: int) -> list:
    rows = [list(row) for row in SEGMENTS]
    rows[place_in_list][2:] = [digest, tokens]
    return rows


def test_each_new_conversation_leaves_its_idle_cost_once(place, make_run):
    now = timezone.now()
    first, second, third = (make_run() for _ in range(3))
    a_call(first, now - 3 * HOUR, segments=SEGMENTS)
    a_call(first, now - 2 * HOUR, segments=SEGMENTS, round=2)
    a_call(second, now - 2 * HOUR, segments=changed(3, "v2", 20))
    a_call(third, now - HOUR, segments=changed(1, "t2", 450))
    rollups.keep()
    rollups.keep()
    rows = list(IdleCost.objects.order_by("at"))
    assert [row.tokens for row in rows] == [620, 620, 770]
    assert rows[0].configuration == rows[1].configuration  # only the date differs
    assert rows[1].configuration != rows[2].configuration
    assert rows[0].parts == {
        "systemPrompt": 210,
        "builtinTools": 300,
        "rules": 90,
        "startupContext": 20,
    }


def test_an_old_conversation_is_not_taken_for_a_new_one(place, run):
    a_call(run, timezone.now() - 50 * HOUR, segments=SEGMENTS)
    a_call(run, timezone.now(), segments=SEGMENTS)
    rollups.keep()
    assert not IdleCost.objects.exists()
    rollups.rebuild()
    assert IdleCost.objects.count() == 1


def test_1000_fresh_8000_read_and_1000_written_tokens_are_80_percent(place, run):
    a_call(run, NOON, input=1_000, cache_read=8_000, cache_write=1_000)
    assert measure(chosen(place))[()].cache_rate == 0.8
    for facet in ("agent", "model", "conversation"):
        [found] = measure(chosen(place), facet).values()
        assert found.cache_rate == 0.8
