"""What every scenario works with. Imported only after Django is set up."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import close_old_connections

from agents.models import Run
from tests.harness.installation import GaveUp, Installation, wait_until
from tests.harness.people import Person
from workspace.models import Conversation

TAG = re.compile(r"tag:([\w-]+);")


@dataclass(frozen=True)
class Asked:
    """A request that the simulator saw: for which message, and which of its rounds."""

    id: int
    tag: str
    round: int
    at: float
    state: str
    deltas: int
    ended_at: float | None
    messages: list[dict[str, Any]] = field(repr=False)


@dataclass
class World:
    """The installation, its first person, and how much is to be done (1.0: all)."""

    installation: Installation
    owner: Person
    scale: float
    random: random.Random
    _asked: list[Asked] = field(default_factory=list)

    def times(self, full: int, least: int = 1) -> int:
        return max(least, round(full * self.scale))

    def asked(self) -> list[Asked]:
        """Everything the simulator was sent so far, oldest first; states are current."""
        done = [one for one in self._asked if one.ended_at is not None]
        since = min(
            (one.id - 1 for one in self._asked if one.ended_at is None),
            default=self._asked[-1].id if self._asked else 0,
        )
        fresh = [read_request(one) for one in self.installation.asked(since)]
        known = {one.id for one in fresh}
        self._asked = [one for one in done if one.id not in known] + fresh
        self._asked.sort(key=lambda one: one.id)
        return self._asked

    def asked_for(self, tag: str) -> list[Asked]:
        return [one for one in self.asked() if one.tag == tag]


def read_request(plain: dict[str, Any]) -> Asked:
    """The tag stands in the newest message of a person that has one."""
    messages = json.loads(plain["body"]).get("messages", [])
    tag, answers = "", 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            answers += 1
        elif message["role"] == "user" and (found := TAG.search(text_of(message))):
            tag = found[1]
            break
    return Asked(
        plain["id"],
        tag,
        answers + 1,
        plain["at"],
        plain["state"],
        plain["deltas"],
        plain["ended_at"],
        messages,
    )


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content)


def script(tag: str, *steps: dict[str, Any], words: str = "") -> str:
    """A message that says what the simulator answers to it, step by step."""
    return f"tag:{tag}; {words} [[script: {json.dumps({'steps': steps})} ]]"


def talk(tokens: int, *, first_ms: int = 50, token_ms: int = 20) -> dict[str, Any]:
    return {"delays": {"first_ms": first_ms, "token_ms": token_ms, "tokens": tokens}}


def shell(command: str) -> dict[str, Any]:
    return {"name": "shell", "arguments": {"command": command}}


def open_runs(conversations: Iterable[Conversation]) -> list[Run]:
    close_old_connections()
    keys = [one.pk for one in conversations]
    return list(Run.objects.filter(conversation__in=keys, state__in=Run.OPEN))


def wait_ended(conversations: Sequence[Conversation], seconds: float) -> list[str]:
    """Wait until nothing is open there; names the runs that hang."""
    try:
        wait_until(lambda: not open_runs(conversations), seconds, "runs end")
    except GaveUp:
        return [
            f"{run} in round {run.round}, lease {run.lease_until}, worker {run.worker!r}"
            for run in open_runs(conversations)
        ]
    return []


def wait_running(conversation: Conversation, seconds: float = 30) -> Run:
    def running() -> Run | None:
        return Run.objects.filter(
            conversation=conversation, state=Run.State.RUNNING
        ).first()

    run: Run = wait_until(running, seconds, "a run starts", pause=0.01)
    return run


def now() -> float:
    return time.time()
