"""The settings that govern a conversation's context hold from the next call on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.config_actions import save_settings
from agents.context.assemble import items_of
from agents.context.governance import Governance, Maker, foreseen
from agents.context.preview import preview
from agents.models import Agent
from agents.providers.scripted import Step, calls, says
from observability.models import Record
from workspace.models import Conversation

pytestmark = pytest.mark.django_db


@pytest.fixture
def files(workspace):
    for number in range(12):
        text = "".join(f"line {number} {n} of the harbour's book\n" for n in range(60))
        (workspace.root / f"{number}.txt").write_text(text)


def reads(count: int) -> list[Step]:
    return [calls("read_file", path=f"{number}.txt") for number in range(count)]


def whole(request: Any) -> int:
    """How many results a request carries word for word."""
    return sum(
        "of the harbour's book\n" in one.text
        for one in request.prompt.messages
        if one.role == "tool"
    )


@pytest.fixture
def put(owner, workspace):
    def save(**values: Any) -> None:
        named = {name.replace("__", "."): value for name, value in values.items()}
        save_settings(by=owner, scope=workspace, values=named)

    return save


def test_without_settings_the_built_in_ones_hold(conversation):
    assert Governance.now(conversation) == Governance()


def test_the_rounds_kept_whole_are_those_of_the_setting(script, start_turn, files, put):
    put(agent__keepToolRounds=2, agent__pruneBatchRounds=1)
    provider = script(*reads(6), says("Done."))
    start_turn("Read")
    assert [whole(one) for one in provider.requests] == [0, 1, 2, 2, 2, 2, 2]


def test_a_batch_of_three_moves_the_boundary_every_third_round(
    script, start_turn, files, put
):
    put(agent__keepToolRounds=2, agent__pruneBatchRounds=3)
    provider = script(*reads(8), says("Done."))
    start_turn("Read")
    assert [whole(one) for one in provider.requests] == [0, 1, 2, 3, 4, 2, 3, 4, 2]


def test_pruning_switched_off_during_a_run_sends_all_again_from_the_next_call_on(
    script, start_turn, stage, files, put
):
    put(agent__keepToolRounds=2, agent__pruneBatchRounds=1)
    switch = replace(reads(6)[4], before=lambda: put(agent__pruneToolOutputs=False))
    provider = script(*reads(4), switch, reads(6)[5], says("Done."))
    start_turn("Read")
    assert [whole(one) for one in provider.requests] == [0, 1, 2, 2, 2, 5, 6]
    assert stage.entries("notice")[-1]["cause"] == "restore"


def test_the_guard_is_switched_off_for_the_next_call_of_a_run(
    script, start_turn, stage, files, put
):
    again = calls("read_file", path="0.txt")
    off = replace(again, before=lambda: put(tools__repeatGuard=False))
    script(again, again, off, again, again, says("Done."))
    start_turn("Read")
    stubs = [
        row["output"].startswith("unchanged since")
        for row in stage.entries("tool_result")
    ]
    assert stubs == [False, True, False, False, False]
    assert not Record.objects.filter(kind="loop.suspected").exists()


def test_a_smaller_cap_compacts_earlier_and_leaves_less_to_the_answer(
    script, start_turn, stage, files, put
):
    put(context__cap=12_000, agent__pruneToolOutputs=False)

    def play(prompt: Any) -> Step:
        if "about to be compacted" in prompt.messages[-1].text:
            return says("## Goal\n- read on")
        return next(left)

    left = iter([*reads(11), says("Done.")])
    provider = script(*[play] * 14)
    start_turn("Read")
    assert len(stage.entries("summary")) == 1
    sent = {one.prompt.max_output_tokens for one in provider.requests}
    assert sent == {3_000}
    report = Record.objects.get(kind="context.reported").data
    assert report["window"] == 12_000


def test_the_point_of_compaction_can_be_set_in_tokens(
    script, start_turn, stage, files, put
):
    put(context__compactAt=20_000, context__cap=40_000, agent__pruneToolOutputs=False)
    # 11,000 tokens of files stay below the point that was set: nothing happens.
    script(*reads(11), says("Done."))
    start_turn("Read")
    assert stage.entries("summary") == []


def test_a_cap_above_the_window_is_the_window(conversation, stage):
    model = stage.choice.language_model
    assert Governance(cap=model.window + 1).cap_of(model) == model.window


def test_the_explorer_shows_the_cap_and_what_the_next_call_will_send(
    script, stage, conversation, files, put
):
    provider = script(*reads(5), says("Done."), says("Again."))
    stage.post("Read")
    stage.play()
    stage.post("And now?")
    put(agent__keepToolRounds=1, agent__pruneBatchRounds=1, context__cap=50_000)
    fresh = Conversation.objects.get(pk=conversation.pk)
    agent = Agent.objects.get(workspace=fresh.workspace, name=fresh.agent_name)
    shown = preview(fresh, agent)
    assert (shown.next.cap, shown.next.reserved) == (50_000, 12_500)
    assert shown.last
    assert shown.last.cap == 50_000
    expected = foreseen(items_of(fresh), Maker.of(fresh, stage.choice, "")).body
    stage.play()
    assert provider.requests[-1].body == expected
    assert whole(provider.requests[-1]) == 1
