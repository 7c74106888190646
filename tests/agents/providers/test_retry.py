"""Another try, and when there is none."""

import pytest

from agents.errors import (
    ProviderAuthFailed,
    ProviderRejected,
    ProviderUnavailable,
    RunStoppedByUser,
)
from agents.interrupts import Interrupt
from agents.providers.base import Completion, Delta
from agents.providers.retry import MAX_TRIES, Restarted, stream_with_retries
from agents.providers.scripted import ScriptedProvider, calls, raises, says
from tests.agents.providers.conftest import prompt, user


class QuickInterrupt(Interrupt):
    """Sleeps in no time, and remembers for how long it would have."""

    def __init__(self):
        super().__init__()
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.check()


BUSY = ProviderUnavailable("Testing is busy.")


def play(*steps, interrupt=None, on_retry=lambda retry: None, **fields):
    provider = ScriptedProvider(*steps)
    request = provider.encode(prompt(user("hi")))
    stream = stream_with_retries(
        provider, request, interrupt or QuickInterrupt(), on_retry, **fields
    )
    return provider, stream


def test_a_cut_stream_begins_anew_and_says_so():
    retries = []
    provider, stream = play(
        raises(BUSY, after="Half an"), says("Whole."), on_retry=retries.append
    )
    items = list(stream)
    assert items[:3] == [Delta("text", "Half"), Delta("text", " an"), Restarted(1)]
    assert isinstance(items[-1], Completion)
    assert items[-1].text == "Whole."
    assert [(retry.tries, retry.error) for retry in retries] == [(1, BUSY)]
    assert len(provider.requests) == 2


def test_nothing_is_superseded_when_nothing_was_said():
    _, stream = play(raises(BUSY), says("Hi"))
    assert Restarted(1) not in list(stream)


def test_pauses_grow_and_tries_end():
    interrupt = QuickInterrupt()
    provider, stream = play(*[raises(BUSY)] * MAX_TRIES, interrupt=interrupt)
    with pytest.raises(ProviderUnavailable):
        list(stream)
    pauses = [pause for pause in interrupt.slept if pause > 0]
    assert len(provider.requests) == MAX_TRIES
    assert len(pauses) == MAX_TRIES - 1
    assert pauses[-1] > pauses[0]
    assert sum(pauses) < 60


def test_the_services_own_pause_is_honoured():
    interrupt = QuickInterrupt()
    asked = ProviderUnavailable("Testing is busy.", retry_after=7)
    _, stream = play(raises(asked), says("Hi"), interrupt=interrupt)
    list(stream)
    assert 7 <= max(interrupt.slept) < 8


def test_a_pause_longer_than_the_budget_goes_to_the_caller():
    asked = ProviderUnavailable("Testing is busy.", retry_after=600)
    provider, stream = play(raises(asked), says("Hi"))
    with pytest.raises(ProviderUnavailable) as caught:
        list(stream)
    assert caught.value.retry_after == 600
    assert len(provider.requests) == 1


def test_the_budget_counts_from_the_first_failure():
    ticks = iter([1000.0, 1000.0, 1130.0])
    provider, stream = play(*[raises(BUSY)] * 3, clock=lambda: next(ticks))
    with pytest.raises(ProviderUnavailable):
        list(stream)
    assert len(provider.requests) == 2


@pytest.mark.parametrize("kind", [ProviderAuthFailed, ProviderRejected])
def test_faults_that_stay_are_not_tried_again(kind):
    provider, stream = play(raises(kind("No.")), says("Hi"))
    with pytest.raises(kind):
        list(stream)
    assert len(provider.requests) == 1


def test_a_stop_ends_the_waiting():
    interrupt = QuickInterrupt()
    _, stream = play(
        raises(BUSY),
        says("Hi"),
        interrupt=interrupt,
        on_retry=lambda retry: interrupt.stop(RunStoppedByUser()),
    )
    with pytest.raises(RunStoppedByUser):
        list(stream)


def test_the_scripted_provider_remembers_and_joins():
    provider = ScriptedProvider(
        calls("a", x=1) + calls("b"), lambda prompt: says(prompt.messages[0].text)
    )
    asked = prompt(user("echo"))
    request = provider.encode(asked)
    first, second = (list(provider.stream(request, Interrupt()))[-1] for _ in range(2))
    assert [call.name for call in first.tool_calls] == ["a", "b"]
    assert len({call.call_id for call in first.tool_calls}) == 2
    assert second.text == "echo"
    assert provider.requests[0].prompt == asked
    digests = {recorded.declared_tools_digest for recorded in provider.requests}
    assert len(digests) == 1
    with pytest.raises(AssertionError, match="2 steps"):
        next(provider.stream(request, Interrupt()))
