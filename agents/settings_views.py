"""Pages of agents, endpoints and permissions: parse, one call, render or redirect.

Everybody in the workspace reads the lists; who may not manage them sees no forms, no
addresses and never a key.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import F, Prefetch, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from agents import endpoint_actions, settings_actions
from agents.endpoints import offered_models
from agents.forms import AgentForm, EndpointForm, LanguageModelForm, PermissionsForm
from agents.models import Agent, Endpoint, LanguageModel
from agents.providers.registry import EndpointCheck, ListedModel
from agents.seeding import seed_workspace
from agents.tools.registry import BUILTIN
from workspace.access import require, workspace_for
from workspace.errors import NotVisible
from workspace.models import Workspace
from workspace.people_views import page, person, tried

MOST_SHOWN = 100  # of the models that a service lists
WINDOW, OUTPUT = 128_000, 16_000  # tokens, for services that do not say


@login_required
@page
def agents(request: HttpRequest, slug: str) -> HttpResponse:
    workspace = workspace_for(request.user, slug)
    seed_workspace(workspace)
    listed = workspace.agents.filter(deleted_at=None)
    context = {"agents": listed.select_related("language_model").order_by("created_at")}
    return shown(request, workspace, "agents/settings_agents.html", context)


@login_required
@page
def new_agent(request: HttpRequest, slug: str) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_agents")
    form = AgentForm(request.POST or None, workspace=workspace)
    if request.method == "POST" and form.is_valid():
        made = tried(
            form,
            lambda: settings_actions.save_agent(
                by=person(request), workspace=workspace, values=form.values()
            ),
        )
        if made:
            messages.success(
                request, _("The agent %(name)s is ready.") % {"name": made}
            )
            return redirect("agents:agent", slug, made.name)
    return shown(request, workspace, "agents/settings_agent.html", {"form": form})


@login_required
@page
def agent(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    """One agent: a form for who may manage it, facts for the others."""
    workspace = workspace_for(request.user, slug)
    found = agent_for(workspace, name)
    form = AgentForm(request.POST or None, workspace=workspace, agent=found)
    if request.method == "POST":
        require(request.user, workspace, "manage_agents")
        if form.is_valid() and tried(
            form,
            lambda: settings_actions.save_agent(
                by=person(request),
                workspace=workspace,
                values=form.values(),
                agent=found,
            ),
        ):
            messages.success(request, _("Saved. It holds from the next run on."))
            return redirect("agents:agent", slug, name)
        found.refresh_from_db()
    context = {"form": form, "agent": found}
    return shown(request, workspace, "agents/settings_agent.html", context)


@login_required
@require_POST
def remove_agent(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_agents")
    found = agent_for(workspace, name)
    settings_actions.delete_agent(by=person(request), agent=found)
    messages.success(request, _("The agent %(name)s was deleted.") % {"name": found})
    return redirect("agents:agents", slug)


@login_required
@page
def endpoints(request: HttpRequest, slug: str) -> HttpResponse:
    """What can answer here: the workspace's own services, then the server's."""
    workspace = workspace_for(request.user, slug)
    models = list(offered_models(workspace))
    context = {
        "endpoints": listed_endpoints(workspace),
        "own_models": [one for one in models if one.endpoint.workspace_id],
        "server_default": next(filter(is_server_default, models), None),
        "answers": next(filter(is_real, models), None),
    }
    return shown(request, workspace, "agents/settings_endpoints.html", context)


@login_required
@never_cache
@sensitive_post_parameters("key")
@page
def new_endpoint(request: HttpRequest, slug: str) -> HttpResponse:
    user = person(request)
    workspace = workspace_for(user, slug, "manage_endpoints")
    form = EndpointForm(request.POST or None, is_staff=user.is_staff)
    if request.method == "POST" and form.is_valid():
        made = tried(
            form,
            lambda: endpoint_actions.save_endpoint(
                by=user, workspace=workspace, values=form.values()
            ),
        )
        if made:
            messages.success(request, _("Saved. Test it now, then add its models."))
            return redirect("agents:endpoint", slug, made.pk)
    return shown(request, workspace, "agents/settings_endpoint.html", {"form": form})


@login_required
@never_cache
@sensitive_post_parameters("key")
@page
def endpoint(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    user = person(request)
    workspace = workspace_for(user, slug, "manage_endpoints")
    found = endpoint_for(workspace, pk)
    form = EndpointForm(request.POST or None, endpoint=found, is_staff=user.is_staff)
    if request.method == "POST":
        if form.is_valid() and tried(
            form,
            lambda: endpoint_actions.save_endpoint(
                by=user, workspace=workspace, values=form.values(), endpoint=found
            ),
        ):
            messages.success(request, _("Saved. It holds from the next run on."))
            return redirect("agents:endpoint", slug, pk)
        found.refresh_from_db()
    return endpoint_page(request, workspace, found, form=form)


@login_required
@require_POST
def check(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Test the endpoint and show what came of it, with the models it offers."""
    workspace = workspace_for(request.user, slug, "manage_endpoints")
    found = endpoint_for(workspace, pk)
    outcome = endpoint_actions.try_endpoint(by=person(request), endpoint=found)
    return endpoint_page(request, workspace, found, outcome=outcome)


@login_required
@require_POST
def remove_endpoint(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_endpoints")
    found = endpoint_for(workspace, pk)
    bereft = endpoint_actions.delete_endpoint(by=person(request), endpoint=found)
    text = _("%(name)s was deleted and its key erased.") % {"name": found}
    if bereft:
        text += " " + ngettext(
            "%(count)d agent uses the default model now.",
            "%(count)d agents use the default model now.",
            bereft,
        ) % {"count": bereft}
    messages.success(request, text)
    return redirect("agents:endpoints", slug)


@login_required
@require_POST
def new_model(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_endpoints")
    found = endpoint_for(workspace, pk)
    form = LanguageModelForm(request.POST)
    if form.is_valid():
        made = tried(
            form,
            lambda: endpoint_actions.save_model(
                by=person(request), endpoint=found, values=form.values()
            ),
        )
        if made:
            messages.success(request, _("%(name)s can be used now.") % {"name": made})
            return redirect("agents:endpoint", slug, pk)
    return endpoint_page(request, workspace, found, model_form=form)


@login_required
@page
def model(request: HttpRequest, slug: str, pk: UUID, model: UUID) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_endpoints")
    found = endpoint_for(workspace, pk)
    one = model_for(found, model)
    form = LanguageModelForm(request.POST or None, model=one)
    if request.method == "POST" and form.is_valid():
        saved = tried(
            form,
            lambda: endpoint_actions.save_model(
                by=person(request), endpoint=found, values=form.values(), model=one
            ),
        )
        if saved:
            messages.success(request, _("Saved. It holds from the next run on."))
            return redirect("agents:endpoint", slug, pk)
        one.refresh_from_db()
    context = {"endpoint": found, "model": one, "form": form}
    return shown(request, workspace, "agents/settings_model.html", context)


@login_required
@require_POST
def remove_model(
    request: HttpRequest, slug: str, pk: UUID, model: UUID
) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_endpoints")
    one = model_for(endpoint_for(workspace, pk), model)
    endpoint_actions.delete_model(by=person(request), model=one)
    messages.success(request, _("%(name)s is no longer offered.") % {"name": one})
    return redirect("agents:endpoint", slug, pk)


@login_required
@require_POST
def default_model(request: HttpRequest, slug: str) -> HttpResponse:
    """Choose who answers where an agent names no model; empty: the server's choice."""
    workspace = workspace_for(request.user, slug, "manage_endpoints")
    wanted = request.POST.get("model", "")
    chosen = None
    if wanted:
        own = offered_models(workspace).filter(endpoint__workspace=workspace)
        chosen = next((one for one in own if str(one.pk) == wanted), None)
        if chosen is None:
            raise NotVisible(_("That model is no longer offered here."))
    endpoint_actions.set_default_model(
        by=person(request), workspace=workspace, model=chosen
    )
    messages.success(request, _("Saved. It holds from the next run on."))
    return redirect("agents:endpoints", slug)


@login_required
@page
def permissions(request: HttpRequest, slug: str) -> HttpResponse:
    """The workspace's rules; who may not change them reads them."""
    workspace = workspace_for(request.user, slug)
    form = PermissionsForm(request.POST or None, workspace=workspace)
    if request.method == "POST":
        require(request.user, workspace, "manage_permissions")
        if form.is_valid() and tried(
            form,
            lambda: settings_actions.save_permissions(
                by=person(request), workspace=workspace, **form.values()
            ),
        ):
            messages.success(request, _("Saved. The rules hold from the next call on."))
            return redirect("agents:permissions", slug)
    context = {"form": form, "tools": BUILTIN}
    return shown(request, workspace, "agents/settings_permissions.html", context)


def shown(
    request: HttpRequest, workspace: Workspace, template: str, context: dict[str, Any]
) -> HttpResponse:
    """The page; 400 when one of its forms was refused."""
    failed = any(form.errors for name, form in context.items() if name.endswith("form"))
    member = require(request.user, workspace, "read")
    return render(
        request,
        template,
        context | {"workspace": workspace, "member": member},
        status=400 if failed else 200,
    )


def endpoint_page(
    request: HttpRequest,
    workspace: Workspace,
    found: Endpoint,
    *,
    form: EndpointForm | None = None,
    model_form: LanguageModelForm | None = None,
    outcome: EndpointCheck | None = None,
) -> HttpResponse:
    """An endpoint with its models, and what a test of it has just found."""
    models = list(found.language_models.order_by("name"))
    known = {one.name for one in models}
    offers = [one for one in outcome.models if one.name not in known] if outcome else []
    context = {
        "endpoint": found,
        "form": form or EndpointForm(endpoint=found, is_staff=person(request).is_staff),
        "model_form": model_form or LanguageModelForm(),
        "models": models,
        "outcome": outcome,
        "offers": [as_offer(one) for one in offers[:MOST_SHOWN]],
        "hidden_offers": max(0, len(offers) - MOST_SHOWN),
    }
    return shown(request, workspace, "agents/settings_endpoint.html", context)


def as_offer(listed: ListedModel) -> dict[str, Any]:
    """A model to add, with limits that can be stored where the service names none."""
    window = max(listed.window or WINDOW, 1_000)
    return {
        "name": listed.name,
        "window": window,
        "max_output": min(listed.max_output or OUTPUT, window // 4),
        "is_known": bool(listed.window),
    }


def listed_endpoints(workspace: Workspace) -> QuerySet[Endpoint]:
    """The workspace's own first; the simulator only while the server runs it."""
    found = Endpoint.objects.filter(
        Q(workspace=workspace) | Q(workspace=None), deleted_at=None
    )
    if not settings.SIMULATOR:
        found = found.exclude(kind=Endpoint.Kind.SIMULATOR)
    models = Prefetch("language_models", LanguageModel.objects.order_by("name"))
    own_first = F("workspace").asc(nulls_last=True)
    return found.prefetch_related(models).order_by(own_first, "created_at")


def is_server_default(model: LanguageModel) -> bool:
    return model.is_default and model.endpoint.workspace_id is None


def is_real(model: LanguageModel) -> bool:
    return model.endpoint.kind != Endpoint.Kind.SIMULATOR


def agent_for(workspace: Workspace, name: str) -> Agent:
    found = (
        workspace.agents.filter(name=name, deleted_at=None)
        .select_related("language_model", "workspace")
        .first()
    )
    if found is None:
        raise NotVisible(_("There is no agent of that name here."))
    return found


def endpoint_for(workspace: Workspace, pk: UUID) -> Endpoint:
    """One of the workspace's own; the server's are managed by its staff."""
    found = workspace.endpoints.filter(pk=pk, deleted_at=None).first()
    if found is None:
        raise NotVisible(_("There is no such endpoint here."))
    return found


def model_for(endpoint: Endpoint, pk: UUID) -> LanguageModel:
    found = endpoint.language_models.filter(pk=pk).first()
    if found is None:
        raise NotVisible(_("There is no such model here."))
    return found
