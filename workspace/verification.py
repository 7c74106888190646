"""Whether a transcript is what was once written: chain, bodies, blobs, signed heads."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.db.models import F, Max, Q

from workspace import blobs, signing
from workspace.chain import Link, Walk, check_body
from workspace.errors import BrokenChain, TranscriptError
from workspace.models import Conversation, Entry, HeadSignature
from workspace.transcript import REFERENCE, link_of, workspace_of

logger = logging.getLogger(__name__)

BATCH = 500
#: What reading a damaged row raises: the database's own errors, or a field's.
UNREADABLE = (DatabaseError, ValueError, TypeError, AttributeError, OverflowError)


def verify(conversation: Conversation) -> int:
    """Walk everything; returns how many entries there are.

    Raises BrokenChain with the first bad seq. Entries appended meanwhile are left
    to the next time.
    """
    # Signatures first: what is signed now is below the head that is read next.
    signatures = list(
        HeadSignature.objects.filter(conversation=conversation).order_by("seq")
    )
    seq, digest = _head(conversation.pk)
    walk = Walk()
    heads = _SignedHeads(conversation.pk, {item.seq: item for item in signatures})
    for entry in _checked(conversation.pk, walk, seq):
        heads.check(entry.seq, entry.digest)
    if walk.digest != digest:
        raise BrokenChain(seq, "the conversation's head names another digest.")
    _check_end(conversation.pk, seq, signatures)
    return seq


def sign_heads(conversations: Collection[Conversation] | None = None) -> int:
    """Sign every head that moved since it was last signed; returns how many.

    What was added since is verified first: a changed tail is logged, never signed.
    """
    moved = Conversation.objects.filter(head_seq__gt=0)
    if conversations is not None:
        moved = moved.filter(pk__in=[item.pk for item in conversations])
    moved = moved.annotate(signed=Max("head_signatures__seq"))
    moved = moved.filter(Q(signed=None) | Q(signed__lt=F("head_seq")))
    return sum(_sign_if_sound(item) for item in moved.iterator())


def sign_head(conversation: Conversation) -> None:
    """Sign one head as it is now; raises BrokenChain when it does not verify."""
    seq, digest = _head(conversation.pk)
    last = (
        HeadSignature.objects.filter(conversation=conversation).order_by("seq").last()
    )
    if seq == 0 or (last is not None and last.seq >= seq):
        return
    walk = Walk(last.seq, last.digest) if last else Walk()
    for _ in _checked(conversation.pk, walk, seq):
        pass  # each step raises when it finds something wrong
    if walk.digest != digest:
        raise BrokenChain(seq, "the conversation's head names another digest.")
    HeadSignature.objects.bulk_create(
        [
            HeadSignature(
                conversation=conversation,
                seq=seq,
                digest=digest,
                signature=signing.sign(conversation.pk, seq, digest),
            )
        ],
        ignore_conflicts=True,  # another process signed the same head
    )


def stored_entries(conversation_id: UUID, after: int, last: int) -> Iterator[Entry]:
    """Entries with after < seq <= last and their bodies; BrokenChain if one is gone."""
    while after < last:
        batch = _read(conversation_id, after, last)
        if not batch:
            raise BrokenChain(after + 1, "it is missing.")
        yield from batch
        after = batch[-1].seq


def redacted_seqs(conversation_id: UUID) -> set[int]:
    """Every seq that a redaction of the conversation names."""
    texts = Entry.objects.filter(
        conversation_id=conversation_id, kind=Entry.Kind.REDACTION
    ).values_list("stored__text", flat=True)
    return {seq for text in texts for seq in named_seqs(text)}


def named_seqs(text: str | None) -> list[int]:
    """The seqs in a redaction's body; none if it is not one."""
    try:
        named = json.loads(text or "null")["entries"]
    except (ValueError, TypeError, KeyError):
        return []
    return [seq for seq in named if type(seq) is int] if type(named) is list else []


@dataclass
class _SignedHeads:
    """The signatures of one conversation, checked as the walk passes them."""

    conversation_id: UUID
    by_seq: dict[int, HeadSignature]
    last_sound: int = 0
    _key: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if not self.by_seq:
            return
        if not signing.key_exists():
            raise TranscriptError(
                f"The signing key {settings.SIGNING_KEY_FILE!r} is missing, so signed "
                "heads cannot be checked; restore it from a backup."
            )
        self._key = signing.public_key()

    def check(self, seq: int, digest: str) -> None:
        signed = self.by_seq.get(seq)
        if signed is None:
            return
        if signed.digest != digest:
            raise BrokenChain(
                seq,
                "its digest is not the one that was signed: the entries from "
                f"{self.last_sound + 1} on may have been rewritten.",
            )
        if not signing.is_signed(
            self._key, self.conversation_id, seq, digest, signed.signature
        ):
            raise BrokenChain(
                seq,
                "its signature is forged, or made with another key than "
                f"{settings.SIGNING_KEY_FILE!r}.",
            )
        self.last_sound = seq


def _checked(conversation_id: UUID, walk: Walk, last: int) -> Iterator[Entry]:
    """The entries up to `last`, each after its link and its body were checked."""
    redacted: set[int] | None = None
    for entry in stored_entries(conversation_id, walk.seq, last):
        walk.step(_link(entry), entry.digest)
        stored = getattr(entry, "stored", None)
        if stored is None:
            raise BrokenChain(entry.seq, "its body was deleted.")
        if stored.text is None or stored.nonce is None:
            if redacted is None:
                redacted = redacted_seqs(conversation_id)
            if entry.seq not in redacted or stored.text != stored.nonce:
                raise BrokenChain(
                    entry.seq, "its body was taken out, and no redaction names it."
                )
        else:
            check_body(entry.seq, stored.nonce, stored.text, entry.body_digest)
            _check_blobs(entry, stored.text)
        yield entry


def _link(entry: Entry) -> Link:
    try:
        return link_of(entry)
    except UNREADABLE:
        raise BrokenChain(entry.seq, "its row cannot be read.") from None


def _check_blobs(entry: Entry, text: str) -> None:
    stored = json.loads(text)
    sha256 = stored.get(REFERENCE, {}).get("sha256")
    names = {sha256, stored.get("output_sha256")} - {None, ""}
    for name in names:
        try:
            data = blobs.get(workspace_of(entry.conversation_id), name)
        except blobs.DamagedBlob as error:
            raise BrokenChain(entry.seq, str(error)) from error
        if name == sha256:
            _check_large(entry, data)


def _check_large(entry: Entry, data: bytes) -> None:
    """A large tool result names its whole output inside its own blob."""
    output = json.loads(data.partition(b"\n")[2]).get("output_sha256")
    if output:
        try:
            blobs.get(workspace_of(entry.conversation_id), output)
        except blobs.DamagedBlob as error:
            raise BrokenChain(entry.seq, str(error)) from error


def _read(conversation_id: UUID, after: int, last: int) -> list[Entry]:
    found = Entry.objects.filter(
        conversation_id=conversation_id, seq__gt=after, seq__lte=last
    ).select_related("stored")
    try:
        return list(found.order_by("seq")[:BATCH])
    except UNREADABLE:
        return _read_up_to_damage(conversation_id, after, last)


def _read_up_to_damage(conversation_id: UUID, after: int, last: int) -> list[Entry]:
    """One by one, so that the row that cannot be read is known by its seq."""
    sound: list[Entry] = []
    for seq in range(after + 1, min(last, after + BATCH) + 1):
        found = Entry.objects.filter(conversation_id=conversation_id, seq=seq)
        try:
            entry = found.select_related("stored").first()
        except UNREADABLE as error:
            if sound:
                return sound  # these may hold an earlier fault
            raise BrokenChain(seq, f"its row cannot be read: {error}.") from error
        if entry is None:
            return sound
        sound.append(entry)
    return sound


def _head(conversation_id: UUID) -> tuple[int, str]:
    found = Conversation.objects.filter(pk=conversation_id)
    head = found.values_list("head_seq", "head_digest").first()
    if head is None:
        raise TranscriptError(f"There is no conversation {str(conversation_id)!r}.")
    return head


def _check_end(
    conversation_id: UUID, seq: int, signatures: list[HeadSignature]
) -> None:
    if signatures and signatures[-1].seq > seq:
        raise BrokenChain(
            seq + 1, f"it was cut off: a signed head reaches {signatures[-1].seq}."
        )
    found = Entry.objects.filter(conversation_id=conversation_id)
    last = found.aggregate(last=Max("seq"))["last"] or 0
    head_seq, _ = _head(conversation_id)  # read later, so it may have moved on
    if last > head_seq:
        raise BrokenChain(head_seq + 1, "it lies beyond the conversation's head.")


def _sign_if_sound(conversation: Conversation) -> bool:
    try:
        sign_head(conversation)
    except BrokenChain:
        logger.exception("Conversation %s was not signed", conversation.pk)
        return False
    return True
