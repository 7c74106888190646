"""Tool results as entries: what a call's row becomes in the transcript."""

from __future__ import annotations

from typing import Any

from agents.context.view import INTERRUPTED
from agents.models import Run, ToolCall
from agents.providers.wire import clean_values
from agents.tools.base import ToolResult
from workspace.models import Entry
from workspace.transcript import Draft

#: Characters of an error's message.
LONGEST_MESSAGE = 8_000
NOT_RUN = "not run: the run ended before this call started"


def outcome_of(
    result: ToolResult, *, output: str, output_sha256: str
) -> dict[str, Any]:
    """A result as a ToolCall stores it; `output` is the capped view."""
    error = result.error
    stored: dict[str, Any] = clean_values(
        {
            "output": output,
            "output_sha256": output_sha256,
            "error": {"code": error.code, "message": brief(error.message)}
            if error
            else None,
            "meta": result.meta,
        }
    )
    return stored


def brief(message: str) -> str:
    """A message that a model reads whole; the middle of an endless one is left out."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    half = LONGEST_MESSAGE // 2
    return f"{message[:half]} […] {message[-half:]}"


def draft_of(call: ToolCall, run: Run) -> Draft:
    """The `tool_result` entry of a call whose outcome is stored."""
    outcome = call.outcome or {}
    took = (
        call.ended_at - call.started_at if call.ended_at and call.started_at else None
    )
    return Draft(
        kind=Entry.Kind.TOOL_RESULT,
        turn=run.turn,
        body={
            "call_id": call.call_id,
            "name": call.name,
            "ok": bool(call.ok),
            **outcome,
            "round": call.round,
            "duration_ms": int(took.total_seconds() * 1000) if took else 0,
        },
    )


def interruption_of(call: ToolCall) -> dict[str, Any]:
    """The outcome of a call that its run leaves behind."""
    started = call.state == ToolCall.State.STARTED
    message = INTERRUPTED.partition(": ")[2] if started else NOT_RUN.partition(": ")[2]
    return {
        "output": "",
        "output_sha256": "",
        "error": {"code": "interrupted" if started else "not_run", "message": message},
        "meta": {},
    }
