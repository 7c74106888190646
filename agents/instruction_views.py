"""Pages of rules and skills: what agents are told, and what nobody has seen yet."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents import instruction_actions as actions
from agents.context.skills import line
from agents.context.skills_files import library_of
from agents.context.tokens import count
from agents.instruction_forms import SkillForm
from agents.instructions import rules_of, source_title, unseen_in
from agents.models import WorkspaceSkill
from agents.settings_views import shown
from agents.surface.modes import MODES
from workspace.access import conversation_for, require, workspace_for
from workspace.errors import NotVisible
from workspace.models import Workspace
from workspace.people_views import page, person, tried


@login_required
@page
def rules(request: HttpRequest, slug: str) -> HttpResponse:
    """The rules files that a new conversation would begin with."""
    workspace = workspace_for(request.user, slug)
    mode = request.GET.get("mode", "")
    mode = mode if mode in MODES else "chat"
    context = {
        "rules": rules_of(workspace, mode),
        "unseen": unseen_in(workspace, person(request)),
        "modes": list(MODES),
        "mode": mode,
    }
    return shown(request, workspace, "agents/settings_rules.html", context)


@login_required
@require_POST
def seen(request: HttpRequest, slug: str) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "post")
    actions.mark_seen(
        by=person(request),
        workspace=workspace,
        path=request.POST.get("path", ""),
        digest=request.POST.get("digest", ""),
    )
    return redirect("agents:rules", slug)


@login_required
@page
def skills(request: HttpRequest, slug: str) -> HttpResponse:
    """Every skill with its source and its tokens, and files that could not be used."""
    workspace = workspace_for(request.user, slug)
    library = library_of(workspace.pk, workspace.root)
    own = dict(workspace.skills.values_list("name", "pk"))
    listed = [
        {
            "skill": skill,
            "pk": own.get(skill.name) if skill.source == "workspace" else None,
            "source": source_title(skill.source),
            "listed_tokens": 0 if skill.globs else count(line(skill)),
            "body_tokens": count(skill.shown),
        }
        for skill in library.skills.values()
    ]
    hidden = [
        {"skill": skill, "source": source_title(skill.source)}
        for skill in library.hidden
    ]
    context = {"skills": listed, "hidden": hidden, "problems": library.problems}
    return shown(request, workspace, "agents/settings_skills.html", context)


@login_required
@page
def new_skill(request: HttpRequest, slug: str) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_agents")
    form = SkillForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        made = tried(
            form,
            lambda: actions.save_skill(
                by=person(request), workspace=workspace, values=form.values()
            ),
        )
        if made:
            messages.success(
                request, _("The skill %(name)s is ready.") % {"name": made}
            )
            return redirect("agents:skills", slug)
    return shown(request, workspace, "agents/settings_skill.html", {"form": form})


@login_required
@page
def skill(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """A skill of the workspace: a form for who may manage it, its text for others."""
    workspace = workspace_for(request.user, slug)
    found = _skill_for(workspace, pk)
    form = SkillForm(request.POST or None, skill=found)
    if request.method == "POST":
        require(request.user, workspace, "manage_agents")
        if form.is_valid() and tried(
            form,
            lambda: actions.save_skill(
                by=person(request),
                workspace=workspace,
                values=form.values(),
                skill=found,
                version=form.cleaned_data["version"],
            ),
        ):
            messages.success(request, _("Saved. New conversations list it like this."))
            return redirect("agents:skills", slug)
    context = {"form": form, "skill": found}
    return shown(request, workspace, "agents/settings_skill.html", context)


@login_required
@require_POST
def delete_skill(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_agents")
    found = _skill_for(workspace, pk)
    actions.delete_skill(by=person(request), skill=found)
    messages.success(request, _("The skill %(name)s was deleted.") % {"name": found})
    return redirect("agents:skills", slug)


def _skill_for(workspace: Workspace, pk: int) -> WorkspaceSkill:
    found = WorkspaceSkill.objects.filter(workspace=workspace, pk=pk).first()
    if found is None:
        raise NotVisible(_("There is no such skill here."))
    return found


@login_required
@require_POST
def read_anew(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Rules, skills and tools of now for an open conversation."""
    conversation = conversation_for(
        request.user, slug, conversation_id, "manage_agents"
    )
    if actions.read_anew(conversation=conversation, by=person(request)):
        messages.success(request, _("From the next request on it has those of now."))
    else:
        messages.info(request, _("Nothing has changed since this conversation began."))
    return redirect("agents:context", slug, conversation_id)
