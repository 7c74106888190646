"""Files that people attach to messages, and images that tools bring.

A picture is kept by the rules of `images`, anything else must be text. The bytes go to
the blob store before the row that names them; a message copies what it needs into its
body, so that what the model is sent follows from entries alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from workspace import blobs, images, pace, room
from workspace.access import require
from workspace.errors import BadInput, Conflict, NotVisible, TooMuch
from workspace.models import Attachment, Conversation, EntryBody, QueuedMessage, User

#: Bytes of a text; characters of it that a message carries (spec: images).
MOST_TEXT = 5 * 1024 * 1024
INLINED = 20_000
#: Attachments of one message, and unsent ones of a person in one conversation.
MOST_OF_MESSAGE = 20
MOST_UNSENT = 40
#: What was never sent is forgotten after this time.
FORGOTTEN_AFTER = timedelta(days=2)
UPLOADS_PER_MINUTE = 60
_ENCODINGS = ("utf-8-sig", "cp949")


def attach(
    *, conversation: Conversation, author: User, name: str, data: bytes
) -> Attachment:
    """Keep a file for the author's next message.

    Raises TooMuch, BadInput or TooFast with what to do instead.
    """
    require(author, conversation.workspace, "attach")
    pace.check(f"uploads:{author.pk}", UPLOADS_PER_MINUTE, _uploads_too_fast())
    if unsent(conversation, author).count() >= MOST_UNSENT:
        raise TooMuch(
            _("There are %(n)d unsent files already. Send or remove some first.")
            % {"n": MOST_UNSENT}
        )
    images.check_size(len(data))
    folder = blobs.folder_of(conversation.workspace_id)
    room.require(folder, min(len(data), images.MOST_KEPT))
    if images.type_of(data):
        row = _image(conversation, name, data)
    else:
        row = _text(conversation, name, data)
    row.author = author
    with transaction.atomic():
        blobs.register(conversation.workspace_id, row.sha256, row.size, row.mime)
        row.save(force_insert=True)
    return row


def _uploads_too_fast() -> str:
    return _(
        "That is more than %(n)d files in a minute. Wait a moment, then go on."
    ) % {"n": UPLOADS_PER_MINUTE}


def _image(conversation: Conversation, name: str, data: bytes) -> Attachment:
    kept = images.keep(conversation.workspace_id, data, name)
    return Attachment(
        conversation=conversation, kind=Attachment.Kind.IMAGE, **kept.body()
    )


def _text(conversation: Conversation, name: str, data: bytes) -> Attachment:
    """A text, kept as UTF-8 whatever it came in."""
    if len(data) > MOST_TEXT:
        raise TooMuch(
            _(
                "%(name)s is larger than %(limit)d MB. Upload it on the Files page and "
                "name its path in the message."
            )
            % {"name": images.plain_name(name), "limit": MOST_TEXT // 1024**2}
        )
    text = decoded(data)
    if text is None:
        raise BadInput(
            _(
                "%(name)s is neither text nor a PNG, JPEG, WebP or GIF image. Upload it "
                "on the Files page and name its path in the message."
            )
            % {"name": images.plain_name(name)}
        )
    kept = text.encode()
    return Attachment(
        conversation=conversation,
        kind=Attachment.Kind.TEXT,
        name=images.plain_name(name, "text/txt"),
        mime="text/plain",
        sha256=blobs.put(conversation.workspace_id, kept),
        size=len(kept),
        characters=len(text),
    )


def decoded(data: bytes) -> str | None:
    """The text of a file: UTF-8, UTF-16 with a mark, or Korean Windows; None if none."""
    encodings = ("utf-16",) if data[:2] in (b"\xff\xfe", b"\xfe\xff") else _ENCODINGS
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        odd = sum(char < " " and char not in "\t\n\r\f\x1b" for char in text[:100_000])
        if "\0" not in text and odd * 100 <= len(text[:100_000]):
            return text.replace("\r\n", "\n")
    return None


def about(row: Attachment) -> str:
    """Its size in pixels or characters, in words."""
    if row.kind == Attachment.Kind.IMAGE:
        return f"{row.width} × {row.height}"
    return in_characters(row.characters)


def in_characters(count: int) -> str:
    """A length in words, with its thousands set apart."""
    return ngettext("%(counter)s character", "%(counter)s characters", count) % {
        "counter": number_format(count, force_grouping=True)
    }


def unsent(conversation: Conversation, author: User) -> QuerySet[Attachment]:
    """What a person has attached and not sent yet: it stands in their composer."""
    mine = Attachment.objects.filter(
        conversation=conversation, author=author, sent_at=None
    )
    return mine.select_related("conversation__workspace").order_by("created_at")


def remove(*, conversation: Conversation, user: User, attachment_id: UUID) -> None:
    """Take an unsent attachment back; its bytes go if nothing else names them."""
    row = unsent(conversation, user).filter(pk=attachment_id).first()
    if row is None:
        raise NotVisible
    _forget(row)


def forget_unsent() -> int:
    """Forget what was never sent; returns how many. Done by the beat."""
    old = Attachment.objects.filter(
        sent_at=None, created_at__lt=timezone.now() - FORGOTTEN_AFTER
    )
    rows = list(old.select_related("conversation")[:500])
    for row in rows:
        _forget(row)
    return len(rows)


def _forget(row: Attachment) -> None:
    workspace_id, sha256 = row.conversation.workspace_id, row.sha256
    row.delete()
    if not is_named(workspace_id, sha256):
        blobs.forget(workspace_id, sha256)


def is_named(workspace_id: UUID, sha256: str) -> bool:
    """Whether an attachment, a message on its way or an entry names the bytes."""
    within = {"conversation__workspace_id": workspace_id}
    if Attachment.objects.filter(sha256=sha256, **within).exists():
        return True
    named = f'"{sha256}"'
    waiting = QueuedMessage.objects.filter(
        sent_at=None, withdrawn_at=None, body__icontains=sha256, **within
    )
    return (
        waiting.exists()
        or EntryBody.objects.filter(
            entry__conversation__workspace_id=workspace_id, text__contains=named
        ).exists()
    )


def forget_erased(conversation: Conversation, names: Iterable[str]) -> None:
    """Forget what only the bodies named that were just erased.

    Inside the transaction of the redaction, which removes the bytes afterwards.
    """
    bodies = EntryBody.objects.filter(entry__conversation=conversation)
    held = Attachment.objects.filter(conversation=conversation, sha256__in=names)
    for row in held.exclude(sent_at=None):
        if not bodies.filter(text__contains=f'"{row.sha256}"').exists():
            row.delete()


def visible(conversation: Conversation, user: User, sha256: str) -> Attachment:
    """The attachment as the person may see it. Raises NotVisible.

    The caller has checked that the person may see the conversation.
    """
    found = Attachment.objects.filter(conversation=conversation, sha256=sha256)
    mine_or_sent = found.exclude(~Q(author=user) | Q(author=None), sent_at=None)
    row = mine_or_sent.order_by("created_at").first()
    if row is None:
        raise NotVisible
    return row


def chosen(
    conversation: Conversation, author: User, ids: Sequence[UUID]
) -> list[Attachment]:
    """A person's own attachments by their ids, in that order. Raises Conflict."""
    ids = list(dict.fromkeys(ids))
    if not ids:
        return []
    if len(ids) > MOST_OF_MESSAGE:
        raise TooMuch(
            _("A message can carry %(n)d files. Send the rest in another one.")
            % {"n": MOST_OF_MESSAGE}
        )
    mine = Attachment.objects.filter(
        conversation=conversation, author=author, pk__in=ids
    )
    found = {row.pk: row for row in mine.select_related("conversation")}
    if len(found) < len(ids):
        raise _missing()
    return [found[pk] for pk in ids]


def mark_sent(rows: Sequence[Attachment]) -> None:
    """Give them to the message that names them, inside the transaction of its post."""
    if not rows:
        return
    still = Attachment.objects.filter(pk__in=[row.pk for row in rows])
    if still.update(sent_at=Coalesce("sent_at", timezone.now())) < len(rows):
        raise _missing()


def _missing() -> Conflict:
    return Conflict(
        _("One of the attached files is no longer there. Remove it, attach it again.")
    )


def release(conversation: Conversation, author: User, body: Mapping[str, Any]) -> None:
    """Put the attachments of a message that was taken back into its author's composer."""
    names = [row["sha256"] for key in ("images", "files") for row in body.get(key, ())]
    Attachment.objects.filter(
        conversation=conversation, author=author, sha256__in=names
    ).update(sent_at=None)


def message_parts(rows: Iterable[Attachment]) -> dict[str, Any]:
    """What a message's body says of its attachments; {} for none."""
    pictures, files = [], []
    for row in rows:
        if row.kind == Attachment.Kind.IMAGE:
            pictures.append(_image_body(row))
        else:
            files.append(_file_body(row))
    parts = {"images": pictures, "files": files}
    return {key: value for key, value in parts.items() if value}


def _image_body(row: Attachment) -> dict[str, Any]:
    return images.Kept(
        row.sha256, row.mime, row.width, row.height, row.size, row.name
    ).body()


def _file_body(row: Attachment) -> dict[str, Any]:
    data = blobs.get(row.conversation.workspace_id, row.sha256)
    return {
        "sha256": row.sha256,
        "name": row.name,
        "size": row.size,
        "characters": row.characters,
        "text": data.decode()[:INLINED],
    }


def register_images(
    conversation_id: UUID, workspace_id: UUID, rows: Iterable[Mapping[str, Any]]
) -> None:
    """Note images that a tool brought, given as `images.Kept` bodies.

    Inside the transaction of the outcome that names them.
    """
    for row in rows:
        blobs.register(workspace_id, row["sha256"], row["size"], row["mime"])
        Attachment.objects.create(
            conversation_id=conversation_id,
            kind=Attachment.Kind.IMAGE,
            sent_at=timezone.now(),
            **row,
        )
