"""A conversation's mode is chosen by people and holds from the next turn on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from agents.actions import agent_of
from agents.context.assemble import items_of
from agents.context.governance import Maker, foreseen
from agents.context.renewing import renewal_for
from agents.mode_actions import set_mode
from agents.models import ModelCall, Run
from agents.providers.scripted import calls, says
from agents.surface.modes import MODES
from agents.tools.registry import BUILTIN
from observability.models import Record
from workspace.errors import BadInput, NotAllowed
from workspace.models import Change, Conversation

pytestmark = pytest.mark.django_db


def prefix(request: Any) -> tuple[str, str, str]:
    """The declared tools, the system prompt and the startup context of a request."""
    body = json.loads(request.body)
    system, startup = body["messages"][:2]
    return json.dumps(body.get("tools")), system["content"], startup["content"]


def foreseen_body(stage: Any, starts: bool = True) -> bytes:
    fresh = Conversation.objects.get(pk=stage.conversation.pk)
    renew = renewal_for(fresh, agent_of(fresh), lambda: starts)
    maker = Maker.of(fresh, stage.choice, "", renew=renew)
    return foreseen(items_of(fresh), maker).body


def choose(stage: Any, mode: str) -> bool:
    fresh = Conversation.objects.get(pk=stage.conversation.pk)
    return set_mode(conversation=fresh, user=stage.author, mode=mode)


def test_a_mode_that_a_person_chooses_holds_from_the_next_turn_on(stage, script):
    provider = script(says("One."), says("Two."), says("Three."))
    for text, mode in (("One?", "review"), ("Two?", ""), ("Three?", "")):
        stage.post(text)
        stage.play()
        if mode:
            assert choose(stage, mode)
    first, second, third = map(prefix, provider.requests)
    assert MODES["review"].text not in first[1]
    assert MODES["review"].text in second[1]
    assert '"git_diff"' in second[0]
    assert '"write_file"' not in second[0]
    assert second == third
    assert [call.mode for call in ModelCall.objects.order_by("id")] == [
        "chat",
        "review",
        "review",
    ]


def test_the_switch_is_told_with_who_chose_it_and_what_it_changed(stage, script, owner):
    script(says("One."), says("Two."))
    stage.post("One?")
    stage.play()
    choose(stage, "review")
    assert not Record.objects.filter(kind="mode.changed").exists()
    stage.post("Two?")
    stage.play()
    [told] = Record.objects.filter(kind="mode.changed")
    assert told.data == {"old": "chat", "new": "review", "by": str(owner)}
    [changed] = Record.objects.filter(kind="prefix.changed")
    assert changed.data["cause"] == "mode"
    [audited] = Change.objects.filter(action="conversation.mode")
    assert (audited.old, audited.new, audited.by) == ("chat", "review", owner)


def test_a_preview_equals_the_first_request_after_a_switch_and_those_that_follow(
    stage, script
):
    provider = script(says("One."), calls("list_dir", path="."), says("Two."))
    stage.post("One?")
    stage.play()
    choose(stage, "orchestrate")
    stage.post("Two?")
    expected = foreseen_body(stage)
    stage.play()
    assert provider.requests[1].body == expected
    then = foreseen_body(stage)
    provider = script(says("Three."))
    said = json.loads(then)["messages"]
    stage.post("Three?")
    stage.play()
    assert json.loads(provider.requests[0].body)["messages"][: len(said)] == said


def test_a_turn_at_work_keeps_its_mode_to_its_end(stage, script):
    provider = script(
        calls("ask_user", questions=[{"question": "Which?"}]), says("Done.")
    )
    stage.post("Go")
    assert stage.play().state == Run.State.WAITING
    choose(stage, "review")
    expected = foreseen_body(stage, starts=False)
    assert prefix_of_body(expected) == prefix(provider.requests[0])


def prefix_of_body(body: bytes) -> tuple[str, str, str]:
    class Sent:
        pass

    sent = Sent()
    sent.body = body  # type: ignore[attr-defined]
    return prefix(sent)


def test_choosing_back_before_the_next_turn_moves_no_byte(stage, script):
    provider = script(says("One."), says("Two."))
    stage.post("One?")
    stage.play()
    choose(stage, "review")
    choose(stage, "chat")
    stage.post("Two?")
    stage.play()
    first, second = map(prefix, provider.requests)
    assert first == second
    assert not Record.objects.filter(kind__in=["mode.changed", "prefix.changed"])


def test_a_tool_that_was_called_by_name_stays_declared_unless_the_mode_denies_it(
    stage, script
):
    provider = script(calls("list_dir", path="."), says("One."), says("Two."))
    stage.post("One?")
    stage.play()
    choose(stage, "review")
    stage.post("Two?")
    stage.play()
    tools = {
        tool["function"]["name"]
        for tool in json.loads(provider.requests[-1].body)["tools"]
    }
    assert "list_dir" in tools
    assert not tools & {"write_file", "edit_file", "shell"}


def test_the_same_mode_again_is_no_change(stage):
    assert not choose(stage, "chat")
    assert not Change.objects.filter(action="conversation.mode").exists()


def test_an_unknown_mode_is_refused_with_those_that_there_are(stage, owner):
    with pytest.raises(BadInput, match="orchestrate"):
        choose(stage, "architect")


def test_a_viewer_cannot_choose_a_mode(stage, viewer):
    with pytest.raises(NotAllowed):
        set_mode(conversation=stage.conversation, user=viewer, mode="plan")


def test_the_command_mode_chooses_a_mode_and_is_no_message(
    client, owner, stage, conversation
):
    client.force_login(owner)
    address = reverse(
        "agents:post", args=[conversation.workspace.slug, conversation.pk]
    )
    answer = client.post(
        address, {"text": "/mode review"}, headers={"Accept": "application/json"}
    )
    conversation.refresh_from_db()
    assert conversation.mode == "review"
    assert stage.entries("user") == []
    assert answer.json()["seq"] == conversation.head_seq
    client.post(address, {"text": "/mode auto"})
    conversation.refresh_from_db()
    assert (conversation.mode, conversation.approval_level) == ("review", "auto")
    client.post(address, {"text": "/plan"})
    conversation.refresh_from_db()
    assert (conversation.mode, conversation.approval_level) == ("review", "plan")
    assert stage.entries("user") == []


def test_an_unknown_mode_that_was_typed_is_refused_and_starts_nothing(
    client, owner, workspace, stage
):
    client.force_login(owner)
    before = Conversation.objects.count()
    answer = client.post(
        reverse("agents:new", args=[workspace.slug]),
        {"text": "/mode architect"},
        headers={"Accept": "application/json"},
    )
    assert answer.status_code == 400
    assert Conversation.objects.count() == before


def test_a_conversation_that_begins_with_a_mode_is_made_in_it(
    client, owner, workspace, stage
):
    client.force_login(owner)
    client.post(reverse("agents:new", args=[workspace.slug]), {"text": "/mode review"})
    made = Conversation.objects.order_by("-created_at").first()
    [surface] = [one.body for one in items_of(made) if one.kind == "surface"]
    assert made.mode == surface["mode"] == "review"


def test_the_page_of_modes_tells_what_each_costs_and_takes_a_choice(
    client, owner, viewer, outsider, conversation
):
    address = reverse(
        "agents:mode_choice", args=[conversation.workspace.slug, conversation.pk]
    )
    for person, status in ((viewer, 403), (outsider, 404)):
        client.force_login(person)
        assert client.post(address, {"mode": "plan"}).status_code == status
    client.force_login(owner)
    page = client.get(address).content.decode()
    assert page.count("tokens idle") == len(MODES)
    client.post(address, {"mode": "plan"})
    conversation.refresh_from_db()
    assert conversation.mode == "plan"


def test_the_page_of_tools_names_every_tool_with_what_becomes_of_it(
    client, viewer, outsider, stage, script
):
    script(calls("list_dir", path="."), says("Done."))
    stage.post("Go")
    stage.play()
    conversation = stage.conversation
    address = reverse(
        "agents:tools", args=[conversation.workspace.slug, conversation.pk]
    )
    client.force_login(outsider)
    assert client.get(address).status_code == 404
    client.force_login(viewer)
    page = client.get(address)
    states = {one.tool.name: one.state for one in page.context["lines"]}
    assert set(states) == {tool.name for tool in BUILTIN}
    assert states["read_file"] == "resident"
    assert states["list_dir"] == "loaded"
    assert states["todo_write"] == "demand"


def test_the_tools_command_lists_the_tools_of_a_mode(capsys):
    call_command("tools", "list", "--json", "--mode", "review")
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["git_diff"]["deferred"] is False
    assert rows["write_file"]["state"] == "denied"
    assert "review" in rows["write_file"]["reason"]
