"""The recorded requests, for those who run the server."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from agents.simulator.app import SIMULATOR


@require_GET
@never_cache
def requests(request: HttpRequest) -> JsonResponse:
    """What this process's simulator was sent; `?since=ID` leaves out older ones."""
    if not settings.SIMULATOR or not getattr(request.user, "is_superuser", False):
        raise Http404
    since = request.GET.get("since", "0")
    after = int(since) if since.isdigit() else 0
    return JsonResponse({"requests": SIMULATOR.recorder.since(after)})
