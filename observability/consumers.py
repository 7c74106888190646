"""The run log's socket: says how far the log has come; the page fetches the rest."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.urls import URLPattern, path

from observability import queries
from observability.models import Record
from workspace.errors import NotVisible
from workspace.live import run_group
from workspace.sockets import Socket


class RunSocket(Socket):
    """Forwards `record.appended`; answers `{"after": seq}` with the head.

    The page asks once it is joined, so whatever is not under that head is pushed.
    """

    @property
    def run_id(self) -> UUID:
        run_id: UUID = self.scope["url_route"]["kwargs"]["run_id"]
        return run_id

    def open(self) -> list[str]:
        last = Record.objects.filter(run_id=OuterRef("pk")).order_by("-seq")
        found = (
            queries.visible_runs(self.user)
            .filter(pk=self.run_id)
            .annotate(head=Subquery(last.values("seq")[:1]))
            .values_list("pk", "head")
            .first()
        )
        if found is None:
            raise NotVisible
        self.head: int = found[1] or 0
        return [run_group(self.run_id)]

    async def heard(self, message: dict[str, Any]) -> None:
        if "after" in message:
            await self.tell(
                {"type": "sync", "run": str(self.run_id), "head": self.head}
            )


routes: list[URLPattern] = [
    path("ws/runs/<uuid:run_id>/", RunSocket.as_asgi()),
]
