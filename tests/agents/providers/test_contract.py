"""What every adapter promises, tried on the simulator's faults over real HTTP."""

import threading
import time

import pytest

from agents.errors import (
    ContextOverflow,
    ProviderAuthFailed,
    ProviderRejected,
    ProviderUnavailable,
    RunStoppedByUser,
)
from agents.interrupts import Interrupt
from agents.providers.base import Completion, Delta
from agents.providers.registry import make_provider
from tests.agents.providers.conftest import KEY, answered, config, prompt, result, user


def ask(provider, *messages, interrupt=None, **fields):
    request = provider.encode(prompt(*messages, **fields))
    return list(provider.stream(request, interrupt or Interrupt()))


def test_deltas_add_up_to_the_completion_which_comes_last(provider):
    *deltas, answer = ask(provider, user("hello"))
    assert isinstance(answer, Completion)
    assert "".join(d.text for d in deltas if d.kind == "text") == answer.text
    assert (answer.stop_reason, answer.tool_calls) == ("end", ())
    assert answer.usage.reported
    assert answer.usage.total_input > 20
    assert answer.usage.output > 5


def test_reasoning_streams_apart_from_text(provider):
    *deltas, answer = ask(
        provider, user('[[script: [{"reasoning": "Think twice.", "text": "Yes."}]]]')
    )
    assert (answer.reasoning, answer.text) == ("Think twice.", "Yes.")
    thought = "".join(d.text for d in deltas if d.kind == "reasoning")
    assert thought == "Think twice."


def test_a_turn_with_two_tool_rounds_ends_in_an_answer_that_quotes_them(provider):
    messages = [
        user("read README.md and tell me what is in it, then list the files"),
    ]
    contents = {"read_file": "# Quiet harbour\n\nBoats sleep.", "shell": "a.py\nb/"}
    tools = []
    while (answer := ask(provider, *messages)[-1]).tool_calls:
        messages.append(answered(answer))
        for call in answer.tool_calls:
            tools.append(call.name)
            messages.append(result(call.call_id, contents[call.name]))
    assert tools == ["read_file", "shell"]
    assert "Quiet harbour" in answer.text
    assert "1 file and 1 folder" in answer.text


def test_parallel_calls_arrive_whole_and_in_order(provider):
    answer = ask(provider, user("[[fault:many_calls]]"))[-1]
    assert answer.stop_reason == "tool_calls"
    paths = [call.arguments for call in answer.tool_calls]
    assert paths == [f'{{"path":"file-{number}.txt"}}' for number in range(1, 41)]
    assert len({call.call_id for call in answer.tool_calls}) == 40


def test_call_ids_that_the_service_used_twice_become_unique(provider):
    calls = ask(provider, user("[[fault:duplicate_ids]]"))[-1].tool_calls
    assert len(calls) == 2
    assert calls[0].call_id != calls[1].call_id


def test_arguments_that_are_not_json_reach_the_caller_as_they_came(provider):
    calls = ask(provider, user("[[fault:bad_arguments]]"))[-1].tool_calls
    assert [call.arguments for call in calls] == ['{"path": "READ']


def test_such_a_call_and_its_error_can_be_sent_back(provider):
    question = user("[[fault:bad_arguments]]")
    answer = ask(provider, question)[-1]
    refused = result(answer.tool_calls[0].call_id, "That is not JSON.", ok=False)
    assert ask(provider, question, answered(answer), refused)[-1].text


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("rate_limit", ProviderUnavailable),
        ("server_error", ProviderUnavailable),
        ("overloaded", ProviderUnavailable),
        ("reset", ProviderUnavailable),
        ("truncated_json", ProviderUnavailable),
        ("unauthorized", ProviderAuthFailed),
        ("no_credit", ProviderAuthFailed),
        ("overflow", ContextOverflow),
        ("bad_request", ProviderRejected),
    ],
)
def test_each_fault_becomes_an_error_that_names_the_endpoint(provider, fault, error):
    with pytest.raises(error) as caught:
        ask(provider, user(f"[[fault:{fault}]]"))
    assert "Testing" in caught.value.message
    assert KEY not in caught.value.message


def test_retry_after_is_read(provider):
    with pytest.raises(ProviderUnavailable) as caught:
        ask(provider, user("[[fault:rate_limit_long]]"))
    assert caught.value.retry_after == 600


def test_a_fault_of_two_tries_is_over_at_the_third(provider, kind):
    question = user(f"hello from {kind} [[fault:server_error 2]]")
    for _ in range(2):
        with pytest.raises(ProviderUnavailable):
            ask(provider, question)
    assert ask(provider, question)[-1].text


def test_broken_utf8_does_not_break_the_answer(provider):
    answer = ask(provider, user("hello [[fault:invalid_utf8]]"))[-1]
    assert "caf\ufffd" in answer.text
    assert answer.stop_reason == "end"


def test_a_silent_service_is_given_up_after_the_idle_timeout(simulator, kind):
    from agents.providers.http import Timeouts

    short = Timeouts(connect=2, first_byte=0.3, idle=0.2)
    provider = make_provider(config(simulator, kind, timeouts=short))
    for fault in ("silence", "stall"):
        with pytest.raises(ProviderUnavailable, match="silent"):
            ask(provider, user(f"hello [[fault:{fault}]]"))


def test_the_second_round_reads_the_first_from_the_cache(provider):
    question = user("hello " + "and a long story " * 400)
    first = ask(provider, question)[-1]
    second = ask(provider, question, answered(first), user("hello again"))[-1]
    assert first.usage.cache_read == 0
    assert second.usage.cache_read >= 1_024
    assert second.usage.cache_read % 128 == 0
    assert second.usage.total_input > first.usage.total_input


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("[[fault:silence]]", 0.2),
        ("hello [[fault:stall]]", 0.6),
        ("[[script:slow_story]]", 0.8),
    ],
    ids=["before the first byte", "in a silent stream", "in a stream"],
)
def test_stop_closes_the_connection_at_once(simulator, provider, text, pause):
    interrupt, since = Interrupt(), simulator.last_id()
    threading.Timer(pause, interrupt.stop, [RunStoppedByUser()]).start()
    started = time.monotonic()
    with pytest.raises(RunStoppedByUser):
        ask(provider, user(text), interrupt=interrupt)
    assert time.monotonic() - started < pause + 2
    assert simulator.ended(since)["state"] == "aborted"


def test_a_stop_cuts_one_stream_and_no_other(simulator, provider):
    interrupt, answers = Interrupt(), []
    steady = threading.Thread(
        target=lambda: answers.append(ask(provider, user("hello"))[-1])
    )
    steady.start()
    threading.Timer(0.1, interrupt.stop, [RunStoppedByUser()]).start()
    with pytest.raises(RunStoppedByUser):
        ask(provider, user("[[fault:silence]]"), interrupt=interrupt)
    steady.join(5)
    assert answers
    assert answers[0].stop_reason == "end"


def test_a_stopped_run_sends_nothing(simulator, provider):
    interrupt, since = Interrupt(), simulator.last_id()
    interrupt.stop(RunStoppedByUser())
    with pytest.raises(RunStoppedByUser):
        ask(provider, user("hello"), interrupt=interrupt)
    assert simulator.records(since) == []


def test_an_abandoned_stream_closes_its_connection(simulator, provider):
    since = simulator.last_id()
    stream = provider.stream(
        provider.encode(prompt(user("[[script:slow_story]]"))), Interrupt()
    )
    assert isinstance(next(stream), Delta)
    stream.close()
    assert simulator.ended(since)["state"] == "aborted"


def test_the_pieces_joined_are_what_the_service_receives(simulator, provider):
    since = simulator.last_id()
    request = provider.encode(prompt(user("hello")))
    list(provider.stream(request, Interrupt()))
    assert simulator.ended(since)["body"].encode() == request.body
    kinds = {piece.owner.kind for piece in request.pieces}
    assert kinds == {"envelope", "tools", "system", "startup", "message"}


def test_equal_prompts_give_equal_bytes_and_odd_characters_are_harmless(provider):
    odd = user("nul \0, half \ud83d, whole \ud83d\ude00, 한국어")
    request = provider.encode(prompt(odd))
    assert request == provider.encode(prompt(odd))
    text = request.body.decode()
    assert "\\u0000" not in text
    assert "whole 😀, 한국어" in text
    assert ask(provider, odd)[-1].text


def test_many_streams_share_one_provider(provider, capsys):
    """Prints the throughput; the figure depends on the machine."""
    script = '[[script: [{"delays":{"first_ms":0,"token_ms":2,"tokens":100}}]]]'
    answers = []

    def run():
        answers.append(ask(provider, user(script))[-1])

    threads = [threading.Thread(target=run) for _ in range(20)]
    started, cpu = time.monotonic(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    taken, cpu = time.monotonic() - started, time.process_time() - cpu
    assert [len(answer.text.split()) for answer in answers] == [100] * 20
    with capsys.disabled():
        speed, cost = 2000 / taken, cpu / 2000 * 1e6
        print(f" [{speed:.0f} deltas/s, {cost:.0f} us CPU each]")  # noqa: T201
