"""A run is a loop of rounds, and each way it can go is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agents import runs, sweeper, tasks
from agents.actions import edit_and_resend, retry_turn, stop_turn, withdraw_queued
from agents.answer_actions import answer_wait
from agents.errors import (
    ContextOverflow,
    ProviderAuthFailed,
    ProviderUnavailable,
    RunReleased,
    RunStoppedByUser,
)
from agents.mode_actions import set_level
from agents.models import ModelCall, Run, ToolCall, Wait
from agents.providers.scripted import Step, calls, calls_with, raises, says
from workspace.errors import BadInput, Conflict, LeaseLost, NotAllowed
from workspace.models import Entry, QueuedMessage, Turn

pytestmark = pytest.mark.django_db


def test_an_answer_ends_the_run_and_its_turn(script, start_turn, stage):
    provider = script(says("Hello there."))
    run = start_turn("Hi")
    assert run.state == Run.State.FINISHED
    assert stage.turn().state == Turn.State.FINISHED
    assert stage.last()["text"] == "Hello there."
    assert len(provider.requests) == 1


def test_a_file_is_read_and_its_text_reaches_the_model(
    script, start_turn, stage, workspace
):
    (workspace.root / "README.md").write_text("# Harbour\nSix boats.\n")
    provider = script(calls("read_file", path="README.md"), says("Six boats."))
    run = start_turn("What is in README.md?")
    assert run.state == Run.State.FINISHED
    assert "Six boats." in provider.requests[1].prompt.messages[-1].text
    assert stage.last("tool_result")["ok"]


def test_every_request_extends_the_one_before(script, start_turn, workspace):
    (workspace.root / "a.txt").write_text("one\n")
    provider = script(
        calls("read_file", path="a.txt"),
        calls("list_dir", path=".") + calls("read_file", path="a.txt"),
        says("Done."),
    )
    start_turn("Look around")
    earlier, later = provider.requests[0].body, provider.requests[1].body
    assert later.startswith(earlier[: earlier.rindex(b"]")])
    assert len({one.declared_tools_digest for one in provider.requests}) == 1


def test_results_stand_in_call_order_whatever_ends_first(script, start_turn, stage):
    script(
        calls("shell", command="sleep 0.2; echo slow") + calls("list_dir", path="."),
        says("Done."),
    )
    start_turn("Both, please")
    assert [one["name"] for one in stage.entries("tool_result")] == [
        "shell",
        "list_dir",
    ]


def test_an_unknown_tool_is_answered_with_the_nearest_names(script, start_turn, stage):
    script(calls("reed_file", path="x"), says("Sorry."))
    start_turn("Go")
    error = stage.last("tool_result")["error"]
    assert error["code"] == "unknown_tool"
    assert "read_file" in error["message"]


def test_arguments_that_do_not_fit_come_back_with_the_schema(script, start_turn, stage):
    script(calls_with("read_file", '{"pth": 3'), says("Sorry."))
    start_turn("Go")
    error = stage.last("tool_result")["error"]
    assert error["code"] == "bad_arguments"
    assert '"path"' in error["message"]


def test_malformed_arguments_three_times_in_a_row_fail_the_run(
    script, start_turn, stage
):
    script(*[calls_with("read_file", "not json")] * 3)
    run = start_turn("Go")
    assert run.state == Run.State.FAILED
    assert "3 times in a row" in stage.turn().message


def test_a_message_posted_while_the_model_answers_is_heard_before_the_end(
    script, stage
):
    def interject() -> None:
        stage.post("And in Korean, please")

    provider = script(
        Step(text="Hello.", before=interject),
        says("안녕하세요."),
    )
    stage.post("Say hello")
    run = stage.play()
    assert run.state == Run.State.FINISHED
    said = [message.text for message in provider.requests[1].prompt.messages]
    assert said[-2:] == ["Hello.", "And in Korean, please"]
    assert stage.conversation.turns.count() == 1


def test_a_queued_message_becomes_the_next_turn_when_the_first_ends(script, stage):
    def queue() -> None:
        stage.post("Second", when="queue")

    provider = script(Step(text="One.", before=queue), says("Two."))
    stage.post("First")
    stage.play()
    assert len(provider.requests) == 1
    stage.play()
    assert stage.last()["text"] == "Two."
    assert stage.conversation.turns.count() == 2


def test_a_queued_message_can_be_taken_back_by_its_author_only(
    script, stage, owner, member
):
    script(says("One."))
    stage.post("First")
    queued = stage.post("Second", when="queue").queued
    with pytest.raises(NotAllowed):
        withdraw_queued(queued=queued, user=member)
    withdraw_queued(queued=queued, user=owner)
    stage.play()
    assert not Run.objects.filter(state=Run.State.QUEUED).exists()
    with pytest.raises(Conflict):
        withdraw_queued(queued=QueuedMessage.objects.get(), user=owner)


def test_the_same_message_posted_twice_is_one_message_and_one_run(script, stage):
    first = stage.post("Hi", client_id="abc")
    second = stage.post("Hi", client_id="abc")
    assert second.duplicate
    assert second.entry.pk == first.entry.pk
    assert Run.objects.count() == 1


def test_a_viewer_cannot_post_and_an_outsider_does_not_learn_of_it(
    stage, viewer, outsider
):
    from workspace.errors import NotVisible

    with pytest.raises(NotAllowed):
        stage.post("Hi", author=viewer)
    with pytest.raises(NotVisible):
        stage.post("Hi", author=outsider)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_message_is_refused_with_a_sentence(stage, text):
    with pytest.raises(BadInput, match="empty"):
        stage.post(text)


def test_a_question_holds_no_worker_and_its_answer_reaches_the_model(
    script, start_turn, stage, owner
):
    question = {
        "question": "Which colour?",
        "options": ["Red", "Blue"],
    }
    provider = script(calls("ask_user", questions=[question]), says("Blue it is."))
    run = start_turn("Paint it")
    assert run.state == Run.State.WAITING
    assert run.lease_until is None
    wait = Wait.objects.get()
    answer_wait(
        wait=wait, user=owner, answer={"answers": [{"chosen": ["Blue"], "text": ""}]}
    )
    run = stage.play()
    assert run.state == Run.State.FINISHED
    assert "Blue" in provider.requests[1].prompt.messages[-1].text


def test_who_answers_second_is_told_who_was_first(script, start_turn, owner, admin):
    question = {
        "question": "Go?",
        "options": ["Yes", "No"],
    }
    script(calls("ask_user", questions=[question]))
    start_turn("Ask")
    wait = Wait.objects.get()
    answer = {"answers": [{"chosen": ["Yes"], "text": ""}]}
    answer_wait(wait=wait, user=admin, answer=answer)
    with pytest.raises(Conflict, match="admin"):
        answer_wait(wait=wait, user=owner, answer=answer)


def ask_for_shell(workspace: Any) -> None:
    workspace.permission_rules = {"ask": ["shell"]}
    workspace.save()


def test_an_approved_call_runs_once_with_its_own_arguments(
    script, stage, workspace, owner
):
    ask_for_shell(workspace)
    script(calls("shell", command="echo hi >> out.txt"), says("Done."))
    stage.post("Write")
    assert stage.play().state == Run.State.WAITING
    assert not (workspace.root / "out.txt").exists()
    answer_wait(wait=Wait.objects.get(), user=owner, answer={"decision": "once"})
    assert stage.play().state == Run.State.FINISHED
    assert (workspace.root / "out.txt").read_text() == "hi\n"


def test_a_denial_and_its_reason_reach_the_model(script, stage, workspace, owner):
    ask_for_shell(workspace)
    script(calls("shell", command="rm -rf ."), says("I will not."))
    stage.post("Clean")
    stage.play()
    answer_wait(
        wait=Wait.objects.get(),
        user=owner,
        answer={"decision": "deny", "reason": "too broad"},
    )
    stage.play()
    assert "too broad" in stage.last("tool_result")["error"]["message"]
    noted = workspace.changes.get(action="call.denied")
    assert (noted.by, noted.subject) == (owner, "shell")
    assert noted.new["reason"] == "too broad"


def test_an_approval_is_never_spent_by_a_later_call(script, stage, workspace, owner):
    ask_for_shell(workspace)
    script(
        calls_with("shell", '{"command": "echo 1"}', call_id="same"),
        calls_with("shell", '{"command": "echo 2"}', call_id="same"),
    )
    stage.post("Twice")
    stage.play()
    answer_wait(wait=Wait.objects.get(), user=owner, answer={"decision": "once"})
    assert stage.play().state == Run.State.WAITING
    assert Wait.objects.filter(outcome="").count() == 1


def test_allowing_for_the_conversation_covers_the_same_command_only(
    script, stage, workspace, owner
):
    ask_for_shell(workspace)
    workspace.permission_rules = {}
    workspace.network = True  # not confined: exec is asked
    workspace.save()
    script(
        calls("shell", command="git status"),
        calls("shell", command="git status --short"),
        calls("shell", command="git status; rm -rf ."),
    )
    stage.post("Status")
    stage.play()
    answer_wait(
        wait=Wait.objects.get(), user=owner, answer={"decision": "conversation"}
    )
    assert stage.play().state == Run.State.WAITING
    waiting = Wait.objects.get(outcome="")
    assert "rm -rf" in waiting.payload["arguments"]


def test_a_member_cannot_write_a_rule_for_always(script, stage, workspace, member):
    ask_for_shell(workspace)
    script(calls("shell", command="ls"))
    stage.post("List", author=member)
    stage.play()
    with pytest.raises(NotAllowed):
        answer_wait(wait=Wait.objects.get(), user=member, answer={"decision": "always"})


def test_the_level_plan_refuses_what_would_change_files(
    script, stage, owner, conversation, workspace
):
    set_level(conversation=conversation, user=owner, level="plan")
    script(calls("write_file", path="a.txt", content="x"), says("Only a plan then."))
    stage.post("Write")
    stage.play()
    assert stage.last("tool_result")["error"]["code"] == "denied"
    assert not (workspace.root / "a.txt").exists()


def test_a_wait_that_expires_counts_as_denied(script, stage, workspace, settings):
    ask_for_shell(workspace)
    settings.WAIT_TIMEOUT_SECONDS = -1
    script(calls("shell", command="ls"), says("Nobody was there."))
    stage.post("List")
    stage.play()
    sweeper.sweep()
    assert stage.play().state == Run.State.FINISHED
    assert stage.last("tool_result")["error"]["code"] == "approval_expired"


def test_stopping_while_the_model_speaks_keeps_the_text_so_far(script, stage, owner):
    script(raises(RunStoppedByUser(), after="So far so"))
    stage.post("Talk")
    run = stage.play()
    assert run.state == Run.State.STOPPED
    assert stage.last()["text"] == "So far so"
    assert stage.last()["stopped"] is True


def test_a_waiting_run_is_stopped_at_once_and_its_calls_are_answered(
    script, stage, workspace, owner, conversation
):
    ask_for_shell(workspace)
    script(calls("shell", command="ls"))
    stage.post("List")
    stage.play()
    stop_turn(conversation=conversation, user=owner)
    assert stage.turn().state == Turn.State.STOPPED
    assert stage.last("tool_result")["error"]["code"] == "not_run"
    assert Wait.objects.get().outcome == Wait.Outcome.CANCELLED
    with pytest.raises(Conflict):
        answer_wait(wait=Wait.objects.get(), user=owner, answer={"decision": "once"})


def test_the_next_message_works_after_a_stop(script, stage, owner, conversation):
    stage.post("One")
    stop_turn(conversation=conversation, user=owner)
    script(says("Two."))
    stage.post("Two")
    assert stage.play().state == Run.State.FINISHED


def test_stopping_when_nothing_runs_says_so(conversation, owner):
    with pytest.raises(Conflict, match="Nothing is running"):
        stop_turn(conversation=conversation, user=owner)


def test_a_member_cannot_stop_the_turn_of_another(stage, conversation, member):
    stage.post("One")
    with pytest.raises(NotAllowed):
        stop_turn(conversation=conversation, user=member)


@pytest.mark.parametrize(
    "error",
    [
        ProviderAuthFailed("The key of X is not accepted. Enter a new one."),
        ContextOverflow("The request is larger than the window of X."),
    ],
)
def test_a_fault_that_stays_fails_the_run_with_its_sentence(
    script, start_turn, stage, error
):
    script(raises(error))
    assert start_turn("Hi").state == Run.State.FAILED
    assert stage.turn().message.startswith(error.message)


def test_a_failed_turn_does_not_block_the_next_message(script, start_turn):
    script(raises(ProviderAuthFailed("No.")), says("Yes."))
    start_turn("One")
    assert start_turn("Two").state == Run.State.FINISHED


def test_a_long_retry_after_holds_no_worker(script, stage):
    script(raises(ProviderUnavailable("Busy.", retry_after=900)), says("Back."))
    stage.post("Hi")
    assert stage.play().state == Run.State.WAITING
    Wait.objects.update(deadline="2020-01-01T00:00:00Z")
    sweeper.sweep()
    assert stage.play().state == Run.State.FINISHED


def test_an_empty_answer_fails_with_a_sentence(script, start_turn, stage):
    script(says(""))
    assert start_turn("Hi").state == Run.State.FAILED
    assert "empty answer" in stage.turn().message


def test_the_limit_of_rounds_asks_for_a_report_without_tools(script, stage):
    agent = stage.conversation.workspace.agents.get()
    agent.max_rounds = 1
    agent.save()
    script(calls("list_dir", path="."), calls("list_dir", path=".") + says("Report."))
    stage.post("Go on for ever")
    assert stage.play().state == Run.State.FINISHED
    assert stage.last()["text"] == "Report."
    assert len(stage.entries("tool_result")) == 1


def test_an_old_fence_can_write_nothing(script, stage):
    script(says("Late."))
    stage.post("Hi")
    old = stage.claim()
    Run.objects.update(lease_until="2020-01-01T00:00:00Z")
    sweeper.sweep()
    with pytest.raises(LeaseLost):
        old.guard()
    tasks.play_held(old, stage.choice)
    assert stage.entries("assistant") == []


def test_a_lost_worker_is_replaced_and_a_stored_round_is_not_asked_again(
    script, stage, workspace
):
    provider = script(calls("list_dir", path="."), says("Done."))
    stage.post("Look")
    hold = stage.claim()
    from agents.context.assemble import assemble, items_of
    from agents.receive import receive

    items = hold.items = items_of(hold.run.conversation)
    model = stage.choice.language_model
    receive(
        hold, stage.choice, assemble(items, provider=provider, language_model=model)
    )
    Run.objects.update(lease_until="2020-01-01T00:00:00Z")
    sweeper.sweep()
    assert stage.play().state == Run.State.FINISHED
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("shell", {"command": "echo again >> log.txt"}, "interrupted"),
        ("list_dir", {"path": "."}, None),
    ],
)
def test_a_call_caught_in_the_middle_is_repeated_only_if_that_is_harmless(
    script, stage, workspace, tool, arguments, code
):
    script(calls(tool, **arguments), says("Done."))
    stage.post("Go")
    hold = stage.claim()
    from agents.context.assemble import assemble, items_of
    from agents.receive import receive

    items = hold.items = items_of(hold.run.conversation)
    model = stage.choice.language_model
    receive(
        hold,
        stage.choice,
        assemble(items, provider=stage.provider, language_model=model),
    )
    ToolCall.objects.update(
        state=ToolCall.State.STARTED, started_at=hold.run.created_at
    )
    Run.objects.update(lease_until="2020-01-01T00:00:00Z")
    sweeper.sweep()
    stage.play()
    error = stage.last("tool_result")["error"]
    assert (error and error["code"]) == code
    assert not (workspace.root / "log.txt").exists()


def test_a_round_that_loses_its_worker_too_often_fails_the_run(script, stage):
    stage.post("Hi")
    for _ in range(sweeper.MAX_RESTARTS + 1):
        stage.claim()
        Run.objects.update(lease_until="2020-01-01T00:00:00Z")
        sweeper.sweep()
    assert stage.turn().state == Turn.State.FAILED
    assert "Retry" in stage.turn().message


def test_a_draining_worker_hands_the_run_back_and_another_finishes_it(script, stage):
    script(raises(RunReleased(), after="Half a"), says("Whole."))
    stage.post("Hi")
    assert stage.play().state == Run.State.QUEUED
    assert stage.entries("assistant") == []
    assert stage.play().state == Run.State.FINISHED


def test_a_retry_leaves_the_old_answer_out_of_the_view_and_in_the_transcript(
    script, start_turn, stage, conversation, owner
):
    provider = script(says("Wrong."), says("Right."))
    start_turn("Hi")
    user_seq = stage.conversation.entries.get(kind=Entry.Kind.USER).seq
    retry_turn(conversation=conversation, user=owner, to_seq=user_seq)
    assert stage.play().state == Run.State.FINISHED
    assert "Wrong." not in [m.text for m in provider.requests[1].prompt.messages]
    assert [one["text"] for one in stage.entries("assistant")] == ["Wrong.", "Right."]


def test_an_edited_message_takes_the_place_of_the_old_one(
    script, start_turn, stage, conversation, owner
):
    provider = script(says("Four."), says("Six."))
    start_turn("2+2?")
    seq = stage.conversation.entries.get(kind=Entry.Kind.USER).seq
    edit_and_resend(
        conversation=conversation,
        author=owner,
        to_seq=seq,
        text="3+3?",
        client_id="edited",
    )
    stage.play()
    said = [m.text for m in provider.requests[1].prompt.messages if m.role == "user"]
    assert said[1:] == ["3+3?"]


def test_a_retry_is_refused_while_the_agent_works(stage, conversation, owner):
    posted = stage.post("Hi")
    with pytest.raises(Conflict, match="at work"):
        retry_turn(conversation=conversation, user=owner, to_seq=posted.entry.seq)


def test_what_a_call_used_is_added_to_its_run(script, start_turn):
    script(says("Hi."))
    run = start_turn("Hi")
    call = ModelCall.objects.get()
    assert (run.tokens_in, run.tokens_out) == (100, 10)
    assert call.state == ModelCall.State.COMPLETED
    assert sum(row[3] for row in call.segments) == call.estimated_tokens


def test_a_long_output_is_capped_for_the_model_and_kept_whole(
    script, start_turn, stage
):
    provider = script(
        calls("shell", command="seq 1 20000"),
        lambda prompt: calls("read_file", path=pointer_in(prompt)),
        says("Seen."),
    )
    start_turn("Count")
    result = stage.entries("tool_result")[0]
    assert len(result["output"]) < 31_000
    assert result["output_sha256"]
    assert (
        "10000" in provider.requests[2].prompt.messages[-1].text
        or stage.last("tool_result")["ok"]
    )


def pointer_in(prompt: Any) -> str:
    import re

    found = re.search(r"\.tallyroom/outputs/\w+\.txt", prompt.messages[-1].text)
    assert found, "a capped output says where the rest is"
    return found[0]


def test_a_file_changed_by_somebody_else_is_not_overwritten(
    script, start_turn, stage, workspace
):
    target = workspace.root / "notes.txt"
    target.write_text("mine\n")

    def edited(prompt: Any) -> Step:
        target.write_text("theirs\n")
        return calls("write_file", path="notes.txt", content="agent\n")

    script(calls("read_file", path="notes.txt"), edited, says("I stopped."))
    start_turn("Rewrite notes.txt")
    assert stage.last("tool_result")["error"]["code"] == "stale_file"
    assert target.read_text() == "theirs\n"


def test_arguments_in_another_key_order_have_the_same_hash():
    from agents.calls import hash_of

    one = hash_of("shell", json.dumps({"command": "ls", "timeout": 3}))
    assert one == hash_of("shell", json.dumps({"timeout": 3, "command": "ls"}))
    assert one != hash_of("shell", json.dumps({"command": "ls", "timeout": 4}))


def test_a_run_that_nobody_took_is_rung_for_again(stage, monkeypatch):
    rung: list[Any] = []
    monkeypatch.setattr("agents.doorbell.ring", lambda pk, trigger: rung.append(pk))
    stage.post("Hi")
    Run.objects.update(rung_at="2020-01-01T00:00:00Z")
    sweeper.sweep()
    sweeper.sweep()
    assert rung == [Run.objects.get().pk]
    assert runs.claim(rung[0], "a worker")


def test_a_run_ends_at_its_next_round_when_its_person_is_removed(
    script, stage, workspace, owner, member
):
    from workspace.actions.people import remove_member

    def remove() -> None:
        place = workspace.memberships.get(user=member)
        remove_member(member=place, by=owner)

    provider = script(replace(calls("list_dir", path="."), before=remove))
    stage.post("Look", author=member)
    assert stage.play().state == Run.State.FAILED
    assert "no longer post" in stage.turn().message
    assert len(provider.requests) == 1


def test_a_member_cannot_lift_the_approvals_of_anothers_turn(
    stage, conversation, member, owner
):
    stage.post("Go", author=owner)
    with pytest.raises(NotAllowed):
        set_level(conversation=conversation, user=member, level="auto")
    set_level(conversation=conversation, user=member, level="plan")
    set_level(conversation=conversation, user=owner, level="auto")


def test_who_steers_a_turn_and_leaves_ends_it(script, stage, workspace, owner, member):
    from workspace.actions.people import remove_member

    def steer_and_leave() -> None:
        stage.post("And quickly", author=member)
        remove_member(member=workspace.memberships.get(user=member), by=owner)

    script(replace(calls("list_dir", path="."), before=steer_and_leave))
    stage.post("Look")
    assert stage.play().state == Run.State.FAILED


def test_a_stop_that_comes_with_the_last_word_is_heard(script, stage, owner):
    def stop() -> None:
        stop_turn(conversation=stage.conversation, user=owner)

    script(Step(text="Done.", before=stop))
    stage.post("Go")
    assert stage.play().state == Run.State.STOPPED


def test_whoever_posts_too_fast_is_told_when_to_go_on(owner, settings):
    from agents import actions
    from workspace.errors import TooFast

    settings.POSTS_PER_MINUTE = 2
    actions.check_pace(owner)
    actions.check_pace(owner)
    with pytest.raises(TooFast, match="Wait a moment"):
        actions.check_pace(owner)
