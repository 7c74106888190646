"""What users of similar products ran into, where compaction, pruning and guard meet.

Numbers are rows of that collection; cases that values alone can show stand with their
modules (`context/test_compaction.py`, `context/test_pruning.py`, `test_guard.py`).
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from agents.actions import start_conversation
from agents.config_actions import save_settings
from agents.context.budget import Counts, Limits
from agents.context.compaction import plan
from agents.context.segments import segments_of
from agents.context.view import Item
from agents.models import Run
from agents.providers.base import Usage
from agents.providers.scripted import Step, calls, says
from observability.models import Record

pytestmark = pytest.mark.django_db

SUMMARY = "## Goal\n- read the books\n## Done\n- write_file done.txt"


@pytest.fixture
def no_pruning(owner, workspace):
    values = {"agent.pruneToolOutputs": False}
    save_settings(by=owner, scope=workspace, values=values)


def window(stage: Any, tokens: int) -> None:
    model = stage.choice.language_model
    model.window = tokens
    model.save(update_fields=["window"])


def books(workspace: Any, count: int, lines: int) -> list[Step]:
    """Reads of as many files, each different."""
    for number in range(count):
        text = "".join(f"book {number} line {n} of the harbour\n" for n in range(lines))
        (workspace.root / f"{number}.txt").write_text(text)
    return [calls("read_file", path=f"{number}.txt") for number in range(count)]


def is_asking(prompt: Any) -> bool:
    return "about to be compacted" in prompt.messages[-1].text


def summing_up(*steps: Any, **fields: Any) -> list[Any]:
    left = iter(steps)

    def play(prompt: Any) -> Step:
        return says(SUMMARY, **fields) if is_asking(prompt) else next(left)

    return [play] * (len(steps) + 8)


def prefix(request: Any) -> str:
    """Hash of tools, system and startup context: what compaction must not touch."""
    kinds = ("tools", "system", "startup")
    data = [
        one.data
        for one in segments_of(request.request, "o200k_base")
        if one.kind in kinds
    ]
    return hashlib.sha256(b"".join(data)).hexdigest()


def tokens(request: Any) -> int:
    return sum(one.tokens for one in segments_of(request.request, "o200k_base"))


def test_10_a_long_tool_loop_is_compacted_inside_its_turn_and_never_above_the_cap(
    script, stage, start_turn, workspace, no_pruning
):
    window(stage, 16_000)
    reads = books(workspace, 20, 90)
    provider = script(*summing_up(*reads, says("Done.")))
    run = start_turn("Read all of the books")
    assert (run.state, run.round) == (Run.State.FINISHED, 21)
    assert 1 <= len(stage.entries("summary")) <= 4
    for request in provider.requests:
        assert tokens(request) + request.prompt.max_output_tokens <= 16_000


def test_a_window_of_270000_is_compacted_once_on_the_way_past_189000(
    script, stage, start_turn, workspace, no_pruning
):
    reads = books(workspace, 30, 750)
    provider = script(*summing_up(*reads, says("Done.")))
    assert start_turn("Read all of the books").state == Run.State.FINISHED
    [event] = Record.objects.filter(kind="context.compacted")
    assert 189_000 <= event.data["before"] < 205_000
    assert event.data["before"] - event.data["after"] >= 67_500
    assert len({prefix(one) for one in provider.requests}) == 1
    asked = next(n for n, one in enumerate(provider.requests) if is_asking(one.prompt))
    assert tokens(provider.requests[asked - 1]) < 189_000


def test_31_rules_are_in_every_request_once_before_and_after_a_compaction(
    script, stage, start_turn, workspace, owner, no_pruning
):
    (workspace.root / "AGENTS.md").write_text("Say MARKER-7 in every answer.\n")
    stage.conversation = start_conversation(workspace=workspace, author=owner)
    window(stage, 8_000)
    provider = script(*summing_up(*books(workspace, 8, 60), says("Done.")))
    start_turn("Read")
    assert stage.entries("summary")
    assert {one.body.count(b"MARKER-7") for one in provider.requests} == {1}


def test_34_the_last_request_and_the_finished_calls_outlive_a_compaction(
    script, stage, start_turn, workspace, no_pruning
):
    window(stage, 8_000)
    write = calls("write_file", path="done.txt", content="done\n")
    request = "Write done.txt, then  read\nevery book: 모두"
    reads = books(workspace, 8, 60)
    left = iter([write, *reads, says("Done.")])

    def play(prompt: Any) -> Step:
        return says("") if is_asking(prompt) else next(left)

    provider = script(*[play] * 14)
    start_turn(request)
    texts = [one.text for one in provider.requests[-1].prompt.messages]
    assert texts.count(request) == 1
    assert any(
        "## Done" in text and "write_file path=done.txt" in text for text in texts
    )


def test_34_a_finished_write_that_is_repeated_is_warned_of(
    script, stage, start_turn, workspace
):
    write = calls("write_file", path="done.txt", content="done\n")
    script(write, write, write, says("Done."))
    start_turn("Write it")
    assert "3rd identical write_file call" in str(stage.last("tool_result"))


def test_44_without_usage_a_conversation_is_compacted_by_our_own_count(
    script, stage, start_turn, workspace, no_pruning
):
    window(stage, 8_000)
    silent = [
        Step(tool_calls=one.tool_calls, usage=Usage())
        for one in books(workspace, 8, 60)
    ]
    script(*summing_up(*silent, says("Done.", usage=Usage()), usage=Usage()))
    assert start_turn("Read").state == Run.State.FINISHED
    assert stage.entries("summary")


def test_7_cached_tokens_count_once(script, stage, start_turn, workspace, no_pruning):
    window(stage, 70_000)
    usage = Usage(input=0, cache_read=38_000, output=5, reported=True)
    steps = [
        Step(tool_calls=one.tool_calls, usage=usage) for one in books(workspace, 3, 60)
    ]
    script(*summing_up(*steps, says("Done.", usage=usage)))
    start_turn("Read")
    assert stage.entries("summary") == []


def test_8_rules_that_fill_the_window_are_named_and_nothing_is_tried_again():
    class Part:
        kind, id, tokens = "startup", "rules:AGENTS.md", 62_000

    items = [Item(3, "user", {"text": "Hi"})]
    made = plan(items, Counts.of([Part()]), Limits.of(64_000, 16_000))
    assert made
    assert made.strategy == "stop"
    assert "Rules (62,000 tokens)" in made.sentence


def test_control_23_turns_larger_than_the_window_cause_no_summary_of_nothing(
    script, stage, start_turn
):
    window(stage, 8_000)
    provider = script(*summing_up(*[says("Read.")] * 8))
    for number in range(3):
        start_turn(f"Part {number}: " + "word " * 2_300)
    assert all(
        len(one.prompt.messages) > 3
        for one in provider.requests
        if is_asking(one.prompt)
    )
    seqs = [entry.seq for entry in stage.conversation.entries.filter(kind="summary")]
    assert len(seqs) <= 1


def test_bob_3_what_leaves_no_room_for_the_answer_is_not_sent(
    script, stage, start_turn
):
    window(stage, 8_000)
    provider = script(says("Never."))
    run = start_turn("word " * 6_500)
    assert run.state == Run.State.FAILED
    assert provider.requests == []


def test_49_after_a_refused_repeat_the_next_message_is_answered(
    script, stage, start_turn, workspace
):
    (workspace.root / "a.txt").write_text("one\n")
    read = calls("read_file", path="a.txt")
    script(read, read, read, read, says("Stuck."), read, says("Done."))
    start_turn("Read it")
    assert stage.last("tool_result")["error"]["code"] == "repeat_blocked"
    assert start_turn("And again").state == Run.State.FINISHED
    assert stage.last("tool_result")["ok"]
