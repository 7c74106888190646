"""Writes to conversations, their turns and their messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from workspace import live, transcript
from workspace.access import Ability, require
from workspace.errors import BadInput, Conflict
from workspace.models import (
    Conversation,
    Entry,
    ReadMark,
    Turn,
    User,
)
from workspace.prepared import Update, given, insert
from workspace.transcript import Draft

MAX_TITLE = 200  # characters


def open_turn(
    *, conversation: Conversation, author: User, body: dict[str, Any], client_id: str
) -> tuple[Turn, Entry]:
    """Append a user message that begins a turn. Inside the caller's transaction."""
    turn = Turn(conversation=conversation, author=author)
    insert(turn)
    entry = say(turn=turn, author=author, body=body, client_id=client_id)
    files = [*body.get("images", ()), *body.get("files", ())]
    first = files[0]["name"] if files else ""
    name_conversation(conversation, str(body.get("text", "")) or first)
    return turn, entry


def say(*, turn: Turn, author: User, body: dict[str, Any], client_id: str) -> Entry:
    """Append a user message to a turn, and push that it is there."""
    draft = Draft(
        kind=Entry.Kind.USER, body=body, turn=turn, author=author, client_id=client_id
    )
    [entry] = transcript.append(turn.conversation_id, draft)
    push_appended(turn.conversation_id, [entry])
    return entry


def push_appended(conversation_id: UUID, entries: Iterable[Entry]) -> None:
    """Tell whoever looks on which entries are new, once they are stored."""
    for entry in entries:
        live.push_on_commit(
            live.conversation_group(conversation_id),
            {"type": "entry.appended", "seq": entry.seq, "kind": entry.kind},
        )


def plain_title(title: str) -> str:
    """A title that every database can hold."""
    return title.replace("\0", "").strip()


_UNTITLED = Update(
    lambda: Conversation.objects.filter(pk=given("pk", Conversation, "id"), title="")
)


def name_conversation(conversation: Conversation, text: str) -> None:
    """Give an untitled conversation the first line of its first message."""
    if conversation.title:
        return
    lines = map(plain_title, text.splitlines())
    line = next((row for row in lines if row), "")
    conversation.title = line[:77] + "…" if len(line) > 78 else line
    _UNTITLED.run({"title": conversation.title}, pk=conversation.pk)


def _require_people(conversation: Conversation) -> None:
    """A child keeps the name of its task, and is there as long as its parent is."""
    if conversation.parent_id:
        raise Conflict(
            _("This belongs to the conversation that handed out its task. Do it there.")
        )


@transaction.atomic
def rename(*, conversation: Conversation, user: User, title: str) -> None:
    """Give a conversation another title."""
    require(user, conversation.workspace, "post")
    _require_people(conversation)
    title = plain_title(title)
    if not title or len(title) > MAX_TITLE:
        raise BadInput(f"A title has 1 to {MAX_TITLE} characters.")
    conversation.title = title
    conversation.save(update_fields=["title"])
    live.push_on_commit(
        live.conversation_group(conversation.pk), {"type": "conversation.changed"}
    )


@transaction.atomic
def hide(*, conversation: Conversation, user: User) -> None:
    """Take a conversation out of sight. Its transcript stays, and still verifies."""
    ability: Ability = (
        "post" if conversation.created_by_id == user.pk else "manage_agents"
    )
    require(user, conversation.workspace, ability)
    _require_people(conversation)
    conversation.deleted_at = timezone.now()
    conversation.save(update_fields=["deleted_at"])
    live.push_on_commit(
        live.conversation_group(conversation.pk), {"type": "conversation.changed"}
    )


def mark_read(*, conversation: Conversation, user: User, seq: int) -> None:
    """Remember how far a person has read; never backwards."""
    seq = min(seq, conversation.head_seq)
    mark, created = ReadMark.objects.get_or_create(
        conversation=conversation, user=user, defaults={"seq": seq}
    )
    if not created:
        ReadMark.objects.filter(pk=mark.pk, seq__lt=seq).update(seq=seq)
