"""Turns played by a script: the loop's seam is the provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from agents import runs, tasks
from agents.actions import post_message, start_conversation
from agents.endpoints import Choice
from agents.models import Run
from agents.providers.scripted import ScriptedProvider
from agents.seeding import seed_simulator
from workspace import transcript
from workspace.models import Conversation, Entry, Turn


class Stage:
    """A conversation and the script that answers in it."""

    def __init__(self, conversation: Conversation, author: Any) -> None:
        self.conversation = conversation
        self.author = author
        self.provider = ScriptedProvider()

    def post(self, text: str, **fields: Any) -> Any:
        fields.setdefault("author", self.author)
        fields.setdefault("client_id", uuid4().hex)
        conversation = Conversation.objects.get(pk=self.conversation.pk)
        return post_message(conversation=conversation, text=text, **fields)

    def claim(self) -> runs.Hold:
        run = Run.objects.get(conversation=self.conversation, state=Run.State.QUEUED)
        hold = runs.claim(run.pk, "a worker")
        assert hold, "a queued run can be claimed"
        return hold

    def play(self) -> Run:
        """Play the queued run as a worker does."""
        run = Run.objects.get(conversation=self.conversation, state=Run.State.QUEUED)
        hold = runs.take(run.pk, "a worker")
        assert hold, "a queued run can be taken"
        tasks.play_held(hold, self.choice)
        return Run.objects.get(pk=hold.run.pk)

    @property
    def choice(self) -> Choice:
        model = seed_simulator()
        return Choice(self.provider, model.endpoint, model)

    def entries(self, *kinds: str) -> list[dict[str, Any]]:
        """The bodies of the conversation's entries of these kinds, in order."""
        found = transcript.entries(self.conversation.pk)
        wanted = [entry for entry in found if not kinds or entry.kind in kinds]
        return transcript.bodies(wanted)

    def last(self, kind: str = Entry.Kind.ASSISTANT) -> dict[str, Any]:
        return self.entries(kind)[-1]

    def turn(self) -> Turn:
        return self.conversation.turns.order_by("-created_at").first()


@pytest.fixture
def conversation(workspace: Any, owner: Any) -> Conversation:
    workspace.root.mkdir(parents=True, exist_ok=True)
    return start_conversation(workspace=workspace, author=owner)


@pytest.fixture
def stage(conversation: Conversation, owner: Any) -> Stage:
    return Stage(conversation, owner)


@pytest.fixture
def script(stage: Stage) -> Callable[..., ScriptedProvider]:
    """Plan what the model answers; returns the provider with what it was sent."""

    def plan(*steps: Any) -> ScriptedProvider:
        stage.provider = ScriptedProvider(*steps)
        return stage.provider

    return plan


@pytest.fixture
def start_turn(stage: Stage) -> Callable[[str], Run]:
    """Post a message and play its run to its end or its wait."""

    def start(text: str) -> Run:
        stage.post(text)
        return stage.play()

    return start
