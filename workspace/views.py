"""The conversations list and the chat page: parse, one call, render or redirect."""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from workspace import attachments, blobs, listing, search, texts, thread, transcript
from workspace.access import can, conversation_for, membership, workspace_for
from workspace.actions import conversations as actions
from workspace.errors import BadInput, NotVisible
from workspace.models import ApprovalLevel, Conversation, Turn, User, Workspace

HITS_ON_A_PAGE = 50


def person(request: HttpRequest) -> User:
    """Who asks, on pages behind `login_required`."""
    return cast(User, request.user)


def number(request: HttpRequest, name: str, default: int) -> int:
    """A whole number of the query. Raises BadInput for anything else."""
    given = request.GET.get(name, "")
    if not given:
        return default
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise BadInput(_("%(name)s must be a whole number.") % {"name": name})
    return int(given)


def asked_words(request: HttpRequest) -> str:
    """What is searched for, as the query has it."""
    return request.GET.get("q", "").replace("\0", "").strip()[:200]


def asked_list(request: HttpRequest, workspace: Workspace) -> dict[str, Any]:
    """What the list column needs, as the query asks for it."""
    words = asked_words(request)
    only = request.GET.get("show", "all")
    return {
        "workspace": workspace,
        "listed": listing.listed(workspace, person(request), words=words, only=only),
        "words": words,
        "hits": search.search(workspace, person(request), words) if words else [],
        "only": only,
        "filters": texts.filters(),
    }


@login_required
@require_GET
def conversations(request: HttpRequest, slug: str) -> HttpResponse:
    """A workspace's conversations; with HX-Request the list alone."""
    workspace = workspace_for(request.user, slug)
    context = asked_list(request, workspace)
    if request.headers.get("HX-Request") or "part" in request.GET:
        return render(request, "workspace/_conversation_list.html", context)
    context["may_post"] = can(request.user, workspace, "post")
    return render(request, "workspace/conversations.html", context)


@login_required
@require_GET
def search_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Every message of the workspace with these words, newest first."""
    workspace = workspace_for(request.user, slug)
    words = asked_words(request)
    before = number(request, "before", 0) or None
    found = search.search(
        workspace, person(request), words, before=before, limit=HITS_ON_A_PAGE + 1
    )
    shown = found[:HITS_ON_A_PAGE]
    more = {"q": words, "before": shown[-1].entry.pk} if shown else {}
    context = {
        "workspace": workspace,
        "words": words,
        "hits": shown,
        "older": urlencode(more) if len(found) > HITS_ON_A_PAGE else "",
    }
    return render(request, "workspace/search.html", context)


@login_required
@require_GET
def conversation(
    request: HttpRequest, slug: str, conversation_id: UUID
) -> HttpResponse:
    """The chat page: the end of the conversation, or the place a link names."""
    one = conversation_for(request.user, slug, conversation_id)
    at = number(request, "at", 0)
    if at:
        shown = thread.around(one, at)
    else:
        shown = thread.newest(one, everything="all" in request.GET)
    context = asked_list(request, one.workspace) | chat_context(request, one)
    context |= {"thread": shown, "at": at, "texts": texts.chat()}
    response = render(request, "workspace/conversation.html", context)
    actions.mark_read(conversation=one, user=person(request), seq=shown.last)
    return response


def chat_context(request: HttpRequest, one: Conversation) -> dict[str, Any]:
    """What the chat page and its parts share."""
    member = membership(request.user, one.workspace)
    last = one.turns.order_by("-created_at").first()
    return {
        "conversation": one,
        "workspace": one.workspace,
        "may_post": may_write(request, one),
        "may_stop": can(request.user, one.workspace, "post"),
        "may_shred": can(request.user, one.workspace, "shred"),
        "member": member,
        "turn": last,
        "open": bool(last and last.state in Turn.OPEN),
        "queued": one.queued_messages.filter(sent_at=None, withdrawn_at=None)
        .select_related("author")
        .order_by("created_at"),
        "unsent": attachments.unsent(one, person(request)),
        "todo": thread.todo_list(one),
        "levels": ApprovalLevel.choices,
        "last_user_seq": last_user_seq(one, last),
    }


def may_write(request: HttpRequest, one: Conversation) -> bool:
    """Whether the person may say something here; nobody does in a child."""
    return one.parent_id is None and can(request.user, one.workspace, "post")


def last_user_seq(one: Conversation, turn: Turn | None) -> int:
    """The message that the newest turn answers; 0 if there is none."""
    if turn is None:
        return 0
    first = one.entries.filter(turn=turn, kind="user").order_by("seq").first()
    return first.seq if first else 0


@login_required
@require_GET
def entries(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """A window of entries as a fragment, or what is new since a seq."""
    one = conversation_for(request.user, slug, conversation_id)
    limit = min(max(number(request, "limit", thread.WINDOW), 1), 300)
    before = number(request, "before", 0)
    if before:
        shown = thread.before(one, before, limit)
    else:
        shown = thread.after(one, number(request, "after", 0), limit)
    context = {
        "conversation": one,
        "workspace": one.workspace,
        "thread": shown,
        "may_post": may_write(request, one),
    }
    response = render(request, "workspace/_entries.html", context)
    response["X-First"], response["X-Last"] = str(shown.first), str(shown.last)
    response["X-Head"] = str(one.head_seq)
    return response


@login_required
@require_GET
def tail(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """What stands below the entries: the turn's state, queued messages, the steps."""
    one = conversation_for(request.user, slug, conversation_id)
    return render(request, "workspace/_tail.html", chat_context(request, one))


@login_required
@require_GET
def entry_raw(
    request: HttpRequest, slug: str, conversation_id: UUID, seq: int
) -> HttpResponse:
    """An entry as stored; for a tool's result, its whole output."""
    one = conversation_for(request.user, slug, conversation_id)
    entry = one.entries.filter(seq=seq).select_related("stored").first()
    if entry is None:
        raise NotVisible
    body = transcript.body(entry)
    if sha256 := body.get("output_sha256"):
        data = blobs.get(one.workspace_id, sha256)
    elif "output" in body:
        data = str(body["output"]).encode("utf-8", "replace")
    else:
        data = json.dumps(body, ensure_ascii=False, indent=2).encode()
    response = HttpResponse(data, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="entry-{seq}.txt"'
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


@login_required
@require_POST
def read(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Remember how far the page has been read."""
    one = conversation_for(request.user, slug, conversation_id)
    given = request.POST.get("seq", "")
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise BadInput(_("seq must be a whole number."))
    actions.mark_read(conversation=one, user=person(request), seq=int(given))
    return HttpResponse(status=204)


@login_required
@require_POST
def rename(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    one = conversation_for(request.user, slug, conversation_id)
    actions.rename(
        conversation=one, user=person(request), title=request.POST.get("title", "")
    )
    return redirect(one)


@login_required
@require_POST
def hide(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    one = conversation_for(request.user, slug, conversation_id)
    actions.hide(conversation=one, user=person(request))
    return redirect("workspace:conversations", one.workspace.slug)


@login_required
@require_GET
def palette(request: HttpRequest, slug: str) -> JsonResponse:
    """What the command palette offers: pages and conversations of the workspace."""
    workspace = workspace_for(request.user, slug)
    found = listing.listed(workspace, person(request))
    pages = texts.pages(workspace)
    places = [
        {"label": one.title or _("Untitled"), "url": one.get_absolute_url()}
        for one in found
    ]
    return JsonResponse(
        {
            "pages": [
                {"label": label, "url": reverse(name, args=args)}
                for label, name, args in pages
            ],
            "conversations": places,
        }
    )
