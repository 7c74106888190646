"""Append to a transcript and read it. Entries are never changed afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from workspace import blobs
from workspace.chain import Link, canonical, digest_body, new_nonce, stamp
from workspace.errors import TranscriptError
from workspace.models import Conversation, Entry, EntryBody, Turn, User
from workspace.prepared import Select, Update, given, insert

#: Bodies above this many bytes lie in the blob store.
INLINE_BYTES = 64 * 1024
#: The one key of a stored body whose content lies in the blob store.
REFERENCE = "$blob"
NAMED_BLOB = re.compile(r'"([0-9a-f]{64})"')


@dataclass(frozen=True)
class Draft:
    """An entry that is about to be appended."""

    kind: Entry.Kind
    body: dict[str, Any]
    turn: Turn | None = None
    author: User | None = None
    client_id: str | None = None


@dataclass(frozen=True)
class Sealed:
    """A draft with the text that will be stored; its blob, if any, is on disk."""

    draft: Draft
    text: str
    nonce: str
    body_digest: str


def seal(
    conversation_id: UUID, *drafts: Draft, workspace_id: UUID | None = None
) -> list[Sealed]:
    """Make the stored texts and write the large ones to the blob store.

    `append` does this itself; call it first when the transaction is already open by
    the time of the append and a body may be large. A conversation that is not stored
    yet needs its `workspace_id`.
    """
    return [_seal(conversation_id, draft, workspace_id) for draft in drafts]


def append(
    conversation_id: UUID,
    *drafts: Draft | Sealed,
    guard: Callable[[], None] | None = None,
) -> list[Entry]:
    """Add the next entries in one transaction; four statements however many they are.

    1. Move the head, which locks the conversation against every other append.
    2. Call `guard`, which raises (LeaseLost) to take everything back.
    3. Insert the entries and their bodies.
    4. Store the new head digest.

    Raises IntegrityError when a client id is already there; a surrounding transaction
    stays usable then, and is rolled back whole when `guard` raises.
    """
    if not drafts:
        return []
    sealed = [
        draft if isinstance(draft, Sealed) else _seal(conversation_id, draft)
        for draft in drafts
    ]
    # A savepoint costs two statements; only a repeated client id is caught inside.
    with transaction.atomic(savepoint=any(item.draft.client_id for item in sealed)):
        seq, digest = _move_head(conversation_id, len(sealed))
        if guard is not None:
            guard()
        return _insert(conversation_id, sealed, seq, digest)


def body(entry: Entry) -> dict[str, Any]:
    """What the entry says; {} once it was redacted."""
    return bodies([entry])[0]


def bodies(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The bodies in the same order; at most one query, none if they came along."""
    unread = [entry.pk for entry in entries if not Entry.stored.is_cached(entry)]
    texts = dict(
        EntryBody.objects.filter(entry__in=unread).values_list("entry_id", "text")
        if unread
        else []
    )
    unread_ids = set(unread)
    return [
        open_text(
            entry.conversation_id,
            texts.get(entry.pk) if entry.pk in unread_ids else entry.stored.text,
        )
        for entry in entries
    ]


_LATER = Select[Entry](
    lambda: (
        Entry.objects.filter(
            conversation=given("conversation", Entry, "conversation"),
            seq__gt=given("after", Entry, "seq"),
        )
        .select_related("stored", "author")
        .order_by("seq")
    )
)


def entries(
    conversation_id: UUID,
    after: int = 0,
    before: int | None = None,
    limit: int | None = None,
) -> list[Entry]:
    """Entries with after < seq < before, in order, their stored bodies loaded.

    With `limit` they are the first ones after `after`; or, when only `before` is
    given, the last ones before it.
    """
    if before is None and limit is None:
        return _LATER.all(conversation=conversation_id, after=after)
    found = Entry.objects.filter(conversation_id=conversation_id, seq__gt=after)
    found = found.select_related("stored", "author")
    if before is not None:
        found = found.filter(seq__lt=before)
    if limit is not None and before is not None and not after:
        return list(found.order_by("-seq")[:limit])[::-1]
    return list(found.order_by("seq")[:limit])


_CONTENTS = Select[tuple[int, str, str | None]](
    lambda: (
        Entry.objects.filter(
            conversation=given("conversation", Entry, "conversation"),
            seq__gt=given("after", Entry, "seq"),
        )
        .order_by("seq")
        .values_list("seq", "kind", "stored__text")
    )
)


def contents(
    conversation_id: UUID, after: int = 0
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Seq, kind and body of the entries behind `after`, in order: one query.

    Without rows of models, which take most of the time when there are thousands.
    """
    for seq, kind, text in _CONTENTS.all(conversation=conversation_id, after=after):
        yield seq, kind, open_text(conversation_id, text)


_SAID = Select[Entry](
    lambda: Entry.objects.filter(
        conversation=given("conversation", Entry, "conversation"),
        client_id=given("client_id", Entry, "client_id"),
    ).select_related("stored", "turn")
)


def find_by_client_id(conversation_id: UUID, client_id: str) -> Entry | None:
    """The entry that an earlier try of the same post made."""
    return _SAID.first(conversation=conversation_id, client_id=client_id)


def open_text(conversation_id: UUID, text: str | None) -> dict[str, Any]:
    """The body of a stored text, from the blob store if that is where it lies."""
    if text is None:
        return {}
    stored: dict[str, Any] = json.loads(text)
    if REFERENCE not in stored:
        return stored
    data = blobs.get(workspace_of(conversation_id), stored[REFERENCE]["sha256"])
    large: dict[str, Any] = json.loads(split_blob(data)[1])
    return large


def split_blob(data: bytes) -> tuple[str, str]:
    """The salt and the canonical text of a body that lies in the blob store."""
    salt, _, text = data.decode().partition("\n")
    return salt, text


def workspace_of(conversation_id: UUID) -> UUID:
    found = Conversation.objects.filter(pk=conversation_id)
    workspace_id = found.values_list("workspace_id", flat=True).first()
    if workspace_id is None:
        raise TranscriptError(f"There is no conversation {str(conversation_id)!r}.")
    return workspace_id


def link_of(entry: Entry) -> Link:
    return Link(
        seq=entry.seq,
        kind=str(entry.kind),
        turn=str(entry.turn_id) if entry.turn_id else None,
        author=str(entry.author_id) if entry.author_id else None,
        created_at=stamp(entry.created_at),
        body_digest=entry.body_digest,
    )


def _seal(
    conversation_id: UUID, draft: Draft, workspace_id: UUID | None = None
) -> Sealed:
    if draft.turn and str(draft.turn.conversation_id) != str(conversation_id):
        raise ValueError(f"{draft.turn} belongs to another conversation.")
    text = canonical(draft.body)
    data = text.encode()
    if len(data) > INLINE_BYTES or REFERENCE in draft.body:
        workspace_id = workspace_id or workspace_of(conversation_id)
        text = _put_aside(workspace_id, text, data)
    nonce = new_nonce()
    return Sealed(draft, text, nonce, digest_body(nonce, text))


def _put_aside(workspace_id: UUID, text: str, data: bytes) -> str:
    """Write a large body to the blob store; returns the text that stands for it.

    The file opens with a salt: no two entries share one, so redacting an entry can
    delete its file at once. `names` keeps the other blobs that the body speaks of in
    sight.
    """
    sha256 = blobs.put(workspace_id, new_nonce().encode() + b"\n" + data)
    names = sorted(set(NAMED_BLOB.findall(text)))
    return canonical({REFERENCE: {"sha256": sha256, "size": len(data), "names": names}})


def _move_head(conversation_id: UUID, count: int) -> tuple[int, str]:
    """Lock the conversation; returns the new entries' first seq and the old digest."""
    table = connection.ops.quote_name(Conversation._meta.db_table)
    key = Conversation._meta.pk.get_db_prep_value(conversation_id, connection)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET head_seq = head_seq + %s WHERE id = %s"  # noqa: S608 - its own table's name
            " RETURNING head_seq, head_digest",
            [count, key],
        )
        rows = cursor.fetchall()
    if not rows:
        raise TranscriptError(f"There is no conversation {str(conversation_id)!r}.")
    head_seq, head_digest = rows[0]
    return head_seq - count + 1, head_digest


_CONVERSATION = Update(
    lambda: Conversation.objects.filter(pk=given("pk", Conversation, "id"))
)


def _insert(
    conversation_id: UUID, sealed: Iterable[Sealed], first: int, digest: str
) -> list[Entry]:
    now = timezone.now()
    made: list[Entry] = []
    stored: list[EntryBody] = []
    for seq, item in enumerate(sealed, start=first):
        entry = Entry(
            conversation_id=conversation_id,
            seq=seq,
            kind=item.draft.kind,
            turn=item.draft.turn,
            author=item.draft.author,
            client_id=item.draft.client_id or None,
            body_digest=item.body_digest,
            created_at=now,
        )
        digest = entry.digest = link_of(entry).digest(digest)
        made.append(entry)
        stored.append(EntryBody(text=item.text, nonce=item.nonce))
    insert(*made)
    for entry, entry_body in zip(made, stored, strict=True):
        entry_body.entry = entry
    insert(*stored)
    _CONVERSATION.run({"head_digest": digest, "updated_at": now}, pk=conversation_id)
    return made
