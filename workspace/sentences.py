"""Sentences that are stored in English and read in the reader's language.

What ends a turn or a call is stored as it was said. A stored sentence that is one of
ours is recognised by its form and said again; any other stands as it is.
"""

from __future__ import annotations

import re
from functools import cache

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

STOPPED = gettext_noop("Stopped by %(who)s.")
STOPPED_BY_ITSELF = gettext_noop("Stopped by the system.")
#: The longer of two forms that fit comes first.
KNOWN = (
    STOPPED_BY_ITSELF,
    STOPPED,
    gettext_noop(
        "The conversation no longer fits the model's window of %(window)s tokens, and "
        "compacting it cannot reclaim enough. Most is taken by %(row)s (%(size)s "
        "tokens). Shorten that, choose a model with a larger window, or start a new "
        "conversation."
    ),
    gettext_noop(
        "The request is larger than %(name)s's model can take.%(quote)s Compacting the "
        "conversation cannot make it fit. Most is taken by %(row)s (%(size)s tokens). "
        "Shorten that, choose a model with a larger window, or start a new conversation."
    ),
    gettext_noop(
        "The request is larger than %(name)s's model can take.%(quote)s Most is taken by "
        "%(row)s (%(size)s tokens). Shorten that, choose a model with a larger window, "
        "or start a new conversation."
    ),
    gettext_noop(
        "Something in the server failed; nothing that was stored is lost. The "
        "operator's log names the cause under run %(run)s. Press Retry to try again."
    ),
    gettext_noop(
        "The worker was lost several times in the same round, so the run was ended. "
        "What was done so far is kept. Press Retry to try again."
    ),
    gettext_noop("The agents it handed tasks to are at work."),
    gettext_noop("The conversation was removed, so the work in it was ended."),
    gettext_noop(
        "%(who)s may no longer post in this workspace, so the work for them was ended."
    ),
    gettext_noop(
        "No language model is set up for this workspace. An admin can add one under "
        "Settings → Endpoints."
    ),
    gettext_noop(
        "%(name)s has no credit left for this key. Top up the account or enter "
        "another key in the endpoint's settings.%(quote)s"
    ),
    gettext_noop(
        "%(name)s does not accept the key (status %(status)s). Check the key in the "
        "endpoint's settings.%(quote)s"
    ),
    gettext_noop("The request is larger than %(name)s's model can take.%(quote)s"),
    gettext_noop("%(name)s is limiting requests (status 429).%(quote)s"),
    gettext_noop("%(name)s is failing or overloaded (status %(status)s).%(quote)s"),
    gettext_noop(
        "%(name)s refuses the images of the request (status %(status)s).%(quote)s"
    ),
    gettext_noop("%(name)s refuses the request (status %(status)s).%(quote)s"),
    gettext_noop("%(name)s cannot be reached: %(why)s."),
    gettext_noop("%(name)s did not accept a connection within %(seconds)s seconds."),
    gettext_noop("%(name)s closed the connection before the answer was complete."),
    gettext_noop("%(name)s sent no answer."),
    gettext_noop("it may or may not have taken effect; check before repeating"),
    gettext_noop("the run ended before this call started"),
    gettext_noop("A person denied this call: no reason was given"),
    gettext_noop("A person denied this call: %(reason)s"),
    gettext_noop("Nobody approved this call in time."),
    gettext_noop("Nobody answered in time."),
    gettext_noop("%(who)s went back to message %(seq)s."),
    gettext_noop(
        "Agents cannot find these tools here: %(names)s. tools.eager holds them back, "
        "and %(missing)s is missing (%(why)s). Name them in tools.eager or tools.visible, "
        "or allow tool_search and tool_call again; then start a new conversation."
    ),
    gettext_noop("%(who)s asked to compact the conversation."),
    gettext_noop("%(who)s asked to compact the conversation and to keep: %(focus)s"),
)
PLACE = re.compile(r"%\((\w+)\)s")
#: Characters; what is longer is no sentence of ours.
LONGEST = 4_000


@cache
def _form(sentence: str) -> re.Pattern[str]:
    """What recognises a sentence, whatever stands in its places."""
    parts = PLACE.split(sentence)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [rf"(?P<{name}>.*?)" for name in parts[1::2]]
    return re.compile("".join(parts), re.DOTALL)


def in_ones_language(stored: str) -> str:
    """The stored sentence in the active language, if it is one of ours."""
    if len(stored) > LONGEST:
        return stored
    for sentence in KNOWN:
        if match := _form(sentence).fullmatch(stored):
            return _(sentence) % match.groupdict()
    return stored


def is_stop(stored: str) -> bool:
    """Whether the sentence says by itself that something was stopped."""
    return bool(_form(STOPPED).fullmatch(stored))
