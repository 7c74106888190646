"""What a long run sends: pruned and compacted, derived from what is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents import sweeper, tasks
from agents.context.assemble import items_of
from agents.context.governance import Maker, foreseen
from agents.errors import ContextOverflow, ProviderRejected, RunStoppedByUser
from agents.models import ModelCall, Run
from agents.providers.scripted import Step, calls, raises, says
from observability.models import Record
from workspace.models import Conversation

pytestmark = pytest.mark.django_db

ROUNDS = 12


@pytest.fixture
def files(workspace):
    for number in range(ROUNDS):
        text = "".join(f"line {number} {n} of the harbour's book\n" for n in range(60))
        (workspace.root / f"{number}.txt").write_text(text)


def reads(count: int = ROUNDS) -> list[Step]:
    return [calls("read_file", path=f"{number}.txt") for number in range(count)]


def without_cache(stage) -> None:
    endpoint = stage.choice.endpoint
    endpoint.caches_prompts = False
    endpoint.save(update_fields=["caches_prompts"])


def tool_texts(request: Any) -> list[str]:
    return [one.text for one in request.prompt.messages if one.role == "tool"]


def test_old_outputs_become_lines_that_never_change(script, stage, start_turn, files):
    without_cache(stage)
    provider = script(*reads(), says("Done."))
    assert start_turn("Read all").state == Run.State.FINISHED
    last = tool_texts(provider.requests[-1])
    stubs = [text for text in last if text.startswith("[earlier read_file output")]
    assert len(stubs) == ROUNDS - 6
    assert all("harbour" in text for text in last[-6:])
    for request in provider.requests[7:]:
        texts = tool_texts(request)
        done = [text for text in texts if text.startswith("[earlier")]
        assert last[: len(done)] == done
    events = Record.objects.filter(kind="outputs.pruned")
    assert events.count() == ROUNDS - 6
    assert all("harbour" in row["output"] for row in stage.entries("tool_result"))


def test_with_a_cache_the_boundary_moves_rarely(script, stage, start_turn, files):
    provider = script(*reads(), says("Done."))
    start_turn("Read all")
    assert len(provider.requests) == ROUNDS + 1
    assert Record.objects.filter(kind="outputs.pruned").count() < ROUNDS - 6


def test_a_pruned_file_is_read_again(script, stage, start_turn, files):
    without_cache(stage)
    again = calls("read_file", path="0.txt")
    script(*reads(8), again, again, says("Done."))
    start_turn("Read all")
    full, stub = (row["output"] for row in stage.entries("tool_result")[-2:])
    assert "harbour" in full
    assert stub.startswith("unchanged since your earlier read_file of 0.txt")


def test_the_preview_shows_the_outputs_that_are_about_to_be_pruned(
    script, stage, files
):
    provider = script(*reads(8), says("Done."), says("Again."))
    stage.post("Read all")
    stage.play()
    stage.post("And now?")
    without_cache(stage)
    expected = foreseen_body(stage)
    assert stage.entries("notice") == []
    stage.play()
    assert stage.entries("notice")[-1]["type"] == "prune"
    assert provider.requests[-1].body == expected
    assert b"[earlier read_file output pruned" in expected


def foreseen_body(stage) -> bytes:
    """What the preview shows; the loop would take no pause before it sends it."""
    fresh = Conversation.objects.get(pk=stage.conversation.pk)
    return foreseen(items_of(fresh), Maker.of(fresh, stage.choice, "")).body


SUMMARY = "## Goal\n- read the harbour's books"


@pytest.fixture
def small_window(stage):
    model = stage.choice.language_model
    model.window = 8_000
    model.save(update_fields=["window"])


def is_asking(request: Any) -> bool:
    return is_asking_prompt(request.prompt)


def is_asking_prompt(prompt: Any) -> bool:
    return "about to be compacted" in prompt.messages[-1].text


def summing_up(*others: Any, text: str = SUMMARY, **fields: Any) -> list[Any]:
    """Steps that answer a request for a summary as such, others in their order."""
    left = iter(others)

    def play(prompt: Any) -> Step:
        if is_asking_prompt(prompt):
            return says(text, **fields)
        return next(left)

    return [play] * (len(others) + 6)


def test_a_small_window_is_compacted_and_the_work_goes_on(
    script, stage, start_turn, files, small_window
):
    provider = script(*summing_up(*reads(6), says("Done.")))
    run = start_turn("Read all of the books")
    assert run.state == Run.State.FINISHED
    [summary] = stage.entries("summary")
    assert (summary["text"], summary["source"]) == (SUMMARY, "model")
    asked = next(n for n, one in enumerate(provider.requests) if is_asking(one))
    before, question, after = provider.requests[asked - 1 : asked + 2]
    assert question.body.startswith(before.body[: before.body.rindex(b"]")][:2000])
    assert question.declared_tools_digest == before.declared_tools_digest
    texts = [one.text for one in after.prompt.messages]
    assert SUMMARY in texts[1]
    assert "Read all of the books" in texts
    assert sum("harbour's book\n" in text for text in texts) == 1
    event = Record.objects.get(kind="context.compacted")
    assert event.data["before"] - event.data["after"] >= 2_000


def test_the_call_for_a_summary_has_its_own_row_and_is_paid_for(
    script, stage, start_turn, files, small_window
):
    script(*summing_up(*reads(6), says("Done.")))
    run = start_turn("Read all")
    beside = run.model_calls.get(round=0)
    assert beside.state == ModelCall.State.COMPLETED
    assert run.round == run.model_calls.filter(round__gt=0).count() == 7
    assert run.tokens_in == 100 * run.model_calls.count()


@pytest.mark.parametrize(
    "fields",
    [
        {"text": ""},
        {"text": "cut", "stop_reason": "max_tokens"},
        {"tool_calls": calls("list_dir", path=".").tool_calls},
        {"error": ProviderRejected("No.")},
    ],
)
def test_a_summary_that_fails_is_made_without_the_model(
    script, stage, start_turn, files, small_window, fields
):
    script(*summing_up(*reads(6), says("Done."), **fields))
    assert start_turn("Read all of the books").state == Run.State.FINISHED
    [summary] = stage.entries("summary")
    assert summary["source"] == "mechanical"
    assert "Read all of the books" in summary["text"]
    assert len(stage.entries("tool_result")) == 6


def test_a_worker_lost_behind_a_summary_makes_no_second_one(
    script, stage, files, small_window
):
    asked: list[Any] = []

    def lose(prompt: Any) -> Step:
        if not is_asking_prompt(prompt):
            return next(left)
        asked.append(prompt)
        return says(SUMMARY)

    def vanish() -> None:
        """The worker is taken for dead, just when it has sent what follows."""
        if asked and len(asked) == len(stage.entries("summary")):
            Run.objects.update(lease_until="2020-01-01T00:00:00Z")
            sweeper.sweep()

    left = iter(
        [replace(step, before=vanish) for step in reads(5)]
        + [replace(says("Lost."), before=vanish), says("Done.")]
    )
    script(*[lose] * 12)
    stage.post("Read all")
    stage.play()
    assert Run.objects.get().state == Run.State.QUEUED
    assert len(stage.entries("summary")) == 1
    assert stage.play().state == Run.State.FINISHED
    assert len(asked) == len(stage.entries("summary")) == 1
    assert "Lost." not in [row["text"] for row in stage.entries("assistant")]


def test_stop_during_the_summary_ends_the_run_and_stores_none(
    script, stage, owner, files, small_window
):
    def stop() -> None:
        hold.interrupt.stop(RunStoppedByUser())

    script(*summing_up(*reads(6), text="never", before=stop, pause=5))
    stage.post("Read all")
    hold = stage.claim()
    tasks.play_held(hold, stage.choice)
    assert Run.objects.get().state == Run.State.STOPPED
    assert stage.entries("summary") == []
    assert ModelCall.objects.get(round=0).state == ModelCall.State.STOPPED


def test_the_preview_of_a_compacted_conversation_is_what_is_sent(
    script, stage, files, small_window
):
    seen: list[bytes] = []
    left = iter([*reads(6), says("Done."), says("Again.")])

    def play(prompt: Any) -> Step:
        if is_asking_prompt(prompt):
            return says(SUMMARY)
        return next(left)

    def look(prompt: Any) -> Step:
        seen.append(foreseen_body(stage))
        return play(prompt)

    provider = script(*[look] * 12)
    for text in ("Read all", "And now?"):
        stage.post(text)
        stage.play()
    assert stage.entries("summary")
    assert seen == [one.body for one in provider.requests]


def test_what_cannot_be_made_to_fit_is_not_sent(
    script, stage, start_turn, small_window
):
    provider = script(says("Never."))
    run = start_turn("word " * 9_000)
    assert run.state == Run.State.FAILED
    assert "no longer fits the model's window of 8,000 tokens" in stage.turn().message
    assert "Messages" in stage.turn().message
    assert provider.requests == []


def test_a_request_that_the_service_finds_too_large_is_made_smaller_once(
    script, stage, start_turn, files
):
    full = ContextOverflow("The request is larger than the window of X.")
    provider = script(*reads(5), raises(full), says("Done."))
    run = start_turn("Read all")
    assert run.state == Run.State.FINISHED
    refused, sent = provider.requests[-2:]
    assert len(sent.body) < len(refused.body)
    assert run.round == 6
    [notice] = stage.entries("notice")
    assert notice["cause"] == "squeeze"


def test_a_service_that_refuses_the_smaller_request_too_ends_the_run_with_advice(
    script, stage, start_turn, files
):
    full = ContextOverflow("The request is larger than X's model can take.")
    provider = script(*reads(5), raises(full), raises(full))
    run = start_turn("Read all")
    assert run.state == Run.State.FAILED
    assert len(provider.requests) == 7
    message = stage.turn().message
    assert message.startswith("The request is larger than X's model can take. Most is ")
    assert message.endswith("or start a new conversation.")


def test_a_refused_request_without_anything_to_leave_out_ends_the_run_with_advice(
    script, stage, start_turn
):
    full = ContextOverflow("The request is larger than X's model can take.")
    script(raises(full))
    assert start_turn("Hi").state == Run.State.FAILED
    assert stage.turn().message.startswith(
        "The request is larger than X's model can take. Compacting the conversation "
        "cannot make it fit. Most is taken by "
    )
