"""ask_user and todo_write: what an agent tells and asks the people it works for."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from agents.errors import ToolError
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class Question(Arguments):
    also_called: ClassVar[dict[str, str]] = {
        "multi_select": "multi",
        "text": "question",
    }

    question: str = Field(min_length=1, max_length=2000)
    options: list[str] = Field(
        default_factory=list, description="2 to 8 answers; none = free text"
    )
    multi: bool = Field(False, description="several may be chosen")

    @field_validator("options")
    @classmethod
    def _enough_to_choose(cls, options: list[str]) -> list[str]:
        named = [option.strip() for option in options]
        if named and not 2 <= len(named) <= 8:
            raise ValueError("give 2 to 8 options, or none for a free answer")
        if "" in named or len(set(named)) != len(named):
            raise ValueError("options must differ and not be empty")
        return named


class AskUser(Arguments):
    questions: list[Question] = Field(min_length=1, max_length=5)

    @model_validator(mode="before")
    @classmethod
    def _one_question(cls, values: Any) -> Any:
        """A single question may come without the list around it."""
        if isinstance(values, dict) and "questions" not in values and values:
            return {"questions": [values]}
        return values


class TodoItem(Arguments):
    content: str = Field(min_length=1, max_length=500)
    status: Literal["pending", "in_progress", "completed"]


class TodoWrite(Arguments):
    also_called: ClassVar[dict[str, str]] = {"todos": "items"}

    items: list[TodoItem] = Field(max_length=100)


def todo_write(ctx: ToolContext, args: TodoWrite) -> ToolResult:
    statuses = [item.status for item in args.items]
    active = statuses.count("in_progress")
    if active != 1 and set(statuses) - {"completed"}:
        raise ToolError(
            f"{active} items are in_progress; exactly one must be, unless all are "
            f"completed. Send the whole list again.",
            code="bad_input",
        )
    lines = [f"{_MARKS[item.status]} {item.content}" for item in args.items]
    todo = [item.model_dump() for item in args.items]
    return ToolResult(
        True, "\n".join(lines) or "checklist cleared", meta={"todo": todo}
    )


ASK_USER = Tool(
    name="ask_user",
    group="talking",
    description=(
        "Ask the people in the conversation when only they can decide; waits for the "
        "answer. Other text than an option is always possible."
    ),
    tag="read",
    arguments=AskUser,
    waits_for="question",
    main_argument="questions",
    hints=("question", "clarify", "choose", "confirm", "질문", "물어보기", "확인"),
    aliases=("ask_user_question", "ask_question"),
)
TODO_WRITE = Tool(
    name="todo_write",
    group="talking",
    description=(
        "Replace the checklist that people see while you work on several steps; exactly "
        "one item in_progress until all are completed."
    ),
    tag="read",
    arguments=TodoWrite,
    run=todo_write,
    tier="deferred",
    main_argument="items",
    hints=("checklist", "plan", "steps", "tasks", "할 일", "체크리스트", "계획"),
    aliases=("update_todos", "write_todos", "todo"),
)
TOOLS = (ASK_USER, TODO_WRITE)
