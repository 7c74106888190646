"""The repeat guard in a played run: what runs, what is said, what is stored."""

from __future__ import annotations

import pytest

from agents import tasks
from agents.loop import finish_round, play_round
from agents.models import Run, ToolCall
from agents.providers.scripted import calls, calls_with, says
from agents.standing import standing_of
from observability.models import Record

pytestmark = pytest.mark.django_db


def outputs(stage):
    return [row["output"] for row in stage.entries("tool_result")]


def test_an_unchanged_file_is_read_once_and_then_pointed_to(
    script, start_turn, stage, workspace
):
    (workspace.root / "a.txt").write_text("one\ntwo\n")
    read = calls("read_file", path="a.txt")
    provider = script(read, read, read, read, says("Done."))
    start_turn("Read it")
    first, second, third, fourth = stage.entries("tool_result")
    assert "two" in first["output"]
    assert second["output"].startswith(
        "unchanged since your earlier read_file of a.txt"
    )
    assert second["output"] == third["output"]
    assert second["meta"]["guard"]["kind"] == "stub"
    assert fourth["error"]["code"] == "repeat_blocked"
    sent = [one.text for one in provider.requests[-1].prompt.messages]
    assert any("two" in text for text in sent)


def test_a_file_that_changed_is_read_again_and_a_pointed_one_may_be_edited(
    script, start_turn, stage, workspace
):
    path = workspace.root / "a.txt"
    path.write_text("one\n")
    read = calls("read_file", path="a.txt")
    edit = calls("edit_file", path="a.txt", old_string="one", new_string="two")
    script(read, read, edit, read, says("Done."))
    start_turn("Change it")
    assert all(row["ok"] for row in stage.entries("tool_result"))
    assert path.read_text() == "two\n"
    assert "two" in outputs(stage)[-1]


def test_a_read_behind_a_write_of_the_same_message_sees_what_was_written(
    script, start_turn, stage, workspace
):
    (workspace.root / "a.txt").write_text("one\n")
    read = calls("read_file", path="a.txt")
    edit = calls("edit_file", path="a.txt", old_string="one", new_string="two")
    script(read, edit + read, says("Done."))
    start_turn("Change it")
    assert "two" in outputs(stage)[-1]


def test_the_same_read_twice_in_one_message_runs_once(
    script, start_turn, stage, workspace
):
    (workspace.root / "a.txt").write_text("one\n")
    read = calls("read_file", path="a.txt")
    script(read + read, says("Done."))
    start_turn("Read it")
    assert "one" in outputs(stage)[0]
    assert outputs(stage)[1].startswith("unchanged since your earlier read_file")
    called = Record.objects.filter(kind="tool.called")
    assert called.count() == 1


def test_a_command_is_refused_the_fourth_time_and_does_not_run(
    script, start_turn, stage, workspace
):
    command = calls("shell", command="echo x >> log; echo same")
    script(*[command] * 4, says("Done."))
    run = start_turn("Go")
    assert (workspace.root / "log").read_text() == "x\n" * 3
    rows = stage.entries("tool_result")
    assert rows[1]["output"].startswith("same result as your earlier shell call")
    assert "3rd identical shell call in a row" in rows[2]["output"]
    assert rows[3]["error"]["code"] == "repeat_blocked"
    assert run.state == Run.State.FINISHED


def test_a_repeat_that_is_refused_asks_nobody_for_approval(script, stage, workspace):
    (workspace.root / "a.txt").write_text("one\n")
    write = calls("write_file", path="b.txt", content="x")
    script(*[write] * 4, says("Done."))
    stage.conversation.approval_level = "edits"
    stage.conversation.save(update_fields=["approval_level"])
    stage.post("Go")
    stage.play()
    fourth = ToolCall.objects.order_by("-pk").first()
    assert fourth.outcome["error"]["code"] == "repeat_blocked"
    assert fourth.decision is None


def test_a_new_message_of_a_person_resets_the_counts(
    script, start_turn, stage, workspace
):
    command = calls("shell", command="echo x >> log; echo same")
    script(*[command] * 3, says("Done."), command, says("Done."))
    start_turn("Go")
    start_turn("Again")
    assert (workspace.root / "log").read_text() == "x\n" * 4
    assert "same" in outputs(stage)[-1]


def test_a_loop_is_suspected_once_per_turn(script, start_turn, stage, workspace):
    command = calls("shell", command="echo same")
    other = calls("list_dir", path=".")
    steps = [step for _ in range(6) for step in (command, other)]
    script(*steps, says("Done."))
    start_turn("Go")
    events = Record.objects.filter(kind="loop.suspected")
    assert [(one.data["tool"], one.data["count"]) for one in events] == [("shell", 5)]
    said = [row["output"] + str(row["error"]) for row in stage.entries("tool_result")]
    assert sum("loop suspected: shell" in text for text in said) == 2


def test_a_call_through_the_bridge_counts_as_the_tool_it_names(
    script, start_turn, stage, workspace
):
    (workspace.root / "one").write_text("x")
    through = calls("tool_call", name="list_dir", arguments={"path": "."})
    script(
        calls("tool_search", query="select:list_dir"),
        *(through, through),
        calls_with("list_dir", '{"path": "."}'),
        says("Done."),
    )
    start_turn("Look")
    rows = stage.entries("tool_result")
    assert rows[2]["output"].startswith("same result as your earlier list_dir call")
    assert rows[3]["output"].startswith("same result as your earlier list_dir call")


def test_every_worker_counts_what_the_ones_before_it_saw(
    script, start_turn, stage, workspace
):
    (workspace.root / "a.txt").write_text("one\n")
    read = calls("read_file", path="a.txt")
    script(*[read] * 4, says("Done."))
    stage.post("Read it")
    for _ in range(4):
        hold = stage.claim()
        play_round(hold, stage.choice, standing_of(hold.run))
        finish_round(hold, standing_of(hold.run).open_calls)
        hold.leave_at_boundary = True
        tasks.play_held(hold, stage.choice)
    assert stage.play().state == Run.State.FINISHED
    assert [row["ok"] for row in stage.entries("tool_result")] == [True] * 3 + [False]
    assert stage.last("tool_result")["error"]["code"] == "repeat_blocked"


def test_ten_reads_of_ten_files_are_no_loop(script, start_turn, stage, workspace):
    for number in range(10):
        (workspace.root / f"{number}.txt").write_text("the same text\n")
    script(*[calls("read_file", path=f"{n}.txt") for n in range(10)], says("Done."))
    start_turn("Read them")
    rows = stage.entries("tool_result")
    assert len(rows) == 10
    assert all("the same text" in row["output"] for row in rows)
    said = " ".join(row["output"] for row in rows)
    assert not any(word in said for word in ("unchanged", "identical", "suspected"))
    assert not Record.objects.filter(kind="loop.suspected").exists()
