"""Where a run stands, read from its entries and calls; and what its limits say."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from agents.children import family
from agents.errors import LimitReached, ProviderRejected, RightLost
from agents.models import Run, ToolCall
from agents.runs import Hold, open_calls
from workspace import access, transcript
from workspace.models import Conversation, Entry, User
from workspace.prepared import Select, given
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


def _said(kind: Entry.Kind) -> QuerySet[Entry]:
    said = Entry.objects.filter(
        turn=given("turn", Entry, "turn"), seq__gt=given("since", Entry, "seq")
    )
    return said.filter(kind=kind).select_related("stored")


_ANSWER = Select[Entry](lambda: _said(Entry.Kind.ASSISTANT).order_by("-seq")[:1])
_NOTICES = Select[Entry](lambda: _said(Entry.Kind.NOTICE).order_by("seq"))


def standing_of(run: Run) -> Standing:
    """Three queries, none for a fresh run; nothing of it is kept between rounds."""
    if run.fence == 1 and run.round == 0:
        return FRESH
    answer = _ANSWER.first(turn=run.turn_id, since=run.since_seq)
    body = transcript.body(answer) if answer else {}
    notices = _NOTICES.all(turn=run.turn_id, since=run.since_seq)
    return Standing(
        open_calls(run),
        bool(body) and not body["tool_calls"] and body["stop_reason"] != "pause",
        body.get("seen_seq", 0),
        any(row["type"] == "limit" for row in transcript.bodies(notices)),
    )


_STILL_THERE = Select[tuple[UUID]](
    lambda: Conversation.objects.filter(
        pk=given("pk", Conversation, "id"), deleted_at__isnull=True
    ).values_list("pk")
)
_STEERING = Select[User](
    lambda: User.objects.filter(
        pk__in=_said(Entry.Kind.USER).select_related(None).values("author")
    )
)


def check_rights(run: Run) -> None:
    """Raise RightLost when one of those it is done for may not have it done any more.

    Those are who started it and everybody who steered it. Three queries, one more each.
    """
    if not _STILL_THERE.first(pk=run.conversation.people_id):
        raise RightLost("The conversation was removed, so the work in it was ended.")
    steering = _STEERING.all(turn=run.turn_id, since=run.since_seq)
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
    rounds = family.rounds_of(run)
    if run.round >= rounds:
        raise LimitReached(f"the limit of {rounds} rounds")
    assert run.started_at, "a claimed run has started"
    if (timezone.now() - run.started_at).total_seconds() > agent.max_seconds:
        raise LimitReached(f"the limit of {agent.max_seconds} seconds")
    used = run.tokens_in + run.tokens_out + below_tokens(run, agent.max_tokens)
    if agent.max_tokens is not None and used >= agent.max_tokens:
        raise LimitReached(f"the limit of {agent.max_tokens} tokens")


def below_tokens(run: Run, limit: int | None) -> int:
    """Tokens of the run's children; counted where there is a limit to them."""
    if limit is None:
        return 0
    sums = family.descendants([run.pk]).aggregate(
        used=Sum(F("tokens_in") + F("tokens_out"))
    )
    return sums["used"] or 0


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
    body = {"type": "limit", "text": text, "to_model": True, "reason": str(limit)}
    hold.append(Draft(kind=Entry.Kind.NOTICE, body=body, turn=hold.run.turn))
