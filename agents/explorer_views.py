"""The context explorer: what the next request of a conversation carries, and why."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from agents import explorer
from agents.actions import agent_of
from agents.context.preview import Preview, as_json, preview
from agents.errors import ProviderError
from workspace.access import conversation_for
from workspace.errors import BadInput, Conflict
from workspace.middleware import wants_json
from workspace.models import Conversation

LONGEST_SEARCH = 200
MOST_DIGITS = 6


@login_required
@require_GET
def context(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """The page. `q` keeps the parts that hold these words, `open` opens the tree."""
    conversation = conversation_for(request.user, slug, conversation_id)
    found = seen(conversation)
    words = searched(request)
    segments = found.assembled.segments
    kept = explorer.matching(segments, words) if words else None
    return render(
        request,
        "agents/context.html",
        {
            "conversation": conversation,
            "workspace": conversation.workspace,
            "shown": explorer.explored(conversation, found),
            "words": words,
            "kept": kept,
            "is_open": "open" in request.GET or kept is not None,
            "texts": texts(),
        },
    )


@login_required
@require_GET
def context_json(
    request: HttpRequest, slug: str, conversation_id: UUID
) -> HttpResponse:
    """The same figures as `manage.py context --json`."""
    conversation = conversation_for(request.user, slug, conversation_id)
    return JsonResponse(as_json(seen(conversation)))


@login_required
@require_GET
def find(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """The digests of the parts that hold the words."""
    conversation = conversation_for(request.user, slug, conversation_id)
    segments = seen(conversation).assembled.segments
    return JsonResponse({"found": explorer.matching(segments, searched(request))})


@login_required
@require_GET
def segment(
    request: HttpRequest, slug: str, conversation_id: UUID, digest: str
) -> HttpResponse:
    """A part's text as it is sent: a piece of it as JSON, or all of it as plain text."""
    conversation = conversation_for(request.user, slug, conversation_id)
    segments = seen(conversation).assembled.segments
    number = request.GET.get("part", "0")
    if not number.isascii() or not number.isdigit() or len(number) > MOST_DIGITS:
        raise BadInput(_("%(name)s must be a whole number.") % {"name": "part"})
    text, following = explorer.part_of(segments, digest, int(number))
    if wants_json(request):
        return JsonResponse({"text": text, "next": following})
    pieces = [text]
    while following:
        text, following = explorer.part_of(segments, digest, following)
        pieces.append(text)
    response = HttpResponse("".join(pieces), content_type="text/plain; charset=utf-8")
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def seen(conversation: Conversation) -> Preview:
    """The next request. Raises Conflict when none can be made, and says why."""
    try:
        return preview(conversation, agent_of(conversation))
    except ProviderError as error:
        raise Conflict(error.message) from None


def searched(request: HttpRequest) -> str:
    return request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]


def texts() -> dict[str, str]:
    """What the page's script says."""
    return {
        "loading": _("Loading…"),
        "gone": _("The next request has changed meanwhile. Reload the page to see it."),
        "unreachable": _("The server does not answer."),
        "more": _("Show more of it"),
        "none": _("No part of the request holds these words."),
        "found": _("{n} parts"),
        "same": _("Nothing is changed yet."),
        "changed": _("{delta} tokens in each request ({percent} %)"),
    }
