"""What goes wrong while an agent works, by who reads it.

RunStopped                  the run leaves the loop; not a failure
├── RunWaiting              a person or a child must act first; the run holds no worker
├── RunStoppedByUser        somebody pressed Stop
├── RunReleased             this worker is shutting down; another one goes on
└── LimitReached            rounds, time, tokens or cost of the run are used up
RightLost                   whoever the run works for may not do so any more
ToolError                   the model reads it: says what would work
ProviderError               the model service failed; the sentence is for people
├── ProviderUnavailable     worth another try: 429, 5xx, connect, timeout, cut stream
├── ContextOverflow         the request is larger than the model's window
├── ProviderAuthFailed      the key is wrong, missing or out of credit
└── ProviderRejected        the service will not take this request, now or later
    └── ImagesRefused       because of the images in it
"""

from __future__ import annotations


class RunStopped(Exception):
    """The run leaves the loop for a reason that is not a fault."""


class RunWaiting(RunStopped):
    """The run has open waits and gives its worker back."""


class RunStoppedByUser(RunStopped):
    """Somebody pressed Stop."""


class RunReleased(RunStopped):
    """The worker drains; the run is free for another one."""


class LimitReached(RunStopped):
    """A limit of the run is reached; the message says which."""


class RightLost(Exception):
    """The run's person left, or the workspace was deleted; a sentence for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ToolError(Exception):
    """A tool's refusal, in words that tell the model what would work."""

    def __init__(self, message: str, *, code: str = "tool_error") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class ProviderError(Exception):
    """A model service failed; the message is a sentence for people, without secrets."""

    retryable = False

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after


class ProviderUnavailable(ProviderError):
    """Worth another try. `retry_after` (seconds) is what the service asked for."""

    retryable = True


class ContextOverflow(ProviderError):
    """The request does not fit the model's window."""


class ProviderAuthFailed(ProviderError):
    """The service does not accept the key; names the endpoint and what to do."""


class ProviderRejected(ProviderError):
    """The service refuses the request itself."""


class ImagesRefused(ProviderRejected):
    """The service's words speak of images: the model may not see any."""
