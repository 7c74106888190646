"""What the frame around every page shows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from workspace.models import Workspace


def shell(request: HttpRequest) -> dict[str, Any]:
    """The person's workspaces for the rail; queried only if a page shows them."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"rail": []}
    joined = Workspace.objects.visible_to(user).order_by("created_at")
    return {"rail": SimpleLazyObject(lambda: list(joined))}
