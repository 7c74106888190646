"""The page on which owners erase what was said in a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from agents import erase_actions
from agents.views import person
from workspace import transcript
from workspace.access import conversation_for
from workspace.errors import BadInput, Conflict
from workspace.models import Conversation, Entry

SHOWN = 160  # characters of a message
MOST_LINES = 500


@dataclass(frozen=True)
class Line:
    """One turn to choose: its first message, in short."""

    turn: UUID
    seq: int
    author: str
    text: str
    erased: bool


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def erase(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Choose turns, or the whole conversation, say why, and erase."""
    conversation = conversation_for(request.user, slug, conversation_id, "shred")
    problem = ""
    if request.method == "POST":
        try:
            return _erased(request, conversation)
        except (BadInput, Conflict) as refusal:
            problem = refusal.message
    context = {
        "conversation": conversation,
        "workspace": conversation.workspace,
        "lines": lines_of(conversation),
        "problem": problem,
        "reason": request.POST.get("reason", ""),
        "chosen": request.POST.getlist("turn"),
    }
    status = 400 if problem else 200
    return render(request, "agents/erase.html", context, status=status)


def _erased(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    reason, user = request.POST.get("reason", ""), person(request)
    if "everything" in request.POST:
        count = erase_actions.erase_conversation(
            conversation=conversation, user=user, reason=reason
        )
    else:
        count = erase_actions.erase_turns(
            conversation=conversation, turns=_turns(request), user=user, reason=reason
        )
    told = ngettext("%(n)d entry was erased.", "%(n)d entries were erased.", count)
    messages.success(request, told % {"n": count})
    if conversation.deleted_at:
        return redirect(conversation.workspace)
    return redirect(conversation)


def _turns(request: HttpRequest) -> list[UUID]:
    try:
        return [UUID(given) for given in request.POST.getlist("turn")]
    except ValueError:
        raise BadInput(_("turn must be the id of a message's turn.")) from None


def lines_of(conversation: Conversation) -> list[Line]:
    """The newest turns by their first messages, the newest first."""
    asked = conversation.entries.filter(kind=Entry.Kind.USER).exclude(turn=None)
    found = list(asked.select_related("stored", "author").order_by("-seq")[:MOST_LINES])
    lines = {}
    for entry, body in zip(found, transcript.bodies(found), strict=True):
        assert entry.turn_id  # the query leaves others out
        text = " ".join(str(body.get("text", "")).split())
        lines[entry.turn_id] = Line(
            entry.turn_id,
            entry.seq,
            str(entry.author or ""),
            text[: SHOWN - 1] + "…" if len(text) > SHOWN else text,
            not body,
        )
    return list(lines.values())
