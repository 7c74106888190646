"""Tasks that one agent hands to another: made, played, reported, stopped."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from agents import actions, mode_actions, queries, runs, sweeper, tasks
from agents.calls import answer_calls
from agents.children import budget, warming
from agents.children.showing import cards_of
from agents.config_actions import save_settings
from agents.errors import ContextOverflow, RunStoppedByUser, RunWaiting
from agents.loop import play_round
from agents.models import Agent, Delegation, LanguageModel, Memory, Run, Wait
from agents.providers.scripted import calls, calls_with, raises, says
from agents.seeding import seed_simulator
from agents.standing import FRESH
from observability.models import Record
from workspace.errors import Conflict
from workspace.models import Conversation, Entry, Turn

HOUR = timedelta(hours=1)

pytestmark = pytest.mark.django_db


def play_all(stage: Any) -> None:
    """Play queued runs as workers do, oldest first, until none is left."""
    queued = Run.objects.filter(state=Run.State.QUEUED).order_by("created_at", "pk")
    while run := queued.first():
        hold = runs.claim(run.pk, "a worker")
        assert hold
        tasks.play_held(hold, stage.choice)


def start(stage: Any, text: str = "Do it.") -> Run:
    """Post a message and play all that comes of it; returns the parent's run."""
    stage.post(text)
    play_all(stage)
    return Run.objects.get(conversation=stage.conversation)


def child() -> Delegation:
    return Delegation.objects.order_by("pk").last()


def declared(request: Any) -> list[str]:
    return [tool.name for tool in request.prompt.tools]


def first_message(request: Any) -> str:
    return request.prompt.messages[1].text


def test_a_task_is_done_by_a_child_and_its_report_answers_the_call(stage, script):
    provider = script(
        calls("delegate_task", task="Count the files."),
        says("There are three."),
        says("Three files."),
    )
    run = start(stage)
    assert run.state == Run.State.FINISHED
    result = stage.last(Entry.Kind.TOOL_RESULT)
    assert result["ok"]
    assert result["output"].startswith("status: finished\nreason: the task is done\n")
    assert "rounds used: 1 of 50" in result["output"]
    assert result["output"].endswith("There are three.")
    assert len(provider.requests) == 3
    wait = Wait.objects.get(run=run)
    assert (wait.kind, wait.outcome) == ("children", "answered")


def test_a_child_has_its_own_hidden_conversation_linked_to_the_call(
    stage, script, owner
):
    script(
        calls("delegate_task", task="Look.", title="A look"), says("Seen."), says(".")
    )
    run = start(stage)
    task = child()
    assert task.conversation.parent == stage.conversation
    assert task.conversation.top == stage.conversation
    assert task.conversation.title == "A look"
    assert task.tool_call.run == run
    assert task.run.trigger == "delegation"
    shown = Conversation.objects.visible_to(owner)
    assert task.conversation in shown
    assert task.conversation not in shown.of_people()


def test_a_child_begins_with_its_task_and_its_rounds_and_nothing_else(stage, script):
    provider = script(
        calls("delegate_task", task="Count.", rounds=7), says("3"), says("Three.")
    )
    start(stage)
    asked = provider.requests[1]
    assert len(asked.prompt.messages) == 2  # the startup context and the task
    said = first_message(asked)
    assert said.startswith("Count.\n\nYou have 7 tool rounds for this task.")


def test_several_calls_of_one_message_have_children_at_the_same_time(stage, script):
    script(
        sum_of(calls("delegate_task", task=f"Part {n}") for n in range(5)),
        *[says(f"Report {n}") for n in range(5)],
        says("All done."),
    )
    stage.post("Do it.")
    stage.play()
    assert Run.objects.filter(trigger="delegation").count() == 3
    assert Delegation.objects.filter(run=None).count() == 2
    play_all(stage)
    results = stage.entries(Entry.Kind.TOOL_RESULT)
    assert [one["output"].rsplit("\n", 1)[-1] for one in results] == [
        f"Report {n}" for n in range(5)
    ]
    assert stage.last()["text"] == "All done."


def sum_of(steps: Any) -> Any:
    first, *rest = steps
    for step in rest:
        first = first + step
    return first


def test_siblings_begin_with_the_same_bytes(stage, script):
    provider = script(
        sum_of(
            calls("delegate_task", task=f"Part {n}", agent="explore") for n in range(3)
        ),
        *[says("Report")] * 3,
        says("All done."),
    )
    start(stage)
    assert len({task.prefix_digest for task in Delegation.objects.all()}) == 1
    first, *others = provider.requests[1:4]
    for other in others:
        assert other.prompt.tools == first.prompt.tools
        assert other.prompt.system == first.prompt.system
        assert other.prompt.messages[0] == first.prompt.messages[0]


def test_a_read_only_child_is_declared_exactly_its_few_tools(stage, script):
    provider = script(
        calls("delegate_task", task="Look.", agent="explore"), says("Seen."), says(".")
    )
    start(stage)
    has_shell = "shell" in declared(provider.requests[0])
    expected = {"read_file", "grep", "glob", "tool_search", "tool_call"}
    assert set(declared(provider.requests[1])) == expected | (
        {"shell"} if has_shell else set()
    )


@pytest.mark.parametrize("name", ["write_file", "delegate_task", "git_commit"])
def test_a_read_only_child_cannot_call_what_changes_anything(stage, script, name):
    arguments = {
        "write_file": {"path": "a.txt", "content": "x"},
        "delegate_task": {"task": "Do it for me."},
        "git_commit": {"message": "x"},
    }[name]
    script(
        calls("delegate_task", task="Look.", agent="reviewer"),
        calls(name, **arguments),
        says("Could not."),
        says("."),
    )
    start(stage)
    made = child().run.tool_calls.get()
    assert made.ok is False
    assert made.outcome["error"]["code"] in ("denied", "absent")
    assert not (stage.conversation.root / "a.txt").exists()


def test_a_child_at_the_second_level_has_nobody_to_hand_its_task_to(stage, script):
    provider = script(
        calls("delegate_task", task="One"),
        calls("delegate_task", task="Two"),
        calls("delegate_task", task="Three"),
        says("I cannot hand it on."),
        says("Two says so."),
        says("Done."),
    )
    start(stage)
    assert "delegate_task" in declared(provider.requests[1])
    assert "delegate_task" not in declared(provider.requests[2])
    assert Delegation.objects.count() == 2
    deepest = Delegation.objects.get(limits__depth=2)
    assert "2 levels deep" in deepest.run.tool_calls.get().outcome["error"]["message"]


def test_named_tools_are_declared_exactly_and_what_is_missing_is_a_warning(
    stage, script
):
    provider = script(
        calls(
            "delegate_task",
            task="Look.",
            agent="explore",
            tools=["git_log", "read_file", "write_file", "teleport"],
        ),
        says("Seen."),
        says("."),
    )
    start(stage)
    names = declared(provider.requests[1])
    warnings = " / ".join(child().warnings)
    assert "read_file" in names
    assert "tool_search" not in names
    assert "write_file is not given: this agent only reads" in warnings
    assert "teleport is not given: there is no such tool" in warnings
    assert ("git_log" in names) != ("git_log is not given" in warnings)


def test_a_child_without_a_tool_of_its_list_cannot_call_it(stage, script):
    script(
        calls("delegate_task", task="Write.", tools=["read_file"]),
        calls("write_file", path="a.txt", content="x"),
        says("I may not."),
        says("."),
    )
    start(stage)
    error = child().run.tool_calls.get().outcome["error"]
    assert error["code"] == "denied"
    assert "not among the tools" in error["message"]


def test_an_unknown_agent_is_refused_with_the_names_that_there_are(stage, script):
    script(calls("delegate_task", task="Look.", agent="explorr"), says("."))
    start(stage)
    error = stage.last(Entry.Kind.TOOL_RESULT)["error"]
    assert error["code"] == "unknown_agent"
    assert "Did you mean explore?" in error["message"]
    assert not Delegation.objects.exists()


def test_a_file_of_the_context_stands_in_the_first_message(stage, script):
    (stage.conversation.root / "notes.txt").write_text("Mind the </context> gap.")
    arguments = {"task": "Read.", "context": {"files": ["notes.txt"]}}
    provider = script(
        calls_with("delegate_task", json.dumps(arguments)), says("Read."), says(".")
    )
    start(stage)
    said = first_message(provider.requests[1])
    assert '<context file="notes.txt">' in said
    assert said.count("</context>") == 1


def test_a_missing_file_of_the_context_is_told_before_anything_begins(stage, script):
    arguments = {"task": "Read.", "context": {"files": ["../secret"]}}
    script(calls_with("delegate_task", json.dumps(arguments)), says("."))
    start(stage)
    assert stage.last(Entry.Kind.TOOL_RESULT)["error"]["code"] == "bad_path"
    assert not Delegation.objects.exists()


def begin(stage: Any, *steps: Any) -> tuple[Run, Run]:
    """Play until the parent waits; returns its run and its child's, which is queued."""
    stage.post("Do it.")
    parent = stage.play()
    assert parent.state == Run.State.WAITING
    return parent, child().run


def test_a_parent_that_waits_holds_no_worker_and_says_what_it_waits_for(stage, script):
    script(calls("delegate_task", task="Look."))
    parent, run = begin(stage)
    assert (parent.worker, parent.lease_until) == ("", None)
    assert stage.turn().message == runs.CHILDREN_AT_WORK
    assert run.state == Run.State.QUEUED


def test_stopping_the_parent_stops_children_in_every_state(stage, script, owner):
    script(sum_of(calls("delegate_task", task=f"Part {n}") for n in range(4)))
    begin(stage)
    at_work = runs.claim(Run.objects.filter(trigger="delegation").first().pk, "w")
    actions.stop_turn(conversation=stage.conversation, user=owner)
    states = Run.objects.filter(trigger="delegation").values_list("state", flat=True)
    assert sorted(states) == ["running", "stopped", "stopped"]
    at_work.run.refresh_from_db()
    assert at_work.run.stop_requested_by == owner
    at_work.interrupt.stop(RunStoppedByUser())  # as the flag reaches its worker
    tasks.play_held(at_work, stage.choice)
    assert not Run.objects.filter(state__in=Run.OPEN).exists()
    turns = Turn.objects.filter(conversation__parent=stage.conversation)
    assert {turn.state for turn in turns} == {"stopped"}
    assert turns.count() == 4


def test_a_child_that_is_stopped_alone_leaves_its_parent_at_work(stage, script, owner):
    script(calls("delegate_task", task="Look."), says("It was stopped."))
    begin(stage)
    actions.stop_turn(conversation=child().conversation, user=owner)
    play_all(stage)
    result = stage.last(Entry.Kind.TOOL_RESULT)
    assert result["error"]["code"] == "delegation_stopped"
    assert stage.last()["text"] == "It was stopped."


def test_a_first_request_that_overflows_is_a_failed_delegation_with_its_text(
    stage, script
):
    too_long = raises(ContextOverflow("The request has 300000 tokens."))
    script(calls("delegate_task", task="Look."), too_long, says("It failed."))
    run = start(stage)
    assert run.state == Run.State.FINISHED
    result = stage.last(Entry.Kind.TOOL_RESULT)
    assert not result["ok"]
    assert result["error"]["code"] == "delegation_failed"
    assert "300000 tokens" in result["error"]["message"]
    assert child().run.state == Run.State.FAILED


def test_a_limit_of_rounds_ends_with_a_report_and_its_reason(stage, script):
    provider = script(
        calls("delegate_task", task="Look.", rounds=2),
        calls("glob", pattern="*"),
        calls("glob", pattern="*.md"),
        says("This far I came."),
        says("."),
    )
    start(stage)
    output = stage.last(Entry.Kind.TOOL_RESULT)["output"]
    assert "reason: the limit of 2 rounds" in output
    assert output.endswith("This far I came.")
    said = provider.requests[2].prompt.messages[-1].text
    assert said == "[budget] 1 of your 2 tool rounds is left."


@pytest.mark.parametrize(
    ("rounds", "marks"),
    [(50, [25, 40, 48, 49]), (10, [5, 8, 9]), (3, [1, 2]), (2, [1]), (1, [])],
)
def test_a_child_is_reminded_at_half_at_four_fifths_and_before_the_end(rounds, marks):
    told = [used for used in range(60) if budget.notice(used, rounds)]
    assert told == sorted({*marks})


def test_a_child_follows_the_approval_level_of_its_parent(stage, script, owner):
    script(
        calls("delegate_task", task="Write."),
        calls("write_file", path="a.txt", content="x"),
        says("I may not."),
        says("."),
    )
    begin(stage)
    mode_actions.set_level(conversation=stage.conversation, user=owner, level="plan")
    play_all(stage)
    assert child().run.tool_calls.get().outcome["error"]["code"] == "denied"
    assert not (stage.conversation.root / "a.txt").exists()


def test_what_a_child_asks_shows_in_its_parents_page_and_is_answered_there(
    stage, script, client, owner
):
    script(
        calls("delegate_task", task="Ask."),
        calls("ask_user", questions=[{"question": "Which one?"}]),
        says("The first."),
        says("Done."),
    )
    stage.post("Do it.")
    play_all(stage)
    [wait] = queries.open_waits(stage.conversation)
    assert wait.run == child().run
    client.force_login(owner)
    where = [stage.conversation.workspace.slug, stage.conversation.pk]
    page = client.get(reverse("agents:waits", args=where)).content.decode()
    assert "Which one?" in page
    answered = client.post(
        reverse("agents:answer", args=[*where, wait.pk]), {"text-0": "The first"}
    )
    assert answered.status_code == 302
    play_all(stage)
    assert stage.last()["text"] == "Done."


def test_nobody_writes_into_a_childs_conversation(stage, script, owner):
    script(calls("delegate_task", task="Look."), says("Seen."), says("."))
    start(stage)
    conversation = child().conversation
    with pytest.raises(Conflict, match="works for"):
        actions.post_message(
            conversation=conversation, author=owner, text="Hi", client_id="1"
        )
    with pytest.raises(Conflict):
        actions.retry_turn(conversation=conversation, user=owner, to_seq=3)
    with pytest.raises(Conflict):
        mode_actions.set_level(conversation=conversation, user=owner, level="auto")


def test_an_outsider_sees_neither_a_private_parent_nor_its_children(
    stage, script, owner, member
):
    private = actions.start_conversation(
        workspace=stage.conversation.workspace, author=owner, private=True
    )
    stage.conversation = private
    script(calls("delegate_task", task="Look."), says("Seen."), says("."))
    start(stage)
    seen = Conversation.objects.visible_to(member)
    assert child().conversation not in seen
    private.invited.add(member)
    assert child().conversation in Conversation.objects.visible_to(member)
    Conversation.objects.filter(pk=private.pk).update(deleted_at=timezone.now())
    assert child().conversation not in Conversation.objects.visible_to(owner)


def test_a_lean_child_has_the_root_rules_alone(stage, script, workspace, owner):
    (workspace.root / "AGENTS.md").write_text("Root rules.")
    (workspace.root / "src").mkdir()
    (workspace.root / "src" / "AGENTS.md").write_text("Rules of the folder.")
    (workspace.root / ".bob" / "rules").mkdir(parents=True)
    (workspace.root / ".bob" / "rules" / "a.md").write_text("Rules of the mode.")
    stage.conversation = actions.start_conversation(workspace=workspace, author=owner)
    provider = script(calls("delegate_task", task="Look."), says("Seen."), says("."))
    start(stage)
    above, below = (one.prompt.messages[0].text for one in provider.requests[:2])
    assert "Rules of the folder." in above
    assert "Root rules." in below
    assert "Rules of the" not in below


def test_a_full_child_begins_with_the_very_bytes_of_its_parent(stage, script, owner):
    save_settings(
        by=owner,
        scope=stage.conversation.workspace,
        values={"agents.childContext": "full"},
    )
    provider = script(
        calls("delegate_task", task="Look.", agent="explore"),
        calls("write_file", path="a.txt", content="x"),
        says("Seen."),
        says("."),
    )
    start(stage)
    above, below = provider.requests[:2]
    assert below.prompt.tools == above.prompt.tools
    assert below.prompt.system == above.prompt.system
    assert below.prompt.messages[0] == above.prompt.messages[0]
    assert "You look for things." in first_message(below)
    assert child().run.tool_calls.get().outcome["error"]["code"] == "denied"


def test_a_childs_end_that_went_unsaid_is_found_by_a_sweep(stage, script):
    script(calls("delegate_task", task="Look."))
    parent, run = begin(stage)
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED, message="Gone.")
    sweeper.sweep()
    parent.refresh_from_db()
    assert parent.state == Run.State.QUEUED
    assert Wait.objects.get(run=parent).outcome == Wait.Outcome.ANSWERED


def test_a_child_whose_worker_is_lost_too_often_fails_and_wakes_its_parent(
    stage, script
):
    script(calls("delegate_task", task="Look."), says("It was lost."))
    parent, run = begin(stage)
    for _ in range(sweeper.MAX_RESTARTS + 1):
        assert runs.claim(run.pk, "a worker that dies")
        Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - HOUR)
        sweeper.sweep()
    play_all(stage)
    result = stage.last(Entry.Kind.TOOL_RESULT)
    assert result["error"]["code"] == "delegation_failed"
    assert stage.last()["text"] == "It was lost."


def test_a_parent_that_is_lost_goes_on_and_makes_no_second_child(stage, script):
    script(calls("delegate_task", task="Look."), says("Seen."), says("Done."))
    stage.post("Do it.")
    hold = stage.claim()
    receive_only(stage, hold)
    calls_open = list(hold.run.tool_calls.all())
    with pytest.raises(RunWaiting):
        answer_calls(hold, calls_open)
    Run.objects.filter(pk=hold.run.pk).update(lease_until=timezone.now() - HOUR)
    sweeper.sweep()
    play_all(stage)
    assert Delegation.objects.count() == 1
    assert stage.last()["text"] == "Done."


def receive_only(stage: Any, hold: Any) -> None:
    """Ask the model once, as the loop does, and die before its calls are answered."""
    play_round(hold, stage.choice, FRESH)


def test_siblings_wait_for_the_first_byte_of_the_first_one(stage, script):
    script(sum_of(calls("delegate_task", task=f"Part {n}") for n in range(2)))
    begin(stage)
    first, second = Delegation.objects.order_by("pk")
    hold = runs.claim(second.run_id, "a worker")
    began = time.monotonic()
    warming.answered(first.run)
    warming.wait_for_first(hold)
    assert time.monotonic() - began < 1
    first.refresh_from_db()
    assert first.warmed_at


def test_a_slow_first_sibling_holds_the_others_up_for_a_while_only(
    stage, script, monkeypatch
):
    monkeypatch.setattr(warming, "WARM_SECONDS", 0.3)
    script(sum_of(calls("delegate_task", task=f"Part {n}") for n in range(2)))
    begin(stage)
    second = Delegation.objects.order_by("pk").last()
    hold = runs.claim(second.run_id, "a worker")
    began = time.monotonic()
    warming.wait_for_first(hold)
    assert 0.05 < time.monotonic() - began < 2


def test_a_child_with_another_model_or_effort_is_a_warning(stage, script, workspace):
    model = seed_simulator()
    other = LanguageModel.objects.create(endpoint=model.endpoint, name="other")
    Agent.objects.create(
        workspace=workspace,
        name="scout",
        title="Scout",
        language_model=other,
        effort="low",
    )
    script(
        calls("delegate_task", task="Look.", agent="scout"), says("Seen."), says(".")
    )
    start(stage)
    warnings = " / ".join(child().warnings)
    assert "it works with other" in warnings
    assert "its effort is low" in warnings


def test_the_parents_log_tells_of_its_children(stage, script):
    script(calls("delegate_task", task="Look."), says("Seen."), says("."))
    run = start(stage)
    records = Record.objects.filter(run=run, kind__startswith="child.")
    started, finished = records.order_by("seq")
    assert started.kind == "child.started"
    assert started.data["child_run"] == str(child().run_id)
    assert finished.data["state"] == "finished"
    assert finished.data["tokens_in"] == child().run.tokens_in


def test_a_childs_searches_and_loads_are_logged_under_the_child(stage, script):
    script(
        calls("delegate_task", task="Look."),
        calls("tool_search", query="select:list_dir"),
        calls("list_dir", path="."),
        says("Seen."),
        says("."),
    )
    run = start(stage)
    assert not Record.objects.filter(run=run, kind="tool.loaded").exists()
    [loaded] = Record.objects.filter(run=child().run, kind="tool.loaded")
    assert "[harness] loaded 1 deferred tool(s) via tool_search" in loaded.text


def test_tokens_and_cost_of_children_count_once_to_the_turn_of_people(stage, script):
    script(
        calls("delegate_task", task="One"),
        calls("delegate_task", task="Two"),
        says("Two is done."),
        says("One is done."),
        says("Done."),
    )
    run = start(stage)
    assert (run.tokens_in, run.tokens_out) == (200, 20)  # its own calls alone
    shown = queries.turn_figures([run.turn_id])[run.turn_id]
    assert (shown.tokens_in, shown.tokens_out) == (500, 50)
    assert shown.rounds == 2
    report = stage.last(Entry.Kind.TOOL_RESULT)["meta"]["child"]
    assert (report["tokens_in"], report["tokens_out"]) == (300, 30)


def test_a_childs_page_shows_its_task_and_leads_back(stage, script, client, owner):
    script(calls("delegate_task", task="Look around."), says("Seen."), says("."))
    start(stage)
    client.force_login(owner)
    page = client.get(child().conversation.get_absolute_url()).content.decode()
    assert "Look around." in page
    assert stage.conversation.get_absolute_url() in page
    assert 'id="composer"' not in page


def test_children_at_work_show_as_a_tree_with_their_progress(
    stage, script, client, owner
):
    script(calls("delegate_task", task="Outer."), calls("delegate_task", task="Inner."))
    begin(stage)
    hold = runs.claim(child().run_id, "a worker")
    tasks.play_held(hold, stage.choice)
    client.force_login(owner)
    where = [stage.conversation.workspace.slug, stage.conversation.pk]
    page = client.get(
        reverse("agents:children", args=where), headers={"Sec-Fetch-Mode": "cors"}
    ).content.decode()
    [card] = cards_of(stage.conversation)
    assert (card.state, card.rounds, card.tool) == ("waiting", 1, "delegate_task")
    assert [one.delegation.title for one in card.below] == ["Inner."]
    assert 'data-for="call_1"' in page
    assert page.index("Outer.") < page.index("Inner.")
    assert card.delegation.conversation.get_absolute_url() in page


def test_the_run_log_shows_children_below_their_parent(stage, script, client, owner):
    script(
        calls("delegate_task", task="Outer."),
        calls("delegate_task", task="Inner."),
        says("In."),
        says("Out."),
        says("."),
    )
    run = start(stage)
    client.force_login(owner)
    slug = stage.conversation.workspace.slug
    listed = client.get(reverse("observability:home")).context["runs"]
    assert [one.depth for one in listed] == [0, 1, 2]
    page = client.get(reverse("observability:run", args=[slug, run.pk])).content
    assert b"Outer." in page
    assert b"Inner." in page
    below = child().run
    assert str(run.pk) not in client.get(
        reverse("observability:run", args=[slug, below.pk])
    ).content.decode().replace(str(below.pk), "")


def test_skills_and_notes_of_the_context_stand_in_the_first_message(
    stage, script, owner
):
    folder = stage.conversation.root / ".agents" / "skills" / "sums"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: sums\ndescription: Adds up.\n---\nCarry the one."
    )
    note = Memory.objects.create(
        workspace=stage.conversation.workspace,
        scope=Memory.Scope.WORKSPACE,
        text="The total is in euros.",
    )
    given = {"skills": ["sums"], "memory": [f"mem:{note.pk}", "zebra"]}
    provider = script(
        calls("delegate_task", task="Add.", context=given), says("Five."), says(".")
    )
    start(stage)
    said = first_message(provider.requests[1])
    assert "Carry the one." in said
    assert "The total is in euros." in said


def test_a_task_in_the_background_reports_by_a_notice_before_the_turn_ends(
    stage, script
):
    provider = script(
        calls("agent", task="Count.", background=True),
        says("I wait for the count."),
        says("There are three."),
        says("Three, it says."),
    )
    stage.post("Do it.")
    parent = stage.play()
    assert parent.state == Run.State.WAITING
    assert "in the background" in stage.last(Entry.Kind.TOOL_RESULT)["output"]
    play_all(stage)
    assert stage.last()["text"] == "Three, it says."
    assert "There are three." in provider.requests[-1].prompt.messages[-1].text
    parent.refresh_from_db()
    assert parent.state == Run.State.FINISHED


def test_who_speaks_meanwhile_is_heard_before_the_background_ends(stage, script):
    script(
        calls("agent", task="Count.", background=True),
        says("I wait."),
        says("Still waiting."),
        says("Three."),
        says("Three, it says."),
    )
    stage.post("Do it.")
    parent = stage.play()
    stage.post("How far is it?")
    parent.refresh_from_db()
    assert parent.state == Run.State.QUEUED
    stage.play()
    assert stage.last()["text"] == "Still waiting."
    play_all(stage)
    assert stage.last()["text"] == "Three, it says."


def test_a_task_in_the_background_is_listed_and_stopped_by_its_number(stage, script):
    def stop(prompt: Any) -> Any:
        return calls("task_stop", id=child().pk)

    script(
        calls("agent", task="Count.", background=True),
        calls("list_agents"),
        stop,
        says("Stopped."),
    )
    run = start(stage)
    results = [one["output"] for one in stage.entries(Entry.Kind.TOOL_RESULT)]
    assert f"- task {child().pk}, general: Count. (queued, round 0 of 50)" in results[1]
    assert child().run.state == Run.State.STOPPED
    assert run.state == Run.State.FINISHED


def test_nobody_stops_a_task_that_is_not_its_own(stage, script):
    script(calls("task_stop", id=999), says("."))
    start(stage)
    assert stage.last(Entry.Kind.TOOL_RESULT)["error"]["code"] == "not_found"
