"""A model's calibration: learned from usage, bounded, and never put over what was reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.actions import agent_of
from agents.calibration import LEAST, MOST, calibrate, factor_of
from agents.context.preview import preview
from agents.context.report import Counted, make_report
from agents.models import LanguageModel, ModelCall
from agents.providers.base import Usage
from agents.providers.scripted import says
from agents.seeding import seed_simulator


@pytest.mark.parametrize(
    ("pairs", "factor"),
    [
        ([], 1.0),
        ([(1_100, 1_000)], 1.1),
        ([(1_100, 1_000), (1_200, 1_000), (9_000, 1_000)], 1.2),
        ([(9_000, 1_000)], MOST),
        ([(10, 1_000)], LEAST),
        ([(500, 0)], 1.0),
    ],
)
def test_the_factor_is_the_median_within_its_bounds(pairs, factor):
    assert factor_of(pairs) == factor


@given(
    st.lists(st.integers(0, 5_000), max_size=6),
    st.floats(LEAST, MOST),
    st.none() | st.integers(-5, 40_000),
)
def test_rows_sum_to_the_total_whatever_the_factor(sizes, factor, reported):
    parts = [Counted("message", f"entry:{n}", "", size) for n, size in enumerate(sizes)]
    report = make_report(
        parts, cap=100_000, reserved=1_000, reported=reported, factor=factor
    )
    assert sum(row.tokens for row in report.rows) == report.total
    if reported is None or reported < 0:
        assert report.total == round(sum(sizes) * factor)
    else:
        assert report.total == reported


def shown(stage):
    return preview(stage.conversation, agent_of(stage.conversation))


def test_estimates_follow_what_the_service_reports(script, stage):
    seed_simulator()
    usage = Usage(input=1_000, cache_read=1_000, output=5, reported=True)
    script(says("One.", usage=usage), says("Two.", usage=Usage()))
    stage.post("Hello")
    stage.play()
    before = shown(stage).next.total
    model = seed_simulator()
    ModelCall.objects.update(endpoint_name=model.endpoint.name, estimated_tokens=1_600)
    assert calibrate() == 1
    assert calibrate() == 0
    model.refresh_from_db()
    assert (model.calibration, model.calibrated_calls) == (1.25, 1)
    after = shown(stage).next
    assert abs(after.total - before * 1.25) <= 1
    assert after.factor == 1.25


def test_small_unreported_and_foreign_calls_teach_nothing(script, stage):
    model = seed_simulator()
    script(says("One.", usage=Usage()), says("Two.", usage=Usage(9, reported=True)))
    for _ in range(2):
        stage.post("Hello")
        stage.play()
    ModelCall.objects.update(model_name="another")
    assert calibrate() == 0
    assert LanguageModel.objects.get(pk=model.pk).calibration == 1.0
