"""Which schemas follow a compaction, and which tools must be searched again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.compact_actions import compact
from agents.config_actions import save_settings
from agents.context.assemble import items_of
from agents.context.governance import Maker, foreseen
from agents.context.pruning import estimate
from agents.context.restating import forgotten, restated, reviewed
from agents.context.view import Item
from agents.models import Run
from agents.providers.scripted import Step, calls, says
from agents.tools.registry import resolve
from workspace import transcript
from workspace.models import Conversation, Entry
from workspace.transcript import Draft

NAMES = ("list_dir", "git_log", "git_diff", "git_status")
HIDDEN = {name: tool for name in NAMES if (tool := resolve(name))}


def shown(seq: int, name: str, /, **arguments: Any) -> list[Item]:
    """A round with one call; a search shows what it is asked for by name."""
    call = {"call_id": f"c{seq}", "name": name, "arguments": json.dumps(arguments)}
    found = str(arguments.get("query", "")).removeprefix("select:").split(",")
    tools = [HIDDEN[one] for one in found if one in HIDDEN]
    meta = {"loaded": {tool.name: tool.digest for tool in tools}}
    result = {
        "call_id": f"c{seq}",
        "name": name,
        "ok": True,
        "output": "",
        "meta": meta,
    }
    answer = {"text": "", "tool_calls": [call], "seen_seq": seq - 1}
    return [Item(seq, "assistant", answer), Item(seq + 1, "tool_result", result)]


SEARCHED = [
    Item(1, "surface", {}),
    *shown(2, "tool_search", query=f"select:{','.join(NAMES)}"),
    *shown(4, "tool_call", name="git_log", arguments={}),
    *shown(6, "list_dir", path="."),
]
SUMMARY = Item(9, "summary", {"type": "summary", "covers": [2, 8], "text": "Done."})


def test_the_tools_called_last_come_first_and_the_others_are_named():
    budget = estimate(HIDDEN["list_dir"].schema) + 150
    body = restated(SEARCHED, [*SEARCHED, SUMMARY], HIDDEN, budget, estimate)
    assert body
    assert list(body["loaded"])[0] == "list_dir"
    assert body["others"]
    assert "list_dir" not in body["others"]
    assert '"name":"list_dir"' in body["text"]
    left = ",".join(body["others"])
    assert f"Call tool_search with select:{left} before" in body["text"]


def test_what_is_stated_counts_as_reviewed_and_the_rest_does_not():
    after = [*SEARCHED, SUMMARY]
    assert reviewed(SEARCHED).keys() == set(NAMES)
    assert reviewed(after) == {}
    body = restated(SEARCHED, after, HIDDEN, 250, estimate)
    assert body
    assert body["loaded"]
    assert body["others"]
    assert reviewed([*after, Item(10, "notice", body)]) == body["loaded"]


def test_a_budget_of_nothing_states_none_and_names_all():
    body = restated(SEARCHED, [*SEARCHED, SUMMARY], HIDDEN, 0, estimate)
    assert body
    assert body["loaded"] == {}
    assert set(body["others"]) == set(NAMES)
    assert "<functions>" not in body["text"]


def test_tools_that_cannot_be_called_any_more_are_not_mentioned():
    body = restated(SEARCHED, [*SEARCHED, SUMMARY], {}, 1_000, estimate)
    assert body is None


def test_nothing_is_said_when_nothing_was_lost_or_it_was_said_already():
    assert forgotten(SEARCHED) == ()
    assert forgotten([Item(1, "user", {"text": "a"}), SUMMARY]) == ()
    said = Item(10, "notice", {"type": "schemas", "loaded": {}})
    assert forgotten([*SEARCHED, SUMMARY, said]) == ()
    assert forgotten([*SEARCHED, SUMMARY]) == SEARCHED


@pytest.fixture
def searched(script, stage):
    """Six rounds of talk, in the first of which two tools were found."""
    plan = iter(
        [
            calls("tool_search", query="select:list_dir,git_log"),
            calls("tool_call", name="list_dir", arguments={"path": "."}),
            *[says("Six boats lie in the harbour. " * 60)] * 6,
        ]
    )

    def play(prompt: Any) -> Step:
        if "about to be compacted" in prompt.messages[-1].text:
            return says("## Goal\n- count the boats")
        return next(plan)

    script(*[play] * 20)
    for number in range(6):
        stage.post(f"Question {number}?")
        stage.play()
    return stage


def use(stage: Any, script: Any, *steps: Step) -> list[dict[str, Any]]:
    """What a next turn's calls come to."""
    script(*steps, says("Done."))
    seen = len(stage.entries("tool_result"))
    stage.post("Go on")
    assert stage.play().state == Run.State.FINISHED
    return stage.entries("tool_result")[seen:]


LIST = calls("tool_call", name="list_dir", arguments={"path": "."})


@pytest.mark.django_db
def test_a_tool_whose_schema_was_stated_again_is_called_at_once(
    searched, script, conversation, owner
):
    compact(conversation=conversation, user=owner)
    searched.play()
    notice = searched.entries("notice")[-1]
    assert set(notice["loaded"]) == {"list_dir", "git_log"}
    [result] = use(searched, script, LIST)
    assert result["ok"]
    texts = [one.text for one in searched.provider.requests[0].prompt.messages]
    assert sum("Schemas of tools that you loaded" in text for text in texts) == 1


@pytest.mark.django_db
def test_without_a_budget_a_call_is_refused_once_and_works_after_a_search(
    searched, script, conversation, owner, workspace
):
    save_settings(by=owner, scope=workspace, values={"tools.reloadBudget": 0})
    compact(conversation=conversation, user=owner)
    searched.play()
    first, _search, last = use(
        searched, script, LIST, calls("tool_search", query="select:list_dir"), LIST
    )
    assert "Call tool_search with select:list_dir first" in first["error"]["message"]
    assert last["ok"]
    sent = searched.provider.requests[0].body
    assert b"<functions>" not in sent


@pytest.mark.django_db
def test_a_worker_lost_before_the_notice_leaves_it_to_the_next_and_the_preview_knows(
    searched, script, conversation
):
    turn = searched.turn()
    body = {
        "type": "summary",
        "covers": [3, conversation.entries.last().seq],
        "text": "Boats were counted.",
    }
    transcript.append(conversation.pk, Draft(Entry.Kind.SUMMARY, body, turn=turn))
    script(says("Done."))
    searched.post("Go on")
    fresh = Conversation.objects.get(pk=conversation.pk)
    expected = foreseen(items_of(fresh), Maker.of(fresh, searched.choice, "")).body
    searched.play()
    assert [one["type"] for one in searched.entries("notice")] == ["schemas"]
    assert searched.provider.requests[0].body == expected
