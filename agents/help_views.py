"""Help that is written, not translated word by word: one text for each language."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

#: Languages that have a text of their own; the others read the first one's.
WRITTEN = ("en", "ko")


@login_required
@require_safe
def context(request: HttpRequest) -> HttpResponse:
    """How to keep what every request carries small, and how to measure it."""
    language = (get_language() or "").partition("-")[0]
    written = language if language in WRITTEN else WRITTEN[0]
    return render(
        request,
        "agents/help_context.html",
        {"text": f"agents/_help_context_{written}.html"},
    )
