"""Stored sentences: ours are said in the reader's language, others stand as they are."""

from __future__ import annotations

import pytest
from django.utils.translation import override

from agents.results import NOT_RUN
from agents.sweeper import WORKER_LOST
from agents.tasks import BROKEN
from workspace import sentences
from workspace.models import Turn
from workspace.templatetags.chat import ending, reason


def test_a_sentence_of_ours_is_said_in_korean_with_what_stood_in_it():
    with override("ko"):
        assert (
            sentences.in_ones_language("Stopped by Ann Miller.")
            == "Ann Miller 님이 중지했습니다."
        )
        assert (
            sentences.in_ones_language("Stopped by the system.")
            == "시스템이 중지했습니다."
        )


def test_a_sentence_of_anybody_else_stands_as_it_is():
    with override("ko"):
        for said in ("", "The tool says 100 %(x)s.", "Stopped by Ann. And more"):
            assert sentences.in_ones_language(said) == said


@pytest.mark.parametrize(
    "stored", [WORKER_LOST, BROKEN.format("7f3"), NOT_RUN.partition(": ")[2]]
)
def test_what_the_worker_stores_is_recognised(stored):
    with override("ko"):
        assert sentences.in_ones_language(stored) != stored
    with override("en"):
        assert sentences.in_ones_language(stored) == stored


def test_a_turn_that_was_stopped_says_so_once():
    turn = Turn(state=Turn.State.STOPPED, message="Stopped by Ann Miller.")
    assert (ending(turn), reason(turn)) == ("Stopped by Ann Miller.", "")


def test_a_turn_that_failed_says_why():
    turn = Turn(state=Turn.State.FAILED, message="The service is away.")
    assert ending(turn) == "This did not succeed."
    assert reason(turn) == "The service is away."
