"""What a long run sends: pruned and compacted, derived from what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from agents.context.assemble import items_of
from agents.context.governance import Maker, foreseen
from agents.models import Run
from agents.providers.scripted import Step, calls, says
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
    script(*reads(8), calls("read_file", path="0.txt"), says("Done."))
    start_turn("Read all")
    assert "harbour" in stage.last("tool_result")["output"]


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
