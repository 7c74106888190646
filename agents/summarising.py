"""The model call that writes a summary: beside the rounds, and never streamed."""

from __future__ import annotations

from django.db import transaction

from agents.context.assemble import Assembled
from agents.endpoints import Choice
from agents.errors import ProviderError, RunStopped
from agents.models import ModelCall
from agents.providers.base import Completion, Delta
from agents.receive import (
    LONGEST_CALL,
    Stream,
    called_event,
    cost_of,
    judged,
    listen,
    settle,
    settle_failed,
    settle_stopped,
    totals,
    write_down,
)
from agents.runs import Hold
from workspace.events import emit

#: The round of calls that belong to none.
BESIDE = 0


class Quiet(Stream):
    """An answer that nobody sees come in."""

    def take(self, delta: Delta) -> None:
        if self.first_token_ms is None:
            self.first_token_ms = self.elapsed_ms


def write_summary(hold: Hold, choice: Choice, assembled: Assembled) -> str:
    """The model's summary; "" when it gives none that can be used.

    Raises what the interrupt says when stopped.
    """
    with transaction.atomic():
        hold.guard()
        call = write_down(hold, choice, assembled, BESIDE)
    stream = Quiet(hold, call)
    hold.expect(LONGEST_CALL)
    try:
        completion = listen(hold, choice, assembled, stream)
    except RunStopped:
        settle_stopped(stream, assembled, keep=False)
        raise
    except ProviderError as error:
        settle_failed(stream, error)
        return ""
    _store(stream, choice, assembled, completion)
    is_whole = completion.stop_reason in ("end", "other")
    return completion.text if is_whole and not completion.tool_calls else ""


@transaction.atomic
def _store(
    stream: Stream, choice: Choice, assembled: Assembled, completion: Completion
) -> None:
    """Settle the call and add what it cost to the run."""
    cost = cost_of(completion.usage, choice.language_model)
    judged(stream, assembled, completion.usage)
    stream.hold.guard(**totals(stream, completion.usage, cost))
    settle(stream, ModelCall.State.COMPLETED, completion, cost)
    emit(called_event(stream, completion.usage, completion.stop_reason))
