"""Where a run stands, read from its entries and calls; and what its limits say."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone

from agents.errors import LimitReached, ProviderRejected, RightLost
from agents.models import Run, ToolCall
from agents.runs import Hold
from workspace import access, transcript
from workspace.models import Conversation, Entry, User
from workspace.transcript import Draft

#: Calls in a row whose arguments did not fit their schema, until the run fails.
MAX_MALFORMED = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """`answered`: the last answer asks for nothing; it was made from `seen_seq`.

    `reporting`: a limit is reached and the model was asked for its final report.
    """

    open_calls: list[ToolCall]
    answered: bool
    seen_seq: int
    reporting: bool


#: Where a run stands that no worker has played yet.
FRESH = Standing([], answered=False, seen_seq=0, reporting=False)


def standing_of(run: Run) -> Standing:
    """Two to four queries, none for a fresh run; nothing of it is kept between rounds."""
    if run.fence == 1 and run.round == 0:
        return FRESH
    open_calls = list(
        run.tool_calls.filter(result_entry=None).order_by("entry_id", "index")
    )
    said = Entry.objects.filter(turn=run.turn_id, seq__gt=run.since_seq)
    last = said.filter(kind=Entry.Kind.ASSISTANT).order_by("-seq")
    answer = last.select_related("stored").first()
    body = transcript.body(answer) if answer else {}
    notices = said.filter(kind=Entry.Kind.NOTICE).select_related("stored")
    return Standing(
        open_calls,
        bool(body) and not body["tool_calls"] and body["stop_reason"] != "pause",
        body.get("seen_seq", 0),
        any(row["type"] == "limit" for row in transcript.bodies(list(notices))),
    )


def check_rights(run: Run) -> None:
    """Raise RightLost when one of those it is done for may not have it done any more.

    Those are who started it and everybody who steered it. Three queries, one more each.
    """
    if not Conversation.objects.filter(
        pk=run.conversation_id, deleted_at=None
    ).exists():
        raise RightLost("The conversation was removed, so the work in it was ended.")
    steering = User.objects.filter(
        pk__in=Entry.objects.filter(
            turn=run.turn_id, seq__gt=run.since_seq, kind=Entry.Kind.USER
        ).values("author")
    )
    started_by = {run.started_by} if run.started_by else set()
    for person in started_by.union(steering):
        if not access.can(person, run.conversation.workspace, "post"):
            raise RightLost(
                f"{person} may no longer post in this workspace, so the work for them "
                "was ended."
            )


def check_limits(hold: Hold, standing: Standing) -> None:
    """Raise LimitReached when the next round would be over one of the run's limits.

    Raises ProviderRejected when the model cannot write arguments that fit.
    """
    if standing.reporting:
        return
    run, agent = hold.run, hold.run.agent
    if run.round >= MAX_MALFORMED:
        _check_malformed(run)
    if run.round >= agent.max_rounds:
        raise LimitReached(f"the limit of {agent.max_rounds} rounds")
    assert run.started_at, "a claimed run has started"
    if (timezone.now() - run.started_at).total_seconds() > agent.max_seconds:
        raise LimitReached(f"the limit of {agent.max_seconds} seconds")
    used = run.tokens_in + run.tokens_out
    if agent.max_tokens is not None and used >= agent.max_tokens:
        raise LimitReached(f"the limit of {agent.max_tokens} tokens")


def _check_malformed(run: Run) -> None:
    last = list(run.tool_calls.order_by("-entry_id", "-index")[:MAX_MALFORMED])
    if len(last) == MAX_MALFORMED and all(_is_malformed(call) for call in last):
        raise ProviderRejected(
            f"The model wrote arguments that fit no tool {MAX_MALFORMED} times in a "
            "row, so the run was ended. Try again, or choose a stronger model."
        )


def _is_malformed(call: ToolCall) -> bool:
    error = (call.outcome or {}).get("error") or {}
    return error.get("code") == "bad_arguments"


def ask_for_report(hold: Hold, limit: LimitReached) -> None:
    """Tell model and people that this is the last round. Stored once per run."""
    text = (
        f"This run has reached {limit}. Call no more tools. Write a final report now: "
        "what is done, what is not, and what the next step would be."
    )
    body = {"type": "limit", "text": text, "to_model": True}
    hold.append(Draft(kind=Entry.Kind.NOTICE, body=body, turn=hold.run.turn))
