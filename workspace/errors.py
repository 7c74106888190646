"""The refusals a person can read.

ActionError                 a whole sentence, and the HTTP status it is answered with
├── BadInput         400    what was sent cannot be used; says what would work
├── NotAllowed       403    the person may see the thing but not do this
├── NotVisible       404    the person may not know that the thing exists
├── Conflict         409    somebody or something else was there first
├── Gone             410    a link that was used or withdrawn, or is too old
├── TooMuch          413    over a size limit
├── TooFast          429    over a rate limit; says when to try again
└── Unavailable      503    the server cannot answer just now; nothing was stored
TranscriptError             the transcript cannot be trusted or written
├── ImmutableEntry          code tried to change what is append-only
├── BrokenChain             verification failed; names the first bad seq
└── LeaseLost               another worker owns the run that tried to append
"""

from __future__ import annotations


class ActionError(Exception):
    """A refusal with a sentence for the person who asked."""

    status = 400

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).__name__


class BadInput(ActionError):
    status = 400


class NotAllowed(ActionError):
    status = 403


class NotVisible(ActionError):
    status = 404

    def __init__(
        self, message: str = "There is nothing here that you can see."
    ) -> None:
        super().__init__(message)


class Conflict(ActionError):
    status = 409


class Gone(ActionError):
    status = 410


class TooMuch(ActionError):
    status = 413


class TooFast(ActionError):
    status = 429


class Unavailable(ActionError):
    status = 503


class TranscriptError(Exception):
    """The transcript refused, or cannot be trusted."""


class ImmutableEntry(TranscriptError):
    """Entries are append-only; add a new entry instead."""


class BrokenChain(TranscriptError):
    """The first entry that does not verify, and why."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(f"Entry {seq}: {reason}")
        self.seq = seq
        self.reason = reason


class LeaseLost(TranscriptError):
    """The run that tried to write is owned by another worker or has ended."""
