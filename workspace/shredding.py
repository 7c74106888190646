"""Erasing what an entry says, in the open: the chain still verifies afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from django.db import connection, models, transaction
from django.dispatch import Signal

from workspace import attachments, blobs, search, triggers
from workspace.errors import BadInput
from workspace.models import Conversation, Entry, EntryBody, User
from workspace.transcript import NAMED_BLOB, Draft, append

#: The redaction's own body must stay in the row, where the trigger reads it.
MOST_ENTRIES = 2000
LONGEST_REASON = 2000

#: Sent inside the transaction, with `turns`: a set of ids. Whoever keeps copies of what
#: was said in those turns blanks them; if that fails, nothing is shredded.
shredded = Signal()


def redact(
    conversation: Conversation, seqs: Sequence[int], by: User, reason: str
) -> Entry:
    """Shred the bodies of these entries; returns the redaction that names them.

    1. Append the `redaction` entry: which, by whom, why.
    2. Set the bodies to NULL, which the triggers allow for what it names.
    3. Tell those who keep copies: `shredded`.
    4. On commit, delete the files that no remaining entry names.

    The caller has checked that `by` may do this.
    """
    wanted = sorted(set(seqs))
    with transaction.atomic():
        _check(conversation, wanted, reason)
        triggers.overwrite_deleted(connection)
        said = {"entries": wanted, "by": str(by.pk), "reason": reason.strip()}
        [entry] = append(conversation.pk, Draft(Entry.Kind.REDACTION, said, author=by))
        files = _shred(conversation, wanted)
        attachments.forget_erased(conversation, files)
        named = Entry.objects.filter(conversation=conversation, seq__in=wanted)
        turns = set(named.exclude(turn=None).values_list("turn", flat=True))
        shredded.send(sender=Conversation, turns=turns)
        transaction.on_commit(partial(_remove_files, conversation.workspace_id, files))
    return entry


def _check(conversation: Conversation, seqs: list[int], reason: str) -> None:
    if not reason.strip():
        raise BadInput("Say why these entries are erased; the reason stays readable.")
    if len(reason) > LONGEST_REASON:
        raise BadInput(f"Give the reason in at most {LONGEST_REASON} characters.")
    if not 0 < len(seqs) <= MOST_ENTRIES:
        raise BadInput(f"Erase between 1 and {MOST_ENTRIES} entries at a time.")
    kinds = dict(
        Entry.objects.filter(conversation=conversation, seq__in=seqs).values_list(
            "seq", "kind"
        )
    )
    for seq in seqs:
        if seq not in kinds:
            raise BadInput(f"There is no entry {seq} in this conversation.")
        if kinds[seq] == Entry.Kind.REDACTION:
            raise BadInput(f"Entry {seq} is itself a redaction; those stay readable.")


def _shred(conversation: Conversation, seqs: list[int]) -> set[str]:
    """Set the bodies to NULL; returns the digests of the files that they named."""
    stored = EntryBody.objects.filter(
        entry__conversation=conversation, entry__seq__in=seqs
    )
    texts = list(stored.exclude(text=None).values_list("pk", "text"))
    # Not through the model's own manager, which refuses every update.
    bodies: models.QuerySet[EntryBody] = models.QuerySet(EntryBody)
    bodies.filter(pk__in=[pk for pk, _ in texts]).update(text=None, nonce=None)
    search.forget(pk for pk, _ in texts)
    return {name for _, text in texts for name in NAMED_BLOB.findall(text)}


def _remove_files(workspace_id: UUID, files: set[str]) -> None:
    """Files first, then the rows that people reach them by; safe to repeat."""
    for name in files:
        if not attachments.is_named(workspace_id, name):
            blobs.forget(workspace_id, name)
