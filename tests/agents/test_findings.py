"""What a hostile reading of the durable core found, each as a test."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import InterfaceError, OperationalError
from django.test import Client
from django.utils import timezone

from agents import permissions, runs, standing, sweeper, worker
from agents.actions import edit_and_resend, retry_turn, start_conversation, stop_turn
from agents.answer_actions import answer_wait
from agents.errors import RightLost
from agents.models import Run, Wait
from agents.providers.base import ToolRequest
from agents.providers.scripted import Step, calls, calls_with, says
from agents.tools.registry import resolve
from workspace.errors import BadInput, Conflict
from workspace.models import Conversation, QueuedMessage

pytestmark = pytest.mark.django_db


def test_a_queued_message_sent_again_as_a_steer_is_still_one_message(script, stage):
    posted = []

    def both_ways() -> None:
        stage.post("Later", when="queue", client_id="same")
        posted.append(stage.post("Later", when="steer", client_id="same"))

    script(Step(text="One.", before=both_ways), says("Two."))
    stage.post("First")
    assert stage.play().state == Run.State.FINISHED
    assert posted[0].duplicate
    assert stage.play().state == Run.State.FINISHED
    assert [body["text"] for body in stage.entries("user")] == ["First", "Later"]


def test_a_queued_message_that_was_said_already_does_not_keep_a_run_from_ending(
    script, stage, owner
):
    """Rows as an older version could leave them."""
    script(says("One."))
    stage.post("First", client_id="same")
    QueuedMessage.objects.create(
        conversation=stage.conversation,
        author=owner,
        client_id="same",
        body={"text": "First"},
    )
    assert stage.play().state == Run.State.FINISHED
    assert len(stage.entries("user")) == 1


def test_one_run_that_cannot_be_swept_does_not_keep_the_others_waiting(
    script, stage, workspace, owner, monkeypatch
):
    stage.post("One")
    hold = stage.claim()
    Run.objects.filter(pk=hold.run.pk).update(
        lease_until=timezone.now() - timedelta(minutes=1)
    )
    stage.conversation = start_conversation(workspace=workspace, author=owner)
    stage.post("Two")
    other = stage.claim()
    Run.objects.filter(pk=other.run.pk).update(
        lease_until=timezone.now() - timedelta(minutes=1)
    )
    recover = sweeper.recover
    seen: list[Any] = []

    def fails_for_one(run: Run, now: Any) -> None:
        seen.append(run.pk)
        if len(seen) == 1:
            raise OperationalError("deadlock detected")
        recover(run, now)

    monkeypatch.setattr(sweeper, "recover", fails_for_one)
    sweeper.sweep()
    assert len(seen) == 2
    assert Run.objects.get(pk=seen[1]).state == Run.State.QUEUED


@pytest.mark.parametrize("fault", [InterfaceError("connection is closed"), KeyError(3)])
def test_a_housekeeping_thread_outlives_any_fault(fault, monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(worker, "_ended", ended)
    times = []

    def work() -> None:
        times.append(1)
        if len(times) == 2:
            ended.set()
        raise fault

    worker._work_on(work, 0.001)
    assert len(times) == 2


def test_the_end_of_an_old_hold_leaves_a_new_one_of_the_same_run_alone(stage):
    stage.post("Go")
    old = stage.claim()
    new = runs.Hold(old.run, old.fence + 1)
    first, second = worker.holding(old), worker.holding(new)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    try:
        assert worker.holds() == [new]
    finally:
        second.__exit__(None, None, None)
    assert worker.holds() == []


def test_a_worker_that_lost_a_run_cuts_short_what_it_still_does(stage, monkeypatch):
    stage.post("Go")
    hold = stage.claim()
    Run.objects.filter(pk=hold.run.pk).update(worker=worker.name())
    with worker.holding(hold):
        monkeypatch.setattr(worker, "_renewed_at", 0.0)
        worker.beat()
        assert not hold.interrupt.stopped
        Run.objects.filter(pk=hold.run.pk).update(fence=hold.fence + 1)
        monkeypatch.setattr(worker, "_renewed_at", -1e9)
        worker.beat()
        assert hold.interrupt.stopped


def test_a_stop_that_was_asked_of_a_lost_worker_is_heard_by_the_next(
    script, stage, owner
):
    provider = script(says("Too late."))
    stage.post("Go")
    hold = stage.claim()
    stop_turn(conversation=stage.conversation, user=owner)
    runs.release(hold)
    run = stage.play()
    assert run.state == Run.State.STOPPED
    assert provider.requests == []


def test_a_lease_far_in_the_future_is_brought_back(stage):
    """The clock was ahead when a worker died, and is right again."""
    stage.post("Go")
    hold = stage.claim()
    Run.objects.filter(pk=hold.run.pk).update(
        lease_until=timezone.now() + timedelta(hours=3)
    )
    sweeper.sweep()
    run = Run.objects.get(pk=hold.run.pk)
    assert run.lease_until is not None
    assert run.lease_until <= runs.lease_end()


def test_a_run_rung_for_in_the_future_is_rung_for_again(stage):
    stage.post("Go")
    Run.objects.update(rung_at=timezone.now() + timedelta(hours=3))
    sweeper.sweep()
    run = Run.objects.get()
    assert run.rung_at is not None
    assert run.rung_at <= timezone.now()


def test_a_database_that_goes_away_does_not_fail_the_run(
    real_transactions, script, stage
):
    def goes_away() -> None:
        raise OperationalError("server closed the connection unexpectedly")

    script(Step(text="", before=goes_away), says("Here again."))
    stage.post("Go")
    run = stage.play()
    assert run.state == Run.State.RUNNING
    sweeper.sweep()
    assert stage.play().state == Run.State.FINISHED


def test_nobody_retries_a_message_that_was_left_behind(script, stage, owner):
    script(says("A."), says("B."), says("C."))
    first = stage.post("One").entry.seq
    stage.play()
    second = stage.post("Two").entry.seq
    stage.play()
    retry_turn(conversation=stage.conversation, user=owner, to_seq=first)
    stage.play()
    with pytest.raises(Conflict):
        retry_turn(conversation=stage.conversation, user=owner, to_seq=second)
    with pytest.raises(Conflict):
        edit_and_resend(
            conversation=stage.conversation,
            author=owner,
            to_seq=second,
            text="Zwei",
            client_id=uuid4().hex,
        )


def test_a_person_who_was_deactivated_has_nothing_more_done(stage, member):
    stage.post("Go", author=member)
    hold = stage.claim()
    type(member).objects.filter(pk=member.pk).update(is_active=False)
    with pytest.raises(RightLost):
        standing.check_rights(hold.run)


def test_a_workspace_that_was_deleted_has_nothing_more_done(stage, workspace):
    stage.post("Go")
    hold = stage.claim()
    type(workspace).objects.filter(pk=workspace.pk).update(deleted_at=timezone.now())
    with pytest.raises(RightLost):
        standing.check_rights(hold.run)


def test_a_conversation_that_was_hidden_has_nothing_more_done(stage):
    stage.post("Go")
    hold = stage.claim()
    Conversation.objects.filter(pk=stage.conversation.pk).update(
        deleted_at=timezone.now()
    )
    with pytest.raises(RightLost):
        standing.check_rights(hold.run)


def test_a_rule_made_during_the_run_holds_for_its_next_call(script, stage, workspace):
    def forbid() -> None:
        type(workspace).objects.filter(pk=workspace.pk).update(
            permission_rules={"deny": ["shell(echo)"]}
        )

    script(
        Step(
            tool_calls=(ToolRequest("c1", "shell", '{"command": "echo hi"}'),),
            before=forbid,
        ),
        says("Done."),
    )
    stage.post("Go")
    stage.play()
    assert stage.last("tool_result")["error"]["code"] == "denied"


def test_a_rule_about_a_tool_that_is_gone_fails_no_run(script, start_turn, workspace):
    type(workspace).objects.filter(pk=workspace.pk).update(
        permission_rules={"allow": ["renamed_tool(x)"], "deny": ["also_gone"]}
    )
    script(calls("list_dir", path="."), says("Done."))
    assert start_turn("Go").state == Run.State.FINISHED


HOSTILE = "a\x00b\ud800c"


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(says(f"Text {HOSTILE}"), id="text"),
        pytest.param(Step(text="x", reasoning=HOSTILE), id="reasoning"),
    ],
)
def test_an_answer_with_characters_that_no_database_holds_is_stored(
    step, script, start_turn
):
    script(step)
    assert start_turn("Go").state == Run.State.FINISHED


@pytest.mark.parametrize(
    ("name", "arguments", "call_id"),
    [
        ("read_file", json.dumps({"path": "a"}) + HOSTILE, ""),
        ("read_file", '{"path": "a\\u0000b"}', ""),
        ("read_file", '{"path": "a\\ud800b"}', ""),
        ("shell", '{"command": "printf \'a\\\\000b\\\\377\'"}', ""),
        ("shell", '{"command": "echo \\u0000 \\ud800"}', ""),
        ("execute_code", '{"code": "print(chr(0), chr(1))"}', ""),
        ("ask_user", json.dumps({"questions": [{"question": HOSTILE}]}), ""),
        (HOSTILE, "{}", ""),
        ("x" * 5000, "{}", ""),
        ("read_file", '{"path": "a"}', HOSTILE),
        ("read_file", '{"path": "a"}', "i" * 5000),
        ("read_file", '{"' + "k" * 2_000_000 + '": 1}', ""),
        ("write_file", json.dumps({"path": "a", "content": "x" * 3_000_000}), ""),
        ("read_file", "[" * 100_000, ""),
        ("read_file", '{"path": ' + "9" * 10_000 + "}", ""),
        ("read_file", '{"path": "a", "offset": 1e400}', ""),
        ("read_file", '{"path": "a", "offset": NaN}', ""),
        ("todo_write", '{"todos": NaN}', ""),
    ],
)
def test_no_call_of_a_model_breaks_the_run(
    name, arguments, call_id, script, start_turn, stage
):
    script(calls_with(name, arguments, call_id=call_id), says("Done."))
    run = start_turn("Go")
    if run.state == Run.State.WAITING:
        return
    assert run.state == Run.State.FINISHED, run.message
    result = stage.last("tool_result")
    shown = result["output"] + str(result["error"])
    assert len(shown) < 60_000


def test_forty_calls_of_one_id_each_get_their_own_result(
    script, start_turn, stage, workspace
):
    (workspace.root / "a.txt").write_text("one\n")
    forty = tuple(
        ToolRequest(f"call_{n % 2}", "read_file", '{"path": "a.txt"}')
        for n in range(40)
    )
    script(Step(tool_calls=forty), says("Done."))
    assert start_turn("Go").state == Run.State.FINISHED
    assert len(stage.entries("tool_result")) == 40


def test_a_result_of_twenty_megabytes_is_kept(script, start_turn, stage):
    script(
        calls("shell", command="head -c 21000000 /dev/zero | tr '\\0' 'x'"),
        says("Done."),
    )
    assert start_turn("Go").state == Run.State.FINISHED
    assert len(stage.last("tool_result")["output"]) < 40_000


# Permissions


def decided(name: str, arguments: dict[str, Any], **rules: list[str]) -> str:
    tool = resolve(name)
    assert tool
    values = tool.arguments.model_validate(arguments).model_dump()
    return permissions.decide(
        tool, values, level="accept", rules=rules, confined=False
    ).answer


@pytest.mark.parametrize(
    "path",
    [
        "secret/../secret/key",
        "docs/../secret/key",
        "/workspace//secret/key",
        "/workspace/./secret/key",
        "././secret/key",
        ".//secret/key",
        "./../workspace/../secret/key",
        "secret//key",
        "secret/./key",
    ],
)
def test_no_spelling_of_a_path_goes_around_a_deny_rule(path):
    assert (
        decided(
            "write_file", {"path": path, "content": ""}, deny=["write_file(secret/**)"]
        )
        == "deny"
    )


def test_no_spelling_of_a_path_widens_an_ask_rule_that_an_allow_rule_narrows():
    answer = decided(
        "read_file",
        {"path": "docs/../secret"},
        allow=["read_file(docs/**)"],
        ask=["read_file(secret)"],
    )
    assert answer == "ask"


def test_a_path_that_leaves_the_folder_of_an_allow_rule_is_not_allowed_by_it():
    tool = resolve("write_file")
    assert tool
    decision = permissions.decide(
        tool,
        {"path": "docs/../secret.txt"},
        level="plan",
        rules={"allow": ["write_file(docs/**)"]},
        confined=True,
    )
    assert decision.answer == "deny"


@pytest.mark.parametrize("path", ["*", "[a-z]*", "docs/*", "?"])
def test_always_allows_the_very_file_and_no_pattern(path):
    tool = resolve("write_file")
    assert tool
    rule = permissions.rule_for(tool, {"path": path})
    for other, expected in (("other.txt", "deny"), (path, "allow")):
        decision = permissions.decide(
            tool, {"path": other}, level="plan", rules={"allow": [rule]}, confined=True
        )
        assert decision.answer == expected, (rule, other)


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "/bin/rm x",
        "\\rm x",
        "r''m x",
        "'rm' x",
        "FOO=1 rm x",
        "env rm x",
        "env A=1 rm x",
        "command rm x",
        "exec rm x",
        "nohup rm x",
        "sudo rm x",
        "time rm x",
        "! rm x",
        "if true; then rm x; fi",
        "for a in b; do rm x; done",
        "true && rm x",
        "true & rm x",
        ">out rm x",
        "2>/dev/null rm x",
        "echo $(rm x)",
        "echo `rm x`",
        'echo "$(rm x)"',
        "bash -c 'rm x'",
        "sh -ec 'true; rm x'",
        "eval rm x",
        "eval 'rm x'",
        "echo x | xargs rm",
        "(rm x)",
        "{ rm x; }",
        "f() { rm x; }; f",
        "find . -exec rm {} +",
        "r\\\nm x",
        "timeout 5 rm x",
        "nice -n 5 rm x",
    ],
)
def test_no_spelling_of_a_command_goes_around_a_deny_rule(command):
    assert decided("shell", {"command": command}, deny=["shell(rm)"]) == "deny"


@pytest.mark.parametrize("command", ["echo form", "ls rmdir", "git rm x", "cat harm"])
def test_a_deny_rule_leaves_other_commands_alone(command):
    assert decided("shell", {"command": command}, deny=["shell(rm)"]) == "ask"


def test_an_answer_wakes_a_run_that_goes_to_wait_meanwhile(script, stage, owner):
    """Every interleaving of rest and expiry ends with a run that goes on."""
    script(calls("ask_user", questions=[{"question": "?", "options": []}]), says("."))
    stage.post("Go")
    run = stage.play()
    assert run.state == Run.State.WAITING
    wait = Wait.objects.get()
    Wait.objects.update(deadline=timezone.now() - timedelta(seconds=1))
    sweeper.sweep()
    with pytest.raises(Conflict):
        answer_wait(
            wait=wait, user=owner, answer={"answers": [{"chosen": [], "text": "x"}]}
        )
    assert stage.play().state == Run.State.FINISHED


def test_a_question_with_characters_that_no_database_holds_is_asked(script, start_turn):
    questions = [{"question": "Which\0?", "options": ["a\0", "b"]}]
    script(calls_with("ask_user", json.dumps({"questions": questions})))
    assert start_turn("Go").state == Run.State.WAITING


def test_an_approval_of_nothing_grants_no_whole_tool():
    tool = resolve("execute_code")
    assert tool
    with pytest.raises(BadInput):
        permissions.rule_for(tool, {"code": ""})


@pytest.mark.parametrize(
    ("approved", "other"),
    [
        ("sudo -n ls", "sudo -n rm x"),
        ("python -m http.server", "python -c 1"),
        ("nice -n 5 ls", "nice -n 5 rm x"),
        ("env ls", "env rm"),
        ("xargs -n 1 ls", "xargs -n 1 rm"),
    ],
)
def test_a_grant_for_one_launched_program_covers_no_other(approved, other):
    shell = resolve("shell")
    assert shell
    rule = permissions.rule_for(shell, {"command": approved})
    for command, expected in ((approved, "allow"), (other, "ask")):
        assert decided("shell", {"command": command}, allow=[rule]) == expected


# What people send


@pytest.fixture
def browser(owner):
    client = Client()
    client.force_login(owner)
    return client


@pytest.mark.parametrize(
    ("address", "data", "expected"),
    [
        ("messages", {"text": "a\0b"}, 302),
        ("messages", {"text": "a", "client_id": "a\0b"}, 400),
        ("rename", {"title": "a\0b"}, 302),
        ("rename", {"title": "\0"}, 400),
    ],
)
def test_no_field_of_the_chat_page_breaks_the_server(
    address, data, expected, browser, stage
):
    url = f"{stage.conversation.get_absolute_url()}{address}"
    assert browser.post(url, data).status_code == expected


@pytest.mark.parametrize("agent", ["a\0b", "a" * 500])
def test_no_name_of_an_agent_breaks_the_server(agent, browser, workspace):
    url = f"{workspace.get_absolute_url()}new"
    response = browser.post(url, {"text": "a", "agent": agent})
    assert response.status_code == 409
    assert not Conversation.objects.exists()


def test_no_search_of_the_list_breaks_the_server(browser, workspace):
    url = workspace.get_absolute_url()
    assert browser.get(url, {"q": "a\0b"}).status_code == 200


def test_a_queued_message_and_an_answer_hold_any_character(script, stage, owner):
    script(calls("shell", command="ls > a"), says("Done."))
    Conversation.objects.update(approval_level="accept")
    type(stage.conversation.workspace).objects.update(
        permission_rules={"ask": ["shell"]}
    )
    stage.post("Go")
    assert stage.play().state == Run.State.WAITING
    assert stage.post("a\0b", when="queue").queued
    answer = {"decision": "deny", "reason": "a\0b"}
    answer_wait(wait=Wait.objects.get(), user=owner, answer=answer)
    assert stage.play().state == Run.State.FINISHED
