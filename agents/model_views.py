"""The page on which a conversation's model is chosen."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents import gauge
from agents.actions import set_model
from agents.endpoints import is_own, offered_models
from agents.models import LanguageModel
from agents.views import done, person
from workspace.access import conversation_for
from workspace.middleware import wants_json
from workspace.models import Workspace


def choices(workspace: Workspace) -> list[LanguageModel]:
    """Each name once: a workspace's own model goes before the server's."""
    found = sorted(offered_models(workspace), key=lambda one: not is_own(one))
    return list({one.name: one for one in reversed(found)}.values())[::-1]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def model(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """What may answer here, with windows and prices; a choice holds from the next turn."""
    conversation = conversation_for(request.user, slug, conversation_id, "post")
    if request.method == "POST":
        name = request.POST.get("model", "")
        set_model(conversation=conversation, user=person(request), model_name=name)
        if wants_json(request):
            return done(request, conversation)
        messages.success(request, _("The next message is answered by the new model."))
        return redirect(conversation)
    context = {
        "conversation": conversation,
        "workspace": conversation.workspace,
        "header": gauge.header_of(conversation),
        "models": choices(conversation.workspace),
    }
    return render(request, "agents/model.html", context)
