"""The chat page's socket: forwards the conversation's pushes, answers catch-ups."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.urls import URLPattern, path

from workspace import presence
from workspace.access import can
from workspace.errors import NotVisible
from workspace.live import conversation_group, text_so_far
from workspace.models import Conversation, Membership, Turn
from workspace.prepared import Select, given
from workspace.sockets import Socket, in_pool

#: Turns whose state a catch-up tells: the open ones are always among the newest.
RECENT_TURNS = 20


_HEAD = Select[tuple[int]](
    lambda: (
        Conversation.objects.visible_to(given("user", Membership, "user"))
        .filter(pk=given("pk", Conversation, "id"))
        .values_list("head_seq")
    )
)


class ChatSocket(Socket):
    """Joined before anything is read, so that what is read has no gap after it."""

    @property
    def conversation_id(self) -> UUID:
        conversation_id: UUID = self.scope["url_route"]["kwargs"]["conversation_id"]
        return conversation_id

    def open(self) -> list[str]:
        found = _HEAD.first(user=self.user.pk, pk=self.conversation_id)
        if found is None:
            raise NotVisible
        [self.head] = found
        return [conversation_group(self.conversation_id)]

    async def greeted(self) -> None:
        await presence.arrive(self.conversation_id, self.user)

    async def left(self) -> None:
        await presence.leave(self.conversation_id, self.user)

    async def heard(self, message: dict[str, Any]) -> None:
        if "after" in message:
            await self.catch_up()
        elif "typing" in message and await in_pool(self._may_post):
            await presence.typing(self.conversation_id, self.user)

    def _may_post(self) -> bool:
        """Asked with each message: viewers only read, and roles change."""
        found = Conversation.objects.select_related("workspace")
        workspace = found.get(pk=self.conversation_id).workspace
        return can(self.user, workspace, "post")

    async def catch_up(self) -> None:
        """The head, the turns and the streams with their text so far.

        Streams are read first: one that ends in between has its entry under the head.
        """
        streams = await text_so_far(self.conversation_id)
        turns = await in_pool(self._turns)
        here = await presence.people(self.conversation_id, self.user)
        await self.tell(
            {
                "type": "sync",
                "head": self.head,
                "turns": turns,
                "streams": streams,
                "people": here,
            }
        )

    def _turns(self) -> list[dict[str, Any]]:
        self.open()
        turns = Turn.objects.filter(conversation=self.conversation_id)
        return [
            {"turn": str(turn_id), "state": state}
            for turn_id, state in turns.order_by("-created_at").values_list(
                "id", "state"
            )[:RECENT_TURNS]
        ][::-1]


routes: list[URLPattern] = [
    path("ws/c/<uuid:conversation_id>/", ChatSocket.as_asgi()),
]
