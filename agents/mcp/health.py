"""What is stored of a server: what it listed last, and how it fares.

Each is one statement; the conversations of the workspace learn of it with their next
request, by a notice at the end.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from agents.mcp.listing import Listing
from agents.models import McpServer
from agents.providers.wire import clean
from workspace.redaction import redact

_LONGEST_REASON = 500  # characters


def listed(server_id: UUID, listing: Listing) -> None:
    """The server answered, and offers this. One that somebody disconnected stays so:
    a connection that is still open must not bring it back."""
    _live(server_id).exclude(state=McpServer.State.LEFT).update(
        state=McpServer.State.READY,
        reason=_short("; ".join(f"left out {one}" for one in listing.refused)),
        instructions=listing.instructions,
        tools=list(listing.tools),
        digest=listing.digest,
        listed_at=timezone.now(),
    )


def connecting(server_id: UUID) -> None:
    _live(server_id).update(state=McpServer.State.CONNECTING, reason="")


def failed(server_id: UUID, reason: str) -> None:
    """The server cannot be reached; what it offered stays known."""
    _live(server_id).update(state=McpServer.State.FAILED, reason=_short(reason))


def left(server_id: UUID, reason: str) -> None:
    """Somebody disconnected it; what it offered stays known."""
    _live(server_id).update(state=McpServer.State.LEFT, reason=_short(reason))


def _live(server_id: UUID) -> QuerySet[McpServer]:
    return McpServer.objects.filter(pk=server_id, deleted_at=None)


def _short(reason: str) -> str:
    """One line; secrets in what a server says of itself are taken out."""
    return redact(" ".join(clean(reason).split()))[:_LONGEST_REASON]
