"""The page on which people see what agents remember, and correct it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents import memory_actions
from agents.config.layers import effective
from agents.memories import LONGEST, may_change
from agents.models import Agent, Memory, MemoryRun
from workspace.access import can, require, workspace_for
from workspace.errors import BadInput, Conflict, NotVisible, TooMuch
from workspace.models import Conversation, User, Workspace
from workspace.people_views import page, person

#: Runs of the memory agents that the page shows.
MOST_RUNS = 20


@dataclass(frozen=True, slots=True)
class Line:
    """A note, and what the reader may do with it or know of its origin."""

    note: Memory
    may_change: bool
    conversation: Conversation | None


@dataclass(frozen=True, slots=True)
class Group:
    key: str
    title: str
    help: str
    lines: list[Line]


def notes_of(workspace: Workspace, user: User) -> list[Memory]:
    """One's own notes and the shared ones, newest first. One query."""
    own = Q(scope=Memory.Scope.USER, user=user)
    found = Memory.objects.filter(
        own | ~Q(scope=Memory.Scope.USER), workspace=workspace
    )
    related = found.select_related("agent", "created_by", "conversation__workspace")
    return list(related.order_by("-pinned", "-updated_at", "-pk"))


def groups_of(workspace: Workspace, user: User) -> list[Group]:
    """The notes by whom they are for; agents only if they have some."""
    notes = notes_of(workspace, user)
    named = {note.conversation_id for note in notes if note.conversation_id}
    seen = Conversation.objects.visible_to(user).filter(pk__in=named)
    conversations = {one.pk: one for one in seen.select_related("workspace")}
    is_admin = can(user, workspace, "manage_workspace")

    def lines(**fields: Any) -> list[Line]:
        return [
            Line(
                note,
                is_admin or may_change(note, user),
                conversations.get(note.conversation_id)
                if note.conversation_id
                else None,
            )
            for note in notes
            if all(getattr(note, key) == value for key, value in fields.items())
        ]

    groups = [
        Group(
            "user",
            _("Yours"),
            _("Only you see these. They are told in conversations that you begin."),
            lines(scope=Memory.Scope.USER),
        ),
        Group(
            "workspace",
            _("The workspace's"),
            _("Told in every conversation here."),
            lines(scope=Memory.Scope.WORKSPACE),
        ),
    ]
    for agent in Agent.objects.filter(workspace=workspace).order_by("created_at"):
        if own := lines(scope=Memory.Scope.AGENT, agent_id=agent.pk):
            about = _("Told in conversations with this agent.")
            groups.append(Group(f"agent-{agent.name}", agent.title, about, own))
    return groups


def runs_of(workspace: Workspace, user: User) -> list[MemoryRun]:
    """What the memory agents did lately: for the person, and for an admin all of it."""
    found = MemoryRun.objects.filter(workspace=workspace).select_related("user")
    if not can(user, workspace, "manage_workspace"):
        found = found.filter(user=user)
    return list(found.order_by("-created_at")[:MOST_RUNS])


@login_required
@page
def memory(request: HttpRequest, slug: str) -> HttpResponse:
    """All notes that the person may see; by POST a new one."""
    workspace = workspace_for(request.user, slug)
    problem, text = "", ""
    if request.method == "POST":
        text = request.POST.get("text", "")
        try:
            memory_actions.add_note(
                by=person(request),
                workspace=workspace,
                text=text,
                scope=request.POST.get("scope", "user"),
            )
        except (BadInput, Conflict, TooMuch) as refusal:
            problem = refusal.message
        else:
            messages.success(request, _("Saved."))
            return redirect("agents:memory", slug)
    return memory_page(request, workspace, problem=problem, text=text)


def memory_page(
    request: HttpRequest, workspace: Workspace, *, problem: str = "", text: str = ""
) -> HttpResponse:
    user = person(request)
    context = {
        "workspace": workspace,
        "member": require(user, workspace, "read"),
        "groups": groups_of(workspace, user),
        "problem": problem,
        "text": text,
        "longest": LONGEST,
        "runs": runs_of(workspace, user),
        "is_on": effective(workspace).settings.memory.enabled,
        "may_add": can(user, workspace, "post"),
        "may_share": can(user, workspace, "manage_workspace"),
    }
    status = 400 if problem else 200
    return render(request, "agents/settings_memory.html", context, status=status)


@login_required
@require_POST
def note(request: HttpRequest, slug: str, key: int) -> HttpResponse:
    """Correct one note, or forget it."""
    workspace = workspace_for(request.user, slug)
    found = Memory.objects.filter(workspace=workspace, pk=key).first()
    if found is None:
        raise NotVisible
    user = person(request)
    if "forget" in request.POST:
        memory_actions.forget_note(by=user, note=found)
        messages.success(request, _("Forgotten."))
        return redirect("agents:memory", slug)
    text = request.POST.get("text", "")
    try:
        memory_actions.change_note(
            by=user, note=found, text=text, pinned="pinned" in request.POST
        )
    except (BadInput, TooMuch) as refusal:
        return memory_page(request, workspace, problem=refusal.message)
    messages.success(request, _("Saved."))
    return redirect("agents:memory", slug)
