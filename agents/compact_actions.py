"""Compaction as a person asks for it: `/compact [focus]`.

The run that it starts asks the model for a summary and for nothing else. What was typed
is no message: a notice says who asked, and what shall be kept in particular.
"""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from agents import runs
from agents.actions import agent_of
from agents.compacting import TRIGGER, order
from agents.context.assemble import items_of
from agents.context.governance import Maker
from agents.endpoints import choose
from agents.errors import ProviderError
from agents.models import Run
from agents.providers.wire import clean
from workspace import transcript
from workspace.access import require
from workspace.actions import conversations
from workspace.errors import BadInput, Conflict
from workspace.models import Conversation, Entry, Turn, User
from workspace.transcript import Draft

#: Characters of what a person wants kept in particular.
LONGEST_FOCUS = 500


def compact(*, conversation: Conversation, user: User, focus: str = "") -> Entry:
    """Start a run that compacts the conversation; returns the notice that says so.

    Raises Conflict while an agent is at work, and when there is nothing to be gained.
    """
    require(user, conversation.workspace, "post")
    runs.require_people(conversation)
    focus = clean(focus).strip()
    if len(focus) > LONGEST_FOCUS:
        raise BadInput(
            _("Say in at most %(most)s characters what shall be kept in particular.")
            % {"most": LONGEST_FOCUS}
        )
    _require_idle(conversation)
    _require_gain(conversation)  # reads all of it, so before the transaction
    with transaction.atomic():
        runs.lock_row(conversation.pk)
        _require_idle(conversation)
        return _start(conversation, user, focus)


def _require_idle(conversation: Conversation) -> None:
    if Run.objects.filter(conversation=conversation, state__in=Run.OPEN).exists():
        raise Conflict(
            _("The agent is at work here. Stop it first, or wait until it is done.")
        )


def _require_gain(conversation: Conversation) -> None:
    """Raises Conflict with what the plan says against it, or the model's service."""
    agent = agent_of(conversation)
    try:
        choice = choose(conversation, agent)
    except ProviderError as error:
        raise Conflict(error.message) from None
    maker = Maker.of(conversation, choice, agent.effort)
    if refusal := maker.wanted(items_of(conversation)).refusal:
        raise Conflict(refusal)


def _start(conversation: Conversation, user: User, focus: str) -> Entry:
    turn = Turn.objects.create(conversation=conversation, author=user)
    body = order(str(user), focus)
    draft = Draft(kind=Entry.Kind.NOTICE, body=body, turn=turn, author=user)
    [entry] = transcript.append(conversation.pk, draft)
    conversations.push_appended(conversation.pk, [entry])
    runs.open_run(
        turn=turn,
        agent=agent_of(conversation),
        trigger=TRIGGER,
        started_by=user,
        since_seq=entry.seq,
    )
    return entry
