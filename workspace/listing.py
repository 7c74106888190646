"""The list of conversations: who may see them, what is new in them, what runs."""

from __future__ import annotations

from typing import Any, Literal

from django.db.models import (
    Count,
    Exists,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.functions import Coalesce, Greatest

from workspace.models import Conversation, Entry, ReadMark, Turn, User, Workspace

Filter = Literal["all", "mine", "unread", "running"]
FILTERS: tuple[Filter, ...] = ("all", "mine", "unread", "running")
#: Conversations on the list; the search finds the others.
MOST_LISTED = 100
#: Newest entries among which new messages are counted.
MOST_SEARCHED = 300


def listed(
    workspace: Workspace, user: User, *, words: str = "", only: str = "all"
) -> list[Conversation]:
    """The newest conversations that fit, each with its state, in one query."""
    found: QuerySet[Any] = _annotated(
        Conversation.objects.visible_to(user).of_people().filter(workspace=workspace),
        user,
    )
    for word in words.split():
        found = found.filter(
            Q(title__icontains=word)
            | Q(created_by__display_name__icontains=word)
            | Q(created_by__username__icontains=word)
        )
    if only == "mine":
        found = found.filter(created_by=user)
    elif only == "unread":
        found = found.filter(new__gt=0)
    elif only == "running":
        found = found.filter(Q(is_running=True) | Q(waits=True))
    return list(found.order_by("-updated_at")[:MOST_LISTED])


def _annotated(found: QuerySet[Conversation], user: User) -> QuerySet[Conversation]:
    mark = ReadMark.objects.filter(conversation=OuterRef("pk"), user=user)
    turns = Turn.objects.filter(conversation=OuterRef("pk"))
    messages = (
        Entry.objects.filter(
            conversation=OuterRef("pk"),
            seq__gt=OuterRef("read_seq"),
            kind__in=(Entry.Kind.USER, Entry.Kind.ASSISTANT),
        )
        .order_by()
        .values("conversation")
        .annotate(count=Count("pk"))
        .values("count")
    )
    return (
        found.select_related("workspace", "created_by")
        .annotate(
            read_seq=Greatest(
                Coalesce(Subquery(mark.values("seq")[:1]), Value(0)),
                F("head_seq") - MOST_SEARCHED,
            ),
            is_running=Exists(
                turns.filter(state__in=(Turn.State.QUEUED, Turn.State.RUNNING))
            ),
            is_waiting=Exists(turns.filter(state=Turn.State.WAITING)),
        )
        .annotate(
            new=Coalesce(Subquery(messages, output_field=IntegerField()), Value(0))
        )
    )
