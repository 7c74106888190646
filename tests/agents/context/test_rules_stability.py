"""Rules and skills over a long conversation: no byte of the past ever changes."""

from __future__ import annotations

import hashlib

import pytest

from agents.actions import agent_of, start_conversation
from agents.context.preview import preview
from agents.models import ModelCall
from agents.providers.scripted import calls, says
from observability.models import Record

TURNS = 12


def put(folder, path, text):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.fixture
def tree(workspace, owner, stage):
    root = workspace.root
    put(root, "AGENTS.md", "MARKER: always speak kindly.")
    put(root, "web/AGENTS.md", "---\npaths: web/**/*.css\n---\nUse variables.")
    for name in ("review", "release"):
        head = f"---\nname: {name}\ndescription: How to {name}\n---\n"
        put(root, f".tallyroom/skills/{name}/SKILL.md", f"{head}Steps of {name}.")
    gated = "---\nname: css\ndescription: Styles\npaths: web/**\n---\nMind the cascade."
    put(root, ".agents/skills/css/SKILL.md", gated)
    for number in range(TURNS):
        put(root, f"web/d{number}/a.css", "a{}\n")
    stage.conversation = start_conversation(workspace=workspace, author=owner)
    for number in range(TURNS):  # after the start, so that they come in by touch
        put(root, f"web/d{number}/AGENTS.md", f"Rules of d{number}.")
    return root


def steps(number):
    reading = calls("read_file", path=f"web/d{number}/a.css")
    viewing = calls("skill_view", name="review" if number % 2 else "css")
    return [reading + viewing, viewing, says(f"Done {number}.")]


def begins(request):
    prompt = request.prompt
    first = repr((prompt.tools, prompt.system, prompt.messages[0].text))
    return hashlib.sha256(first.encode()).hexdigest()


def test_the_prefix_stays_and_every_request_extends_the_one_before(
    script, stage, start_turn, tree
):
    provider = script(*(step for number in range(TURNS) for step in steps(number)))
    for number in range(TURNS):
        stage.post(f"/release turn {number}" if number == 3 else f"turn {number}")
        foreseen = preview(stage.conversation, agent_of(stage.conversation))
        sent = len(provider.requests)
        stage.play()
        assert provider.requests[sent].body == foreseen.assembled.body
        put(tree, "AGENTS.md", f"edited {number}")
    assert len({begins(request) for request in provider.requests}) == 1
    for earlier, later in zip(provider.requests, provider.requests[1:], strict=False):
        kept = later.prompt.messages[: len(earlier.prompt.messages)]
        assert kept == earlier.prompt.messages
    last = provider.requests[-1].body
    assert last.count(b"MARKER") == 1
    assert last.count(b"Rules of d0.") == 1
    assert last.count(b"Steps of release.") == 1
    assert not Record.objects.filter(kind="prefix.changed").exists()


def test_rows_of_rules_and_skills_add_up_with_the_others(
    script, stage, start_turn, tree
):
    script(*steps(0))
    start_turn("/review go")
    found = preview(stage.conversation, agent_of(stage.conversation))
    rows = {row.key: row for row in found.next.rows}
    assert sum(row.tokens for row in found.next.rows) == found.next.total
    for key in ("rules", "skills"):
        assert sum(part.tokens for part in rows[key].details) == rows[key].tokens
    titles = [part.title for part in rows["skills"].details]
    assert "Skill review" in titles
    assert "Skill css" in titles
    assert {"web/AGENTS.md", "web/d0/AGENTS.md"} <= {
        part.title for part in rows["rules"].details
    }
    assert ModelCall.objects.filter(state=ModelCall.State.COMPLETED).count() == 3
