"""What people type into the composer that is a command and no message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from django.urls import reverse

from workspace.models import ApprovalLevel, Conversation

COMPACT = re.compile(r"/compact(\s.*)?", re.DOTALL)
#: Names that `/mode` takes for an approval level. "plan" is a mode there: the level of
#: that name has a command of its own.
LEVELS = (ApprovalLevel.ACCEPT.value, ApprovalLevel.AUTO.value)


@dataclass(frozen=True, slots=True)
class Choice:
    """A mode or an approval level that somebody typed; the name may be unknown."""

    kind: Literal["mode", "level"]
    name: str


def opened_by(conversation: Conversation, text: str) -> str:
    """The address that a command opens; "" for any other text."""
    match text.split():
        case ["/context"]:
            page, query = "context", ""
        case ["/context", "detail"]:
            page, query = "context", "?open"
        case ["/tools"]:
            page, query = "tools", ""
        case ["/mode"]:
            page, query = "mode_choice", ""
        case _:
            return ""
    where = [conversation.workspace.slug, conversation.pk]
    return reverse(f"agents:{page}", args=where) + query


def focus_of(text: str) -> str | None:
    """What `/compact` shall keep in particular; None for any text but the command."""
    match = COMPACT.fullmatch(text.strip())
    return (match[1] or "").strip() if match else None


def choice_of(text: str) -> Choice | None:
    """What `/mode NAME` or `/plan` chooses; None for any other text."""
    match text.split():
        case ["/plan"]:
            return Choice("level", ApprovalLevel.PLAN.value)
        case ["/mode", name]:
            plain = name.lower()
            return Choice("level" if plain in LEVELS else "mode", plain)
    return None


def is_command(conversation: Conversation, text: str) -> bool:
    return bool(
        focus_of(text) is not None or choice_of(text) or opened_by(conversation, text)
    )
