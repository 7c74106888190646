"""Answers that were written beforehand.

A script is a list of steps, or a mapping of `steps` and `repeat`; JSON or YAML. It is
named by the request's metadata (`script`) or in a person's message (`[[script:NAME]]`,
`[[script: {"steps": [...]}]]`); named ones are files in the folder `scripts`.

Which step is played depends on the request alone: the number of assistant messages
after the last user message that names a script, or, with metadata, the number of all.
Past the end, `repeat: true` begins again and other scripts say that they are over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from agents.simulator.conversation import Conversation
from agents.simulator.steps import BadStep, Step, step_from

_FOLDER = Path(__file__).parent / "scripts"
_MARKER = re.compile(r"\[\[\s*script\s*:\s*(.+?)\s*\]\](?![\]}])", re.DOTALL)
_NAME = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Script:
    """Steps in order; `repeat` begins again after the last."""

    steps: tuple[Step, ...]
    repeat: bool = False

    def step(self, number: int) -> Step:
        if self.repeat:
            number %= len(self.steps)
        if number < len(self.steps):
            return self.steps[number]
        return Step(text=f"The script is over after its {len(self.steps)} steps.")


def scripted_step(conversation: Conversation) -> Step | None:
    """The step to play, or None if the request names no script. Raises `BadStep`."""
    named = conversation.metadata.get("script")
    if isinstance(named, str) and named:
        answers = sum(said.role == "assistant" for said in conversation.messages)
        return load(named).step(answers)
    answers = 0
    for said in reversed(conversation.messages):
        if said.role == "assistant":
            answers += 1
        elif said.role == "user" and (marker := _MARKER.search(said.text)):
            return load(marker[1]).step(answers)
    return None


@lru_cache(maxsize=256)
def load(text: str) -> Script:
    """The script of that name, or the one that the text itself is. Raises `BadStep`."""
    text = text.strip()
    if _NAME.fullmatch(text):
        path = _FOLDER / f"{text}.yaml"
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in _FOLDER.glob("*.yaml")))
            raise BadStep(f"There is no script {text!r}; known are {known}.")
        text = path.read_text("utf-8")
    try:
        return _script_from(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise BadStep(f"The script is neither JSON nor YAML: {error}") from error


def _script_from(plain: Any) -> Script:
    repeat = False
    if isinstance(plain, dict):
        repeat = plain.get("repeat", False) is True
        plain = plain.get("steps")
    if not isinstance(plain, list) or not plain:
        raise BadStep("A script is a list of steps, or a mapping with 'steps'.")
    return Script(tuple(step_from(step) for step in plain), repeat)
