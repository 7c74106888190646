"""What services really send, and what must come of it."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from agents.errors import (
    ContextOverflow,
    ImagesRefused,
    ProviderAuthFailed,
    ProviderRejected,
    ProviderUnavailable,
)
from agents.interrupts import Interrupt
from agents.providers.anthropic import Anthropic
from agents.providers.base import Message, Owner, ToolRequest
from agents.providers.chat_completions import ChatCompletions, Dialect
from agents.providers.faults import redact, refusal
from agents.providers.http import Caller, Service
from agents.providers.sse import EventStream
from tests.agents.providers.conftest import prompt, result, user

KEY = "canary-8f3a61c02b9d4e77"


class Chunks(httpx.SyncByteStream):
    def __init__(self, *chunks):
        self.chunks = chunks

    def __iter__(self):
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


def caller(*chunks, status=200, headers=None):
    def answer(request):
        kind = {"content-type": "text/event-stream"} | (headers or {})
        return httpx.Response(status, headers=kind, stream=Chunks(*chunks))

    service = Service("Testing", "https://api.example/v1/", {}, (KEY,))
    return Caller(service, transport=httpx.MockTransport(answer))


def event(**fields):
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def choice(delta, finish=None):
    return event(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


def called(index=None, **function):
    call_id = function.pop("id", None)
    part = {"function": function}
    part |= {} if index is None else {"index": index}
    part |= {} if call_id is None else {"id": call_id}
    return choice({"tool_calls": [part]})


def complete(*chunks, **fields):
    provider = ChatCompletions(caller(*chunks, **fields))
    return list(provider.stream(provider.encode(prompt(user("hi"))), Interrupt()))[-1]


STOP = choice({}, "stop")
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_survive_every_cut_line_end_and_comment(size):
    raw = (
        b": hello\r\n\r\nevent: x\r\ndata: one\r\n\r\ndata:two\n\n"
        b"data: a\rdata: b\r\rid: 7\n\ndata: last"
    )
    stream, events = EventStream(), []
    for at in range(0, len(raw), size):
        events += stream.feed(raw[at : at + size])
    assert events + stream.close() == [b"one", b"two", b"a\nb", b"last"]


def test_an_answer_without_done_or_final_newline_is_complete():
    assert complete(choice({"content": "Hi"}), STOP.rstrip()).text == "Hi"


def test_an_answer_with_done_but_no_finish_reason_is_complete():
    answer = complete(choice({"content": "Hi"}), DONE)
    assert (answer.text, answer.stop_reason) == ("Hi", "end")


def test_an_answer_that_just_ends_was_cut():
    with pytest.raises(ProviderUnavailable, match="before the answer was complete"):
        complete(choice({"content": "Hi"}))


def test_a_connection_lost_after_the_finish_reason_loses_nothing_but_usage():
    answer = complete(choice({"content": "Hi"}), STOP, httpx.ReadError("reset"))
    assert (answer.text, answer.usage.reported) == ("Hi", False)


def test_null_content_and_empty_choices_are_skipped():
    answer = complete(
        event(choices=[]),
        choice({"role": "assistant", "content": None, "tool_calls": None}),
        choice({"content": "Hi"}),
        STOP,
    )
    assert answer.text == "Hi"


def test_a_service_that_does_not_stream_is_read_as_well():
    body = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    answer = complete(
        json.dumps(body).encode(), headers={"content-type": "application/json"}
    )
    assert answer.text == "Hi"


def test_calls_are_put_together_by_index():
    answer = complete(
        called(0, id="a", name="read_file", arguments=""),
        called(1, id="b", name="shell", arguments='{"c'),
        called(0, arguments='{"path":'),
        called(1, arguments='ommand":"ls"}'),
        called(0, arguments='"x"}'),
        choice({}, "tool_calls"),
    )
    assert answer.tool_calls == (
        ToolRequest("a", "read_file", '{"path":"x"}'),
        ToolRequest("b", "shell", '{"command":"ls"}'),
    )


def test_calls_that_are_all_number_zero_are_told_apart_by_id():
    answer = complete(
        called(0, id="a", name="read_file", arguments="{}"),
        called(0, id="b", name="shell", arguments="{}"),
        STOP,
    )
    assert [call.name for call in answer.tool_calls] == ["read_file", "shell"]
    assert answer.stop_reason == "tool_calls"


def test_calls_without_ids_get_some_and_missing_arguments_are_an_empty_object():
    answer = complete(called(0, name="a"), called(1, name="b", arguments=None), STOP)
    ids = {call.call_id for call in answer.tool_calls}
    assert len(ids) == 2
    assert "" not in ids
    assert [call.arguments for call in answer.tool_calls] == ["{}", "{}"]


def test_arguments_given_as_an_object_become_text():
    answer = complete(called(0, id="a", name="x", arguments={"k": 1}), STOP)
    assert answer.tool_calls[0].arguments == '{"k":1}'


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_found_under_both_names(key):
    answer = complete(choice({key: "Hm."}), choice({"content": "Hi"}), STOP)
    assert (answer.reasoning, answer.text) == ("Hm.", "Hi")


@pytest.mark.parametrize(
    ("usage", "axes"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 4}, (10, 0, 0, 4, 0)),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 40,
                "prompt_tokens_details": {"cached_tokens": 64},
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            (36, 64, 0, 10, 30),
        ),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "prompt_cache_hit_tokens": 60,
                "prompt_cache_miss_tokens": 40,
            },
            (40, 60, 0, 5, 0),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": None,
                "prompt_tokens_details": None,
            },
            (10, 0, 0, 0, 0),
        ),
        ({"prompt_tokens": -5, "completion_tokens": "many"}, (0, 0, 0, 0, 0)),
    ],
)
def test_usage_lands_on_five_disjoint_axes(usage, axes):
    answer = complete(choice({"content": "Hi"}), STOP, event(choices=[], usage=usage))
    u = answer.usage
    assert u.reported
    assert (u.input, u.cache_read, u.cache_write, u.output, u.reasoning) == axes


def test_an_error_inside_the_stream_is_the_services_error():
    error = {"message": "slow down", "type": "rate_limit_error"}
    with pytest.raises(ProviderUnavailable, match="slow down"):
        complete(choice({"content": "Hi"}), event(error=error))


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (400, "This model's maximum context length is 8192 tokens.", ContextOverflow),
        (400, "prompt is too long: 213000 tokens > 200000 maximum", ContextOverflow),
        (
            400,
            "the request exceeds the available context size, try increasing it",
            ContextOverflow,
        ),
        (
            400,
            "The decoder prompt (length 9000) is longer than the maximum model "
            "length of 8192.",
            ContextOverflow,
        ),
        (413, "Request too large", ContextOverflow),
        (400, "Unknown parameter: 'foo'.", ProviderRejected),
        (404, "The model `x` does not exist", ProviderRejected),
        (
            400,
            "Invalid content type. image_url is only supported by some",
            ImagesRefused,
        ),
        (404, "No endpoints found that support image input", ImagesRefused),
        (422, "messages.0.content: model is not multimodal", ImagesRefused),
        (500, "image input is not supported - provide the mmproj", ImagesRefused),
        (500, "Internal error while reading the image", ProviderUnavailable),
        (401, "This key may not use vision", ProviderAuthFailed),
        (429, "Too many images per minute", ProviderUnavailable),
        (429, "You exceeded your current quota", ProviderAuthFailed),
        (400, "Your credit balance is too low", ProviderAuthFailed),
        (403, "Country not supported", ProviderAuthFailed),
        (503, "Loading model", ProviderUnavailable),
        (529, "Overloaded", ProviderUnavailable),
    ],
)
def test_refusals_are_told_apart(status, message, error):
    body = json.dumps({"error": {"message": message}}).encode()
    assert type(refusal("Testing", status, {}, body, ())) is error


@pytest.mark.parametrize(
    "body", [b"", b"<html>Bad gateway</html>", b"[]", b"null", b'{"detail":"no"}']
)
def test_refusals_without_a_usual_body_are_still_sentences(body):
    error = refusal("Testing", 502, {}, body, ())
    assert error.message.startswith("Testing is failing")
    assert "<html" not in error.message


def test_retry_after_is_read_as_seconds_milliseconds_or_date():
    def waits(**headers):
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return refusal("T", 429, named, b"", ()).retry_after

    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert waits(retry_after="7") == 7
    assert waits(retry_after_ms="250") == 0.25
    assert 85 < waits(retry_after=later) < 95
    assert waits(retry_after="soon") is None
    assert waits(retry_after="-1") is None


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}.",
        f"Incorrect API key provided: {KEY[:9]}***{KEY[-4:]}.",
        f"key={KEY[3:14]} is unknown",
        "bad token sk-abcd************wxyz",
    ],
)
def test_no_part_of_a_key_survives_in_an_error(text):
    said = redact(text, (KEY,))
    assert not any(KEY[at : at + 6] in said for at in range(len(KEY) - 5))
    assert "wxyz" not in said
    assert "[key]" in said


def test_keys_stay_out_of_reprs_and_errors():
    body = json.dumps({"error": {"message": f"Bad key {KEY}"}}).encode()
    with pytest.raises(ProviderAuthFailed) as caught:
        complete(body, status=401, headers={"content-type": "application/json"})
    assert KEY not in str(caught.value)
    assert KEY not in repr(Service("T", "https://x/", {"a": KEY}, (KEY,)))


# Encoding.


def test_consecutive_requests_share_all_bytes_up_to_the_new_messages():
    provider = ChatCompletions(caller())
    shorter = provider.encode(prompt(user("one"))).body
    longer = provider.encode(prompt(user("one"), user("two"))).body
    assert longer.startswith(shorter.removesuffix(b"]}"))
    order = [longer.index(key) for key in (b'"model"', b'"tools"', b'"messages"')]
    assert order == sorted(order)


def test_metadata_goes_to_the_simulator_alone():
    asked = prompt(user("hi"), metadata={"script": "x"})
    assert b"metadata" not in ChatCompletions(caller()).encode(asked).body
    dialect = Dialect(carries_metadata=True)
    assert b"metadata" in ChatCompletions(caller(), dialect).encode(asked).body


OWNER = Owner("message", "m", "Message")
ROUND = (
    user("go"),
    Message(
        "assistant",
        "",
        OWNER,
        (ToolRequest("a:1", "shell", '{"path":"x"}'), ToolRequest("b", "shell", "{")),
        opaque={"anthropic": [{"type": "thinking", "thinking": "t", "signature": "s"}]},
    ),
    result("a:1", "done"),
    result("b", "", ok=False),
    user("and now?"),
)


def anthropic_body(*messages, **fields):
    request = Anthropic(caller(), **fields).encode(prompt(*messages))
    return json.loads(request.body)


def test_what_lies_between_two_answers_is_one_message():
    messages = anthropic_body(*ROUND, caches_prompts=False)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[2]["content"]] == [
        "tool_result",
        "tool_result",
        "text",
    ]
    assert messages[2]["content"][1] == {
        "type": "tool_result",
        "tool_use_id": "b",
        "is_error": True,
    }


def test_thinking_goes_back_verbatim_and_calls_fit_the_api():
    answer = anthropic_body(*ROUND, caches_prompts=False)["messages"][1]["content"]
    assert answer[0] == {"type": "thinking", "thinking": "t", "signature": "s"}
    assert answer[1]["id"] == "a_1"
    assert answer[1]["input"] == {"path": "x"}
    assert answer[2]["input"] == {"malformed_arguments": "{"}


def test_four_breakpoints_mark_tools_system_and_the_last_two_tails():
    body = anthropic_body(*ROUND)
    assert "cache_control" in body["tools"][-1]
    assert "cache_control" in body["system"][-1]
    marked = [
        number
        for number, message in enumerate(body["messages"])
        if "cache_control" in message["content"][-1]
    ]
    assert marked == [0, 2]
    assert json.dumps(body).count("cache_control") == 4


def test_without_marks_consecutive_requests_share_their_prefix():
    """Marks move, so they are envelope pieces; all other bytes stay where they were."""
    provider = Anthropic(caller())

    def unmarked(*messages):
        pieces = provider.encode(prompt(*messages)).pieces
        return b"".join(p.data for p in pieces if b"cache_control" not in p.data)

    assert unmarked(*ROUND).startswith(unmarked(ROUND[0]).removesuffix(b"]}"))


def test_empty_texts_are_not_sent_as_empty_blocks():
    silent = Message("assistant", " ", OWNER)
    messages = anthropic_body(user(""), silent, user("x"))["messages"]
    assert all(
        block["text"].strip() for message in messages for block in message["content"]
    )


def anthropic_complete(*events):
    provider = Anthropic(caller(*events))
    return list(provider.stream(provider.encode(prompt(user("hi"))), Interrupt()))[-1]


START = event(
    type="message_start",
    message={
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 70,
            "cache_creation_input_tokens": 20,
            "output_tokens": 1,
        }
    },
)


def ending(reason):
    return event(
        type="message_delta",
        delta={"stop_reason": reason},
        usage={"output_tokens": 9},
    )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "end"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("max_tokens", "max_tokens"),
        ("something_new", "other"),
    ],
)
def test_stop_reasons_and_cache_counts_are_read(reason, expected):
    answer = anthropic_complete(START, ending(reason), event(type="message_stop"))
    assert answer.stop_reason == expected
    usage = answer.usage
    assert (usage.input, usage.cache_read, usage.cache_write) == (5, 70, 20)
    assert usage.output == 9


def test_thinking_is_kept_with_its_signature():
    answer = anthropic_complete(
        START,
        event(
            type="content_block_start",
            index=0,
            content_block={"type": "thinking", "thinking": "", "signature": ""},
        ),
        event(
            type="content_block_delta",
            index=0,
            delta={"type": "thinking_delta", "thinking": "Hm."},
        ),
        event(
            type="content_block_delta",
            index=0,
            delta={"type": "signature_delta", "signature": "abc"},
        ),
        ending("end_turn"),
        event(type="message_stop"),
    )
    kept = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}
    assert answer.reasoning == "Hm."
    assert answer.opaque == {"anthropic": [kept]}


def test_overload_inside_a_stream_is_worth_another_try():
    error = {"type": "overloaded_error", "message": "Overloaded"}
    with pytest.raises(ProviderUnavailable, match="Overloaded"):
        anthropic_complete(START, event(type="error", error=error))
