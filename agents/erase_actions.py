"""Erasing what was said, with every copy that this app keeps of it.

The unit is a turn: what one person asked, and all that was done to answer it. An answer
repeats what it was asked, and half a pair of call and result cannot be sent any more.
What was handed to children goes with the turn that handed it on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents import runs
from agents.models import (
    Delegation,
    LoadedTool,
    Memory,
    ModelCall,
    Run,
    ToolCall,
    Wait,
)
from workspace import audit, live, transcript
from workspace.access import require
from workspace.errors import BadInput, Conflict
from workspace.models import Conversation, Entry, QueuedMessage, Turn, User
from workspace.shredding import MOST_ENTRIES, redact


def erase_turns(
    *, conversation: Conversation, turns: Collection[UUID], user: User, reason: str
) -> int:
    """Shred these turns, and summaries that cover them. Returns how many entries.

    What stays is that they existed, who erased them, when and why.
    """
    chosen = set(conversation.turns.filter(pk__in=turns).values_list("pk", flat=True))
    if not chosen or len(chosen) != len(set(turns)):
        raise BadInput(_("Choose the messages of this conversation that shall go."))
    with transaction.atomic():
        _begin(conversation, user)
        entries = conversation.entries.filter(turn__in=chosen)
        seqs = set(entries.values_list("seq", flat=True))
        seqs |= _covering(conversation, seqs)
        return _erase(conversation, seqs, chosen, user, reason)


def erase_conversation(*, conversation: Conversation, user: User, reason: str) -> int:
    """Shred all of it, its title too, and take it out of sight."""
    with transaction.atomic():
        _begin(conversation, user)
        seqs = set(conversation.entries.values_list("seq", flat=True))
        turns = set(conversation.turns.values_list("pk", flat=True))
        erased = _erase(conversation, seqs, turns, user, reason)
        conversation.title, conversation.deleted_at = "", timezone.now()
        conversation.save(update_fields=["title", "deleted_at"])
        return erased


def _begin(conversation: Conversation, user: User) -> None:
    require(user, conversation.workspace, "shred")
    _require_rest(conversation)


def _require_rest(conversation: Conversation) -> None:
    runs.lock(conversation.pk)
    if conversation.turns.filter(state__in=Turn.OPEN).exists():
        raise Conflict(_("An agent is at work here. Stop it, then erase."))


def _children_of(turns: Collection[UUID]) -> list[Conversation]:
    """The conversations in which tasks of these turns were done, down to the last."""
    found: list[Conversation] = []
    while turns:
        made = Conversation.objects.filter(delegation__parent_run__turn__in=turns)
        below = list(made.order_by("created_at", "pk"))
        found += below
        turns = set(
            Turn.objects.filter(conversation__in=below).values_list("pk", flat=True)
        )
    return found


def _covering(conversation: Conversation, seqs: set[int]) -> set[int]:
    """Entries that say what shall go in other words: summaries, and steps of pruning."""
    kinds = (Entry.Kind.SUMMARY, Entry.Kind.NOTICE)
    entries = conversation.entries.filter(kind__in=kinds)
    found = list(entries.select_related("stored"))
    covered = zip(found, transcript.bodies(found), strict=True)
    return {entry.seq for entry, body in covered if _covers(body, seqs)}


def _covers(body: dict[str, Any], seqs: set[int]) -> bool:
    """A step of pruning holds the smaller arguments that stand for larger ones."""
    first, last = body.get("covers", (1, 0))
    if body.get("type") == "prune" and not seqs.isdisjoint(map(int, body["arguments"])):
        return True
    return any(first <= seq <= last for seq in seqs)


def _erase(
    conversation: Conversation,
    seqs: set[int],
    turns: Collection[UUID],
    user: User,
    reason: str,
) -> int:
    """Redact these entries, and all that children of the turns said."""
    erased = _redact(conversation, seqs, user, reason)
    if not erased:
        raise Conflict(_("All of this was erased already."))
    for child in _children_of(turns):
        _require_rest(child)
        every = set(child.entries.values_list("seq", flat=True))
        erased += _redact(child, every, user, reason)
    audit.record(
        "conversation.erased",
        by=user,
        workspace=conversation.workspace,
        conversation=conversation,
        new={"entries": erased, "reason": reason.strip()},
    )
    return erased


def _redact(conversation: Conversation, seqs: set[int], user: User, reason: str) -> int:
    """Redact in portions; what was erased before is not named again."""
    kept = conversation.entries.filter(seq__in=seqs, stored__text__isnull=False)
    kept = kept.exclude(kind=Entry.Kind.REDACTION)
    wanted = sorted(kept.values_list("seq", flat=True))
    if not wanted:
        return 0
    for start in range(0, len(wanted), MOST_ENTRIES):
        redact(conversation, wanted[start : start + MOST_ENTRIES], user, reason)
    _blank_copies(conversation, wanted)
    _forget_title(conversation, wanted)
    live.push_on_commit(
        live.conversation_group(conversation.pk), {"type": "conversation.changed"}
    )
    return len(wanted)


def _blank_copies(conversation: Conversation, seqs: Sequence[int]) -> None:
    """Arguments, outcomes, questions, answers, queries, queued words, notes."""
    entries = conversation.entries.filter(seq__in=seqs)
    calls = ToolCall.objects.filter(entry__in=entries)
    erased = Run.objects.filter(turn__entries__in=entries)
    Wait.objects.filter(run__in=erased).update(payload={}, answer=None)
    calls.update(arguments="{}", argument_hash="", outcome={"output": ""})
    LoadedTool.objects.filter(run__in=erased).update(query="")
    Memory.objects.filter(turn__entries__in=entries).delete()
    ModelCall.objects.filter(run__in=erased).update(error="")
    names = entries.exclude(client_id=None).values_list("client_id", flat=True)
    QueuedMessage.objects.filter(
        conversation=conversation, client_id__in=list(names)
    ).update(body={})
    conversation.queued_messages.exclude(withdrawn_at=None).update(body={})


def _forget_title(conversation: Conversation, seqs: Sequence[int]) -> None:
    """A title is the beginning of the first message."""
    first = conversation.entries.filter(kind=Entry.Kind.USER).order_by("seq").first()
    if first and first.seq in seqs:
        conversation.title = ""
        conversation.save(update_fields=["title"])
        Delegation.objects.filter(conversation=conversation).update(
            title="", warnings=[]
        )
