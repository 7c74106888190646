"""A conversation's mode, and every tool that there is in it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from agents.config.layers import effective
from agents.context.idle import prefix_of
from agents.context.startup import begun_with, mode_in
from agents.mode_actions import set_mode
from agents.policies import policy_of
from agents.surface.modes import MODES
from agents.tool_list import Listed, list_tools
from agents.views import done, person
from workspace.access import conversation_for
from workspace.middleware import wants_json
from workspace.models import Conversation

HELP: dict[str, str | Promise] = {
    "chat": gettext_lazy("Works on what you ask with every tool that it may use."),
    "plan": gettext_lazy(
        "Looks and thinks, changes nothing but plan files, and shows you a plan to "
        "approve."
    ),
    "review": gettext_lazy(
        "Reads the work and names findings with their places; changes nothing."
    ),
    "orchestrate": gettext_lazy(
        "Divides the work, hands it to other agents and checks what comes back."
    ),
}


@dataclass(frozen=True, slots=True)
class ModeLine:
    """A mode to choose; tokens are those of a request that is idle in it."""

    name: str
    help: str
    tools: int
    tokens: int
    change: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A tool of the conversation; `state` is resident, demand, loaded or denied."""

    tool: Listed
    state: str
    label: str


def modes_of(conversation: Conversation) -> list[ModeLine]:
    """Each mode with what a new turn would begin with in it. One query, and settings."""
    chosen = effective(conversation).settings
    policy = policy_of(conversation.workspace_id)
    found = {
        name: prefix_of(conversation.workspace, chosen, policy, name) for name in MODES
    }
    now = found[conversation.mode].tokens if conversation.mode in found else 0
    return [
        ModeLine(
            name,
            str(HELP[name]),
            len(one.declared),
            one.tokens,
            one.tokens - now,
            name == conversation.mode,
        )
        for name, one in found.items()
    ]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def mode(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """What the conversation can be for; a choice holds from the next turn."""
    conversation = conversation_for(request.user, slug, conversation_id, "post")
    if request.method == "POST":
        name = request.POST.get("mode", "")
        notice = set_mode(conversation=conversation, user=person(request), mode=name)
        if wants_json(request):
            return done(request, conversation, seq=notice.seq if notice else None)
        if notice:
            messages.success(request, _("The next turn begins in the new mode."))
        return redirect(conversation)
    context = {
        "conversation": conversation,
        "workspace": conversation.workspace,
        "modes": modes_of(conversation),
        "in_force": mode_in(conversation, begun_with(conversation)),
    }
    return render(request, "agents/mode.html", context)


def state_of(tool: Listed) -> str:
    if tool.state != "active":
        return tool.state
    if tool.loaded:
        return "loaded"
    return "demand" if tool.deferred else "resident"


def tool_lines(conversation: Conversation) -> list[ToolLine]:
    """Every registered tool, what costs something in each request first."""
    labels = {
        "resident": _("declared"),
        "loaded": _("loaded"),
        "demand": _("on demand"),
        "withheld": _("withheld"),
        "denied": _("denied"),
        "absent": _("not available"),
    }
    order = list(labels)
    found = [(state_of(tool), tool) for tool in list_tools(conversation=conversation)]
    lines = [ToolLine(tool, state, labels[state]) for state, tool in found]
    return sorted(lines, key=lambda one: (order.index(one.state), one.tool.name))


@login_required
@require_safe
def tools(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Every registered tool: declared, on demand, loaded or denied, and why."""
    conversation = conversation_for(request.user, slug, conversation_id)
    lines = tool_lines(conversation)
    declared = [one.tool for one in lines if one.state == "resident"]
    context = {
        "conversation": conversation,
        "workspace": conversation.workspace,
        "lines": lines,
        "declared": len(declared),
        "tokens": sum(one.schema_tokens for one in declared),
        "in_force": mode_in(conversation, begun_with(conversation)),
    }
    return render(request, "agents/tools.html", context)
