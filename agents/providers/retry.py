"""Another try when a model service fails in a way that passes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agents.errors import ProviderError
from agents.interrupts import Interrupt
from agents.providers.base import Completion, Delta, Provider, Request

MAX_TRIES = 5
BUDGET = 120.0  # seconds from the first failure to the start of the last try
_FIRST_PAUSE = 0.5  # seconds; doubles with each failure
_LONGEST_PAUSE = 20.0  # seconds, unless the service itself asks for more


@dataclass(frozen=True, slots=True)
class Restarted:
    """The answer begins anew: all deltas since the last one are superseded."""

    tries: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Why and when the next try comes. `tries` have failed; `pause` is in seconds."""

    tries: int
    pause: float
    error: ProviderError


def stream_with_retries(
    provider: Provider,
    request: Request,
    interrupt: Interrupt,
    on_retry: Callable[[Retry], None],
    *,
    budget: float = BUDGET,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Delta | Restarted | Completion]:
    """Stream one answer; a cut stream begins anew, told by a `Restarted`.

    Raises the last error when tries or budget are used up, or when the service asks for
    a longer pause than is left: only then does its `retry_after` say how long.
    """
    first_failure: float | None = None
    for tries in range(1, MAX_TRIES + 1):
        has_spoken = False
        try:
            for item in provider.stream(request, interrupt):
                has_spoken = True
                yield item
        except ProviderError as error:
            first_failure = first_failure if first_failure is not None else clock()
            left = budget - (clock() - first_failure)
            pause = _pause(tries, error)
            if tries == MAX_TRIES:
                error.retry_after = None  # what it asked for was granted, in vain
            if not error.retryable or tries == MAX_TRIES or pause > left:
                raise
            retry = Retry(tries, pause, error)
        else:
            return
        if has_spoken:
            yield Restarted(tries)
        on_retry(retry)
        interrupt.sleep(retry.pause)


def _pause(tries: int, error: ProviderError) -> float:
    """Seconds to wait: what the service asks for, else ever longer, with jitter."""
    if error.retry_after is not None:
        return error.retry_after + random.uniform(0, 0.25)
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (tries - 1))
    return random.uniform(longest / 2, longest)
