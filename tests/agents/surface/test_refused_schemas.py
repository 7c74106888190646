"""A model service that refuses the schema of a tool: which one, and what ends it."""

from __future__ import annotations

import pytest

from agents.actions import start_conversation
from agents.config_actions import save_settings
from agents.errors import ProviderRejected
from agents.models import Run
from agents.providers.scripted import ScriptedProvider, raises, says
from agents.surface.refused import advice
from tests.agents.conftest import Stage
from tests.agents.servers import serve, tools

NAME = "mcp__hub__job_000"
REFUSAL = f"Invalid schema for function '{NAME}': 'strng' is not a type."
GRAMMAR = "failed to parse grammar"


@pytest.mark.parametrize(
    ("message", "declared", "preloaded", "words"),
    [
        (REFUSAL, ["shell", NAME], [NAME], f"{NAME} was preloaded: set"),
        (REFUSAL, ["shell", NAME], [], f"{NAME} out with tools.disabled"),
        (GRAMMAR, ["shell"], ["a", "b"], "2 tools were preloaded: set"),
    ],
)
def test_the_tool_and_the_setting_are_named(message, declared, preloaded, words):
    assert words in advice(message, declared, preloaded)


@pytest.mark.parametrize(
    ("message", "preloaded"),
    [(GRAMMAR, []), ("The model is not there.", [NAME]), ("shells differ", [NAME])],
)
def test_other_refusals_are_left_as_they_are(message, preloaded):
    assert advice(message, ["shell"], preloaded) == ""


@pytest.mark.django_db
@pytest.mark.parametrize("refusal", [REFUSAL, GRAMMAR])
def test_a_refused_preload_names_its_setting_and_without_it_the_service_answers(
    workspace, owner, refusal
):
    workspace.root.mkdir(parents=True, exist_ok=True)
    serve(workspace, "hub", tools(1))

    def picky(prompt):
        if NAME in [tool.name for tool in prompt.tools]:
            return raises(ProviderRejected(f"The service refuses this: {refusal}"))
        return says("Hi.")

    def play(threshold: float) -> Run:
        values = {"tools.toolSearch.threshold": threshold}
        save_settings(by=owner, scope=workspace, values=values)
        stage = Stage(start_conversation(workspace=workspace, author=owner), owner)
        stage.provider = ScriptedProvider(picky)
        stage.post("Hi")
        return stage.play()

    refused = play(100.0)
    assert refused.state == Run.State.FAILED
    assert "tools.toolSearch.threshold to 0" in refused.message
    assert (NAME in refused.message) is (NAME in refusal)
    assert play(0).state == Run.State.FINISHED
