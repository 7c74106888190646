"""Preview equals dispatch over histories that were pruned, compacted and steered."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from agents import actions
from agents.config_actions import save_settings
from agents.context.assemble import items_of
from agents.context.governance import Maker, foreseen
from agents.models import Run
from agents.providers.scripted import Step, calls, calls_with, says
from workspace.models import Conversation

pytestmark = pytest.mark.django_db

#: In four parts; the environment asks for more than every run of the suite needs.
CONVERSATIONS = int(os.environ.get("PREVIEW_CONVERSATIONS", "40"))
WINDOWS = (8_000, 12_000, 270_000)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"agent.keepToolRounds": 1, "agent.pruneBatchRounds": 1},
    {"agent.keepToolRounds": 2, "agent.pruneBatchRounds": 2},
    {"agent.pruneToolOutputs": False, "tools.repeatGuard": False},
    {"tools.reloadBudget": 0, "context.compactAt": 4_000},
)


@dataclass
class Looking:
    """Foresees each request and compares it with the one that arrives."""

    stage: Any
    random: Random
    left: int = 0
    compared: int = 0
    different: list[str] = field(default_factory=list)

    def __call__(self, prompt: Any) -> Step:
        sent = self.stage.provider.requests[-1].body
        fresh = Conversation.objects.get(pk=self.stage.conversation.pk)
        ahead = foreseen(items_of(fresh), Maker.of(fresh, self.stage.choice, ""))
        self.compared += 1
        if ahead.body != sent:
            self.different.append(f"request {len(self.stage.provider.requests)}")
        assert b"".join(one.data for one in ahead.segments) == ahead.body
        if "about to be compacted" in prompt.messages[-1].text:
            return says("" if self.random.random() < 0.3 else "## Goal\n- go on")
        self.left -= 1
        return self.act() if self.left > 0 else says("Done. " * 20)

    def act(self) -> Step:
        """A call as models make them, good and bad; sometimes two at once."""
        number = self.random.randrange(4)
        one = self.random.choice(
            [
                calls("read_file", path=f"{number}.txt"),
                calls("read_file", path=f"{number}.txt", offset=3),
                calls("grep", pattern=f"line {number}"),
                calls("write_file", path=f"new{number}.txt", content="x " * 900),
                calls("edit_file", path="0.txt", old_string="l", new_string="1"),
                calls("tool_search", query="select:list_dir,git_log"),
                calls("tool_call", name="list_dir", arguments={"path": "."}),
                calls("list_dir", path="."),
                calls("view_image", path="nothing.png"),
                calls_with("read_file", "[" * 9_000),
                calls("no_such_tool", a=1),
            ]
        )
        return one + calls("glob", pattern="*.txt") if number == 0 else one


def prepare(workspace: Any) -> None:
    (workspace.root / "sub").mkdir(exist_ok=True)
    for number in range(4):
        text = "".join(f"line {number} {n} of the book\n" for n in range(120))
        (workspace.root / f"{number}.txt").write_text(text)


def one_conversation(stage: Any, look: Looking, owner: Any) -> None:
    """Two or three turns; retried, steered and compacted by a person at random."""
    random = look.random
    stage.provider = type(stage.provider)(*[look] * 80)
    for turn in range(random.randint(2, 3)):
        look.left = random.randint(1, 6)
        stage.post(f"Turn {turn}: " + "words " * random.choice([1, 40, 400]))
        stage.play()
        if random.random() < 0.2:
            said = stage.conversation.entries.filter(kind="user").last()
            look.left = 1
            actions.retry_turn(
                conversation=stage.conversation, user=owner, to_seq=said.seq
            )
            stage.play()


@pytest.mark.parametrize("part", range(4))
def test_the_preview_is_what_is_sent_over_random_histories(
    part, stage, owner, workspace
):
    """On windows from 8,000 tokens on; each request is compared."""
    prepare(workspace)
    random, compared = Random(part), 0
    model = stage.choice.language_model
    for number in range(CONVERSATIONS // 4):
        model.window = WINDOWS[number % len(WINDOWS)]
        model.save(update_fields=["window"])
        chosen = random.choice(SETTINGS)
        names = {name for one in SETTINGS for name in one}
        values = {name: chosen.get(name) for name in names}
        save_settings(by=owner, scope=workspace, values=values)
        stage.conversation = actions.start_conversation(
            workspace=workspace, author=owner
        )
        look = Looking(stage, random)
        one_conversation(stage, look, owner)
        said = f"conversation {number}, {model.window}, {json.dumps(chosen)}"
        assert look.different == [], said
        assert not Run.objects.filter(state__in=Run.OPEN).exists(), said
        compared += look.compared
    assert compared > CONVERSATIONS // 2
