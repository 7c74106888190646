"""set_mode, enter_plan_mode and exit_plan_mode: people decide, and it happens once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from agents.answer_actions import answer_wait
from agents.mode_actions import set_level, set_mode
from agents.models import LoadedTool, Run, Wait
from agents.providers.scripted import calls, says
from observability.models import Record
from workspace.errors import BadInput, NotAllowed
from workspace.models import Conversation

pytestmark = pytest.mark.django_db


def decide(user: Any, decision: str = "once", **fields: Any) -> Wait:
    wait = Wait.objects.get(kind=Wait.Kind.PLAN, outcome="")
    return answer_wait(wait=wait, user=user, answer={"decision": decision, **fields})


def declared(request: Any) -> str:
    return json.dumps(json.loads(request.body)["tools"])


def now(stage: Any) -> Conversation:
    return Conversation.objects.get(pk=stage.conversation.pk)


def results(stage: Any) -> list[dict[str, Any]]:
    return stage.entries("tool_result")


def test_a_level_that_a_call_asks_for_holds_when_a_person_agrees(stage, script, owner):
    provider = script(
        calls("set_mode", mode="auto", reason="Many commands."), says("Ok.")
    )
    stage.post("Go")
    assert stage.play().state == Run.State.WAITING
    assert now(stage).approval_level == "accept"
    assert Wait.objects.get().payload == {
        "change": {"level": "auto"},
        "reason": "Many commands.",
    }
    decide(owner)
    assert now(stage).approval_level == "auto"
    assert stage.play().state == Run.State.FINISHED
    assert results(stage)[0]["output"] == "The approval level is auto now."
    assert declared(provider.requests[0]) == declared(provider.requests[1])
    [told] = Record.objects.filter(kind="level.changed")
    assert told.data["by"] == str(owner)


def test_a_mode_that_a_call_asks_for_begins_with_the_next_turn(stage, script, owner):
    provider = script(calls("set_mode", mode="review"), says("Ok."), says("Reviewed."))
    stage.post("Go")
    stage.play()
    decide(owner)
    stage.play()
    assert "next turn" in results(stage)[0]["output"]
    stage.post("Review it")
    stage.play()
    first, second, third = map(declared, provider.requests)
    assert first == second
    assert second != third
    [told] = Record.objects.filter(kind="mode.changed")
    assert told.data == {"old": "chat", "new": "review", "by": str(owner)}


def test_plan_names_the_level_and_not_the_mode(stage, script, owner):
    script(calls("set_mode", mode="plan"), says("Ok."))
    stage.post("Go")
    stage.play()
    decide(owner)
    stage.play()
    assert (now(stage).approval_level, now(stage).mode) == ("plan", "chat")


def test_a_change_that_is_declined_leaves_all_as_it_was(stage, script, owner):
    script(calls("set_mode", mode="auto"), says("Ok."))
    stage.post("Go")
    stage.play()
    decide(owner, "deny", reason="Ask each time.")
    stage.play()
    [result] = results(stage)
    assert result["error"]["code"] == "denied"
    assert "Ask each time." in result["error"]["message"]
    assert now(stage).approval_level == "accept"


def test_no_rule_and_no_level_agrees_in_a_persons_place(
    stage, script, owner, workspace
):
    workspace.permission_rules = {"allow": ["set_mode"]}
    workspace.save()
    set_level(conversation=stage.conversation, user=owner, level="auto")
    script(calls("set_mode", mode="accept"), says("Ok."))
    stage.post("Go")
    assert stage.play().state == Run.State.WAITING
    with pytest.raises(BadInput):
        decide(owner, "always")


def test_a_member_cannot_agree_for_anothers_turn(stage, script, member, viewer):
    script(calls("set_mode", mode="auto"), says("Ok."))
    stage.post("Go")
    stage.play()
    for person in (member, viewer):
        with pytest.raises(NotAllowed):
            decide(person)
    assert now(stage).approval_level == "accept"


def test_what_is_so_already_asks_nobody_and_an_unknown_name_says_which_there_are(
    stage, script
):
    script(
        calls("set_mode", mode="accept"), calls("set_mode", mode="turbo"), says("Ok.")
    )
    stage.post("Go")
    assert stage.play().state == Run.State.FINISHED
    same, unknown = results(stage)
    assert "already" in same["output"]
    assert "plan, accept, auto" in unknown["error"]["message"]
    assert "orchestrate" in unknown["error"]["message"]


def test_planning_lets_plan_files_be_written_and_nothing_else(stage, script):
    script(
        calls("enter_plan_mode"),
        calls("write_file", path=".tallyroom/plans/way.md", content="# Way\n"),
        calls("write_file", path="a.txt", content="no"),
        calls("write_file", path=".tallyroom/plans/../../b.md", content="no"),
        calls("write_file", path=".tallyroom/plans/run.sh", content="no"),
        says("Done."),
    )
    stage.post("Go")
    stage.play()
    assert [one["ok"] for one in results(stage)] == [True, True, False, False, False]
    root = stage.conversation.root
    assert (root / ".tallyroom/plans/way.md").read_text() == "# Way\n"
    assert not (root / "a.txt").exists()
    assert not (root / "b.md").exists()


def test_an_approved_plan_brings_back_the_level_that_held_before(stage, script, owner):
    set_level(conversation=stage.conversation, user=owner, level="auto")
    provider = script(
        calls("enter_plan_mode"),
        calls("exit_plan_mode", plan="1. Do it"),
        says("Done."),
    )
    stage.post("Go")
    assert stage.play().state == Run.State.WAITING
    assert now(stage).approval_level == "plan"
    decide(owner)
    assert now(stage).approval_level == "auto"
    stage.play()
    assert "auto again" in results(stage)[1]["output"]
    assert len({declared(request) for request in provider.requests}) == 1
    texts = [one["text"] for one in stage.entries("notice") if one["type"] == "level"]
    assert "change nothing" in texts[0]
    assert "planning has ended" in texts[1]
    assert set(LoadedTool.objects.values_list("tool", "cause")) == {
        ("enter_plan_mode", "direct"),
        ("exit_plan_mode", "direct"),
    }


def test_a_plan_that_is_sent_back_goes_on_in_planning_with_the_reason(
    stage, script, owner
):
    script(
        calls("enter_plan_mode"), calls("exit_plan_mode", plan="1. Do it"), says("Hm.")
    )
    stage.post("Go")
    stage.play()
    decide(owner, "deny", reason="Add a test first.")
    stage.play()
    assert "Add a test first." in results(stage)[1]["error"]["message"]
    assert now(stage).approval_level == "plan"


def test_a_level_that_a_person_chose_meanwhile_stays_when_the_plan_is_approved(
    stage, script, owner
):
    script(
        calls("enter_plan_mode"), calls("exit_plan_mode", plan="1. Do it"), says("Ok.")
    )
    stage.post("Go")
    stage.play()
    set_level(conversation=stage.conversation, user=owner, level="auto")
    decide(owner)
    assert now(stage).approval_level == "auto"


def test_without_planning_there_is_nothing_to_leave(stage, script):
    script(calls("exit_plan_mode", plan="1. Do it"), says("Ok."))
    stage.post("Go")
    assert stage.play().state == Run.State.FINISHED
    assert results(stage)[0]["error"]["code"] == "not_planning"


def test_the_mode_plan_writes_plan_files_alone_whatever_the_level(stage, script, owner):
    set_mode(conversation=stage.conversation, user=owner, mode="plan")
    set_level(conversation=stage.conversation, user=owner, level="auto")
    provider = script(
        calls("write_file", path=".tallyroom/plans/way.md", content="# Way\n"),
        calls("write_file", path="a.txt", content="no"),
        calls("shell", command="touch b"),
        calls("exit_plan_mode", plan="1. Do it"),
        says("Done."),
    )
    stage.post("Go")
    stage.play()
    decide(owner)
    stage.play()
    assert [one["ok"] for one in results(stage)] == [True, False, False, True]
    assert '"exit_plan_mode"' in declared(provider.requests[0])
    assert now(stage).mode == "plan"
    assert not (stage.conversation.root / "a.txt").exists()


def test_toggling_the_level_plan_moves_no_byte_before_the_tail(stage, script, owner):
    provider = script(says("One."), says("Two."), says("Three."))
    for text, level in (("One?", "plan"), ("Two?", "accept"), ("Three?", "plan")):
        stage.post(text)
        stage.play()
        set_level(conversation=stage.conversation, user=owner, level=level)
    said = [json.loads(request.body) for request in provider.requests]
    assert len({json.dumps(one["tools"]) for one in said}) == 1
    for before, after in zip(said, said[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]


def test_the_card_of_a_plan_shows_it_and_takes_the_decision(
    client, stage, script, owner, viewer
):
    script(
        calls("enter_plan_mode"),
        calls("exit_plan_mode", plan="# Way\n<script>alert(1)</script>"),
        says("Ok."),
    )
    stage.post("Go")
    stage.play()
    conversation = stage.conversation
    where = [conversation.workspace.slug, conversation.pk]
    client.force_login(viewer)
    assert (
        "Approve the plan"
        not in client.get(reverse("agents:waits", args=where)).content.decode()
    )
    client.force_login(owner)
    page = client.get(reverse("agents:waits", args=where)).content.decode()
    assert "Approve the plan" in page
    assert "<script>alert" not in page
    wait = Wait.objects.get(kind=Wait.Kind.PLAN)
    client.post(reverse("agents:answer", args=[*where, wait.pk]), {"decision": "once"})
    assert now(stage).approval_level == "accept"


def test_after_a_lost_worker_an_approved_change_is_not_made_again(stage, script, owner):
    script(calls("set_mode", mode="auto"), says("Ok."))
    stage.post("Go")
    stage.play()
    decide(owner)
    set_level(conversation=stage.conversation, user=owner, level="accept")
    stage.play()
    assert now(stage).approval_level == "accept"
