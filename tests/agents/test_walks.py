"""Whole conversations of random actions: what the model is sent only ever grows."""

from __future__ import annotations

import random
from typing import Any
from uuid import uuid4

import pytest

from agents import runs, tasks
from agents.actions import edit_and_resend, retry_turn, stop_turn
from agents.errors import RunReleased, RunStoppedByUser
from agents.models import Run
from agents.providers.scripted import Step, calls
from workspace.errors import ActionError
from workspace.models import Entry, QueuedMessage

pytestmark = pytest.mark.django_db


class Walk:
    """Random actions of one seed; remembers after which requests somebody went back."""

    def __init__(self, stage: Any, seed: int) -> None:
        self.stage, self.dice = stage, random.Random(seed)
        self.said: list[str] = []
        self.rewound: set[int] = set()

    def step(self) -> Step:
        """An answer, during whose making anything may happen."""
        answer = Step(text=f"answer {self.dice.random()}", before=self.meanwhile)
        for _ in range(self.dice.choice([0, 0, 1, 2])):
            tool = self.dice.choice(["list_dir", "read_file", "no_such_tool"])
            answer += calls(tool, path=".")
        return answer

    def meanwhile(self) -> None:
        action = self.dice.choice(["", "", "steer", "queue", "stop", "release"])
        if action in ("steer", "queue"):
            self.post(action)
        elif action == "stop":
            stop_turn(conversation=self.stage.conversation, user=self.stage.author)
            raise RunStoppedByUser
        elif action == "release":
            raise RunReleased

    def post(self, when: str) -> None:
        text = f"message {len(self.said)}"
        self.said.append(text)
        self.stage.post(text, when=when)

    def act(self, requests: list[Any]) -> None:
        """Something a person does, then whatever is queued is played."""
        action = self.dice.choice(["post", "post", "retry", "edit"])
        try:
            if action == "post":
                self.post("steer")
            else:
                self.go_back(action)
                self.rewound.add(len(requests))
        except ActionError:
            return

    def go_back(self, action: str) -> None:
        talk, author = self.stage.conversation, self.stage.author
        seqs = list(talk.entries.filter(kind="user").values_list("seq", flat=True))
        seq = self.dice.choice([*seqs, 10_000])
        if action == "retry":
            retry_turn(conversation=talk, user=author, to_seq=seq)
            return
        edit_and_resend(
            conversation=talk,
            author=author,
            to_seq=seq,
            text=f"edited {seq}",
            client_id=uuid4().hex,
        )

    def play(self) -> None:
        queued = Run.objects.filter(state=Run.State.QUEUED).first()
        if queued and (hold := runs.claim(queued.pk, "a worker")):
            tasks.play_held(hold, self.stage.choice)


@pytest.mark.parametrize("seed", range(4))
def test_a_request_begins_with_the_one_before_unless_somebody_went_back(
    seed, script, stage
):
    walk = Walk(stage, seed)
    provider = script(*[lambda _: walk.step()] * 400)
    for _ in range(12):
        walk.act(provider.requests)
        for _ in range(6):
            walk.play()
    bodies = [one.body[: one.body.rindex(b"]")] for one in provider.requests]
    assert len(bodies) > 8
    for index in range(1, len(bodies)):
        if index not in walk.rewound:
            assert bodies[index].startswith(bodies[index - 1]), index
    open_runs = Run.objects.filter(state__in=Run.OPEN).exclude(state=Run.State.QUEUED)
    assert not open_runs.exists()
    posted = [body["text"] for body in stage.entries(Entry.Kind.USER)]
    waiting = QueuedMessage.objects.filter(sent_at=None, withdrawn_at=None)
    posted += [row.body["text"] for row in waiting]
    assert {text: posted.count(text) for text in walk.said} == dict.fromkeys(
        walk.said, 1
    )
