from __future__ import annotations

import pytest
from pydantic import ValidationError

from agents.context.tokens import encoding
from agents.tools.base import Tool
from agents.tools.registry import BUILTIN, index, present, resolve
from agents.tools.talking import ASK_USER, AskUser


def item(content, status):
    return {"content": content, "status": status}


def test_a_checklist_has_exactly_one_item_in_progress(agent):
    items = [item("읽기", "completed"), item("쓰기", "in_progress")]
    result = agent.call("todo_write", items=items)
    assert result.output == "[x] 읽기\n[>] 쓰기"
    assert result.meta["todo"] == items


@pytest.mark.parametrize("statuses", [("pending",), ("in_progress", "in_progress")])
def test_another_number_in_progress_is_refused(agent, statuses):
    result = agent.call("todo_write", items=[item("x", status) for status in statuses])
    assert "exactly one" in result.error.message


def test_a_finished_or_empty_checklist_is_accepted(agent):
    assert agent.call("todo_write", items=[item("x", "completed")]).ok
    assert agent.call("todo_write", items=[]).output == "checklist cleared"


def test_a_question_may_come_alone():
    asked = AskUser.model_validate({"question": "Which?", "options": ["a", "b"]})
    assert asked.questions[0].options == ["a", "b"]
    assert ASK_USER.run is None
    assert ASK_USER.waits_for == "question"


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [{"question": ""}],
        [{"question": "q", "options": ["a"]}],
        [{"question": "q", "options": ["a", "a"]}],
        [{"question": "q", "options": list("abcdefghi")}],
        [{"question": "q"}] * 6,
    ],
)
def test_a_question_nobody_could_answer_is_refused(questions):
    with pytest.raises(ValidationError):
        AskUser.model_validate({"questions": questions})


def test_names_and_aliases_are_resolved_and_a_collision_stops_the_start():
    assert resolve("edit") is resolve("edit_file")
    assert resolve("run_shell_command").name == "shell"
    assert resolve("ask_user_question") is ASK_USER
    assert resolve("nothing") is None
    with pytest.raises(RuntimeError, match="Two tools claim the name 'ask_user'"):
        index((ASK_USER, ASK_USER))


def test_each_tool_is_present_or_absent_with_a_reason():
    tools, absent = present()
    assert {tool.name for tool in tools} | set(absent) == {
        tool.name for tool in BUILTIN
    }
    assert all(absent.values())


def test_the_declared_names_of_resident_tools_cost_few_tokens():
    def cost(tool: Tool) -> int:
        text = f"{tool.name}{tool.description}{tool.schema}"
        return len(encoding("o200k_base").encode(text))

    # The one of the fifteen that is still to come has 100 of the 1,300 tokens.
    assert sum(cost(tool) for tool in BUILTIN if tool.tier == "resident") <= 1200


def test_schemas_hold_no_titles_and_are_canonical():
    for tool in BUILTIN:
        assert '"title":"' not in tool.schema  # a property may have that name
        assert tool.schema == resolve(tool.name).schema


def test_handing_on_a_task_is_declared_in_few_tokens():
    tool = resolve("delegate_task")
    text = f"{tool.name}{tool.description}{tool.schema}"
    assert len(encoding("o200k_base").encode(text)) <= 150
