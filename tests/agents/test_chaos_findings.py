"""Faults that `make chaos` found, each as the smallest test that shows it."""

from __future__ import annotations

import pytest

from agents import sweeper
from agents.errors import ProviderUnavailable
from agents.loop import MAX_RESTS
from agents.models import Run, Wait
from agents.providers.retry import MAX_TRIES
from agents.providers.scripted import raises, says

pytestmark = pytest.mark.django_db


def test_a_service_that_asks_for_short_pauses_for_ever_is_asked_five_times(
    script, start_turn, stage
):
    busy = [
        raises(ProviderUnavailable("Testing is busy.", retry_after=0.01))
        for _ in range(MAX_TRIES)
    ]
    provider = script(*busy, says("Too late."))
    assert start_turn("Hi").state == Run.State.FAILED
    assert stage.turn().message == "Testing is busy."
    assert len(provider.requests) == MAX_TRIES


def test_a_service_that_puts_off_for_ever_fails_the_run_in_the_end(script, stage):
    away = [
        raises(ProviderUnavailable("Testing is away.", retry_after=900))
        for _ in range(MAX_RESTS + 1)
    ]
    provider = script(*away, says("Too late."))
    stage.post("Hi")
    for _ in range(MAX_RESTS):
        assert stage.play().state == Run.State.WAITING
        Wait.objects.update(deadline="2020-01-01T00:00:00Z")
        sweeper.sweep()
    assert stage.play().state == Run.State.FAILED
    assert len(provider.requests) == MAX_RESTS + 1
