"""A run is a loop of rounds; a round is a request and the tool calls it asks for.

Nothing that matters is kept in memory between rounds: where the run stands follows from
its entries and ToolCall rows, so any worker can go on from any round boundary.
"""

from __future__ import annotations

from agents import events, runs
from agents.calls import answer_calls
from agents.children import family
from agents.compacting import compact_alone
from agents.context.assemble import sees_images
from agents.endpoints import Choice
from agents.errors import (
    ContextOverflow,
    ImagesRefused,
    LimitReached,
    ProviderUnavailable,
    RunWaiting,
)
from agents.governing import next_request, too_large
from agents.models import LanguageModel, ModelCall, ToolCall
from agents.receive import receive
from agents.runs import Hold
from agents.standing import (
    Standing,
    ask_for_report,
    check_limits,
    check_rights,
    standing_of,
)
from workspace.events import emit

#: Times that a model service may put off one round for long before its run fails.
MAX_RESTS = 5


def execute(hold: Hold, choice: Choice) -> None:
    """Play until the turn is answered or has to wait; every end is stored.

    1. Calls that are still open come first: they are carried out, or waited for.
    2. An answer without calls ends the run, unless somebody spoke in the meantime;
       mostly that is stored with the answer.
    3. Otherwise the model is asked.
    """
    if compact_alone(hold, choice):
        return
    while not hold.has_ended:
        hold.check()
        hold.sees_images = sees_images(choice.language_model)
        standing = standing_of(hold.run)
        try:
            if standing.open_calls:
                finish_round(hold, standing.open_calls)
            elif standing.answered and runs.finish(hold, standing.seen_seq):
                return
            else:
                play_round(hold, choice, standing)
        except RunWaiting:
            if runs.rest(hold):
                return


def play_round(hold: Hold, choice: Choice, standing: Standing) -> None:
    """Ask the model once; the calls it asks for are open afterwards."""
    reporting = standing.reporting
    runs.push_of_child(hold.run.conversation)
    check_rights(hold.run)
    try:
        check_limits(hold, standing)
    except LimitReached as limit:
        ask_for_report(hold, limit)
        reporting = True
    try:
        ask(hold, choice, final=reporting)
    except ImagesRefused:
        if not turned_blind(choice):
            raise
    except ProviderUnavailable as error:
        if error.retry_after is None or rests(hold) >= MAX_RESTS:
            raise
        runs.open_retry(hold, error.retry_after, error.message)
        raise RunWaiting from error


def ask(hold: Hold, choice: Choice, *, final: bool) -> None:
    """Send the next request; once more, made smaller, if the service cannot take it."""
    request = next_request(hold, choice)
    try:
        receive(hold, choice, request, final=final)
        return
    except ContextOverflow as error:
        request = next_request(hold, choice, error)
    try:
        receive(hold, choice, request, final=final)
    except ContextOverflow as error:
        raise too_large(request, error) from error


def turned_blind(choice: Choice) -> bool:
    """Remember that the model takes no images; False if it was not on trial.

    The round is then played again with the names of the images in their place.
    """
    model, vision = choice.language_model, LanguageModel.Vision
    if model.vision != vision.UNKNOWN:
        return False
    LanguageModel.objects.filter(pk=model.pk, vision=vision.UNKNOWN).update(
        vision=vision.NO
    )
    model.vision = vision.NO
    return True


def rests(hold: Hold) -> int:
    """How often the model service has put off the present round already."""
    failed = hold.run.model_calls.filter(state=ModelCall.State.FAILED)
    return failed.filter(round=hold.run.round).count() - 1


def finish_round(hold: Hold, calls: list[ToolCall]) -> None:
    """Answer the open calls of the last message; RunWaiting if people come first."""
    conversation = hold.run.conversation
    conversation.approval_level = family.level_of(conversation)
    conversation.workspace.refresh_from_db(fields=["permission_rules", "network"])
    runs.push_of_child(conversation)
    answer_calls(hold, calls)
    emit(events.RoundFinished(**hold.ids, round=calls[0].round, calls=len(calls)))
