"""The Insights page: who sees what, what the figures say, what nonsense does."""

from __future__ import annotations

import json
import random
import re
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.models import Agent, Endpoint, LanguageModel
from observability import charts, insights, rollups
from observability.figures import Figures
from observability.models import HourSums
from observability.periods import HOUR, Period, parse_days, period_of, zone_of
from observability.selection import Selection, broken
from tests.observability.calls import a_call, a_record
from workspace.models import User

SEOUL = ZoneInfo("Asia/Seoul")
NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)


def address(**query) -> str:
    return reverse("observability:insights", args=["harbour"], query=query)


def shown(client, **query) -> str:
    answer = client.get(address(**query))
    assert answer.status_code == 200
    return answer.content.decode()


def lately(place, hours=24) -> Selection:
    end = rollups.hour_of(timezone.now()) + HOUR
    return Selection(place, Period(end - hours * HOUR, end, SEOUL))


@pytest.mark.parametrize("name", ["ola", "mina", "vera"])
def test_every_member_reads_insights(as_person, run, name):
    a_call(run)
    assert "80 %" in shown(as_person(name))


def test_an_outsider_learns_nothing_and_a_stranger_signs_in(as_person, run, client):
    a_call(run)
    assert client.get(address()).status_code == 302
    assert as_person("otto").get(address()).status_code == 404
    assert as_person("ola").post(address()).status_code == 405


def test_an_empty_workspace_is_told_what_to_do(as_person, place):
    page = shown(as_person("mina"))
    assert "No model calls yet" in page
    assert "read README.md" in page


def test_private_conversations_of_others_are_summed_and_never_named(
    as_person, make_run
):
    open_one, hidden = make_run(), make_run(author="ola", private=True)
    hidden.conversation.title = "Salaries"
    hidden.conversation.save()
    a_call(open_one)
    a_call(hidden, cache_break={"segment": "s", "cause": "mode", "lost_tokens": 900})
    mina = shown(as_person("mina"))
    assert "Salaries" not in mina
    assert str(hidden.conversation_id) not in mina
    assert str(hidden.pk) not in mina
    assert "Others, and private ones of other people" in mina
    assert "Private conversation" in mina
    assert "Salaries" in shown(as_person("ola"))


def test_the_id_of_a_hidden_conversation_chooses_nothing(as_person, make_run):
    hidden = make_run(author="ola", private=True)
    a_call(hidden, input=7_000)
    page = shown(as_person("mina"), conversation=str(hidden.conversation_id))
    assert "No model call fits" in page


NONSENSE = ["'; drop table", "\0", "9" * 400, "💥", "-1", "2026-13-99", ""]


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_in_the_address_is_left_out_or_fits_nothing(as_person, run, text):
    a_call(run)
    client = as_person("mina")
    for facet in ("agent", "model", "mode", "role", "conversation", "user"):
        shown(client, **{facet: text})
    shown(client, range=text)
    shown(client, range="custom", **{"from": text, "to": text})


def test_hostile_names_stay_text(as_person, make_run):
    run = make_run()
    evil = "<script>alert(1)</script>\u202e"
    run.conversation.title = evil
    run.conversation.save()
    a_call(run, model_name="</script><b>x")
    a_record(run, "tool.finished", timezone.now(), tool=evil, ok=True, duration_ms=1)
    page = shown(as_person("mina"))
    assert "<script>alert" not in page
    assert "</script><b>x" not in page
    assert "\u202e" not in page
    assert "style=" not in page  # the content policy refuses it


def test_a_facet_narrows_the_page_and_its_chip_takes_it_back(as_person, run):
    a_call(run, mode="chat")
    a_call(run, mode="plan")
    client = as_person("mina")
    page = shown(client, mode="plan")
    assert re.search(r"1 model calls", page)
    assert 'href="?range=7d"' in page


def test_a_page_takes_the_same_queries_however_many_conversations(as_person, make_run):
    client = as_person("mina")
    shown(client)  # what only the first page asks for

    def count() -> int:
        with CaptureQueriesContext(connection) as asked:
            shown(client)
        return len(asked)

    broke = {"segment": "s", "cause": "evicted", "lost_tokens": 5_000}
    a_call(make_run(), cache_break=broke)
    few = count()
    for _ in range(12):
        a_call(make_run(), cache_break=broke)
    assert count() == few


def test_a_break_is_named_with_its_price(place, run):
    endpoint = Endpoint.objects.create(name="Sim", kind=Endpoint.Kind.ANTHROPIC)
    LanguageModel.objects.create(
        endpoint=endpoint, name="sim-1", price_input=3, price_cache_read=Decimal("0.3")
    )
    verdict = {
        "segment": "tool:shell",
        "cause": "nondeterminism",
        "lost_tokens": 10_000,
        "at_byte": 77,
    }
    a_call(run, timezone.now() - 2 * HOUR, cache_break=verdict)
    a_call(run, timezone.now(), cache_break={"segment": "x", "cause": "expired"})
    live = broken(lately(place))
    rollups.roll_up()
    [row] = broken(lately(place))
    assert [one.call for one in live] == [row.call]
    assert (row.cause, row.lost_tokens, row.at_byte) == ("nondeterminism", 10_000, 77)
    assert row.cost == Decimal("0.027")
    [cause] = insights.causes([row])
    assert (cause.lost, cause.share, cause.is_fault) == (10_000, 1.0, True)


def test_a_break_of_a_model_without_prices_has_no_cost(place, run):
    verdict = {"segment": "x", "cause": "expired", "lost_tokens": 4_000}
    a_call(run, cache_break=verdict)
    assert broken(lately(place))[0].cost is None


def test_a_period_is_compared_with_the_equally_long_one_before(place, run):
    a_call(run, timezone.now() - 30 * HOUR, input=1000, cache_read=0)
    a_call(run, timezone.now(), input=0, cache_read=1000)
    found = insights.overview(lately(place), User.objects.get(username="mina"))
    assert found.now.cache_rate == 1.0
    assert found.before.cache_rate == 0.0


def test_days_are_those_of_the_workspace(place):
    period = period_of("7d", SEOUL, NOW)
    assert period.start == datetime(2026, 11, 13, 15, tzinfo=UTC)  # 14th, 00:00 KST
    assert [at.day for at in period.buckets()] == [14, 15, 16, 17, 18, 19, 20]
    day = period_of("24h", SEOUL, NOW)
    assert len(day.buckets()) == 24
    assert day.end == datetime(2026, 11, 20, 13, tzinfo=UTC)


def test_a_day_with_a_change_of_the_clock_is_one_point():
    berlin = ZoneInfo("Europe/Berlin")
    days = (date(2026, 10, 24), date(2026, 10, 26))
    period = period_of("custom", berlin, NOW, days=days)
    assert period.end - period.start == 73 * HOUR
    assert len(period.buckets()) == 3


def test_days_in_the_wrong_order_are_put_right_and_nonsense_is_none():
    today = date(2026, 11, 20)
    assert parse_days("2026-11-09", "2026-11-02", today) == (
        date(2026, 11, 2),
        date(2026, 11, 9),
    )
    assert parse_days("soon", "2026-11-02", today) is None
    assert parse_days("1900-01-01", "1900-02-02", today) is None
    assert zone_of("Nowhere/Land").key == "UTC"


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.none() | st.floats(0, 1e9), max_size=40))
def test_a_line_stays_within_its_drawing_and_shows_every_value(values):
    drawing = charts.line(values)
    drawn = sum(path.count("L") + 1 for path in drawing.paths)
    alone = sum(
        value is not None
        and (place == 0 or values[place - 1] is None)
        and (place + 1 == len(values) or values[place + 1] is None)
        for place, value in enumerate(values)
    )
    assert drawn + alone == sum(value is not None for value in values)
    for dot in drawing.dots:
        assert 0 <= dot.x <= charts.WIDTH
        assert 0 <= dot.y <= charts.HEIGHT


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.lists(st.floats(0, 1e9), min_size=3, max_size=3), max_size=30))
def test_bars_stand_on_each_other_and_none_leaves_the_drawing(columns):
    drawing = charts.stacked(columns)
    for bar in drawing.bars:
        assert bar.y >= -0.01
        assert bar.y + bar.height <= charts.HEIGHT + 0.05
    assert drawing.top >= max((sum(column) for column in columns), default=0) * 0.99999


def test_health_needs_ten_calls_and_names_the_worst_cause(as_person, run):
    broke = {"segment": "tool:x", "cause": "policy change", "lost_tokens": 9_000}
    for _ in range(9):
        a_call(run, input=900, cache_read=100, cache_break=broke)
    client = as_person("mina")
    assert "Too few calls to judge" in shown(client)
    a_call(run, input=900, cache_read=100)
    page = shown(client)
    assert "Caching hardly works" in page
    assert "Most was lost here: The tool policy was changed" in page


def test_what_a_pointer_reads_is_valid_json_and_equals_the_table(as_person, run):
    a_call(run)
    page = shown(as_person("mina"), range="24h")
    found = re.search(r'<script id="tokens"[^>]*>(.*?)</script>', page, re.S)
    tips = json.loads(found.group(1))
    assert len(tips) == 24
    assert "Cached 800" in tips[-1]


def test_a_million_calls_are_read_from_the_sums_in_time(place):
    """1,000,000 calls of 90 days: 3 agents, 3 models, 2 modes, 2 roles an hour."""
    agents = [Agent.objects.get(workspace=place)] + [
        Agent.objects.create(workspace=place, name=f"a{n}", title=f"A{n}")
        for n in range(2)
    ]
    end = rollups.hour_of(timezone.now())
    dice = random.Random(1)
    kinds = [
        (agent, model, mode, role)
        for agent in agents
        for model in ("m1", "m2", "m3")
        for mode in ("chat", "plan")
        for role in ("main", "child")
    ]
    rows = [
        HourSums(
            hour=end - n * HOUR,
            workspace=place,
            agent=agent,
            model_name=model,
            mode=mode,
            role=role,
            calls=39,
            turns=9,
            input=dice.randrange(90_000),
            cache_read=400_000,
            output=20_000,
            first_2=30,
            first_3=9,
        )
        for n in range(1, 30 * 24)
        for agent, model, mode, role in kinds
    ]
    HourSums.objects.bulk_create(rows, batch_size=2000)
    rollups.roll_up()
    with rollups.transaction.atomic():
        rollups._advance(end)
    assert sum(row.calls for row in rows) >= 1_000_000
    viewer = User.objects.get(username="mina")
    month = Selection(place, period_of("30d", SEOUL, timezone.now()))
    began = time.process_time()
    found = insights.overview(month, viewer)
    took = time.process_time() - began
    print(f"\ninsights over {found.now.calls} calls: {took * 1000:.0f} ms of CPU")  # noqa: T201
    assert found.now.calls > 900_000
    assert len(found.tables["model"]) == 3
    assert found.now != Figures()
