"""The page of all effective settings: value, origin, change, reset, import, export."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from agents import config_actions
from agents.config.layers import ORDER, Value, effective, stored
from agents.config.schema import Key, Settings, keys
from agents.config_actions import Changed, Difference, own_values
from agents.config_forms import ImportForm, SettingForm
from agents.context.startup import BASE
from agents.models import Agent
from agents.seeding import seed_workspace
from agents.settings_views import agent_for, shown
from workspace.access import workspace_for
from workspace.audit import changes_of
from workspace.errors import NotVisible
from workspace.models import Change, User, Workspace
from workspace.people_views import page, person, tried

MOST_CHANGES = 30  # shown
ORIGINS = {
    "built-in": gettext_lazy("Built-in"),
    "server": gettext_lazy("Server"),
    "environment": gettext_lazy("Server: environment"),
    "workspace": gettext_lazy("Workspace"),
    "agent": gettext_lazy("Agent"),
    "conversation": gettext_lazy("Conversation"),
    "server switch": gettext_lazy("Server: --tool-deferral"),
}
EFFECTS = {
    "next call": gettext_lazy("With the next call"),
    "next conversation": gettext_lazy("In new conversations"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One setting as the page shows it."""

    key: Key
    value: Value
    is_own: bool
    form: SettingForm
    difference: Difference | None = None
    note: str = ""

    @property
    def origins(self) -> list[str]:
        """The layers whose value counts, the highest first."""
        if self.key.about.merge == "union" and self.value.set_by:
            return [str(ORIGINS[one]) for one in reversed(list(self.value.set_by))]
        return [str(ORIGINS[self.value.origin])]

    @property
    def effect(self) -> str:
        return str(EFFECTS[self.key.about.effect])

    @property
    def is_open(self) -> bool:
        return bool(self.form.errors or self.difference)


@login_required
@page
def settings_all(request: HttpRequest, slug: str) -> HttpResponse:
    workspace = workspace_for(request.user, slug)
    return settings_page(request, workspace, scope_of(request, workspace))


@login_required
@require_POST
def change_setting(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    """Save, show the effect of, or reset one setting in the layer of the page."""
    workspace = workspace_for(request.user, slug, "manage_workspace")
    scope = scope_of(request, workspace)
    key = key_for(name)
    if request.POST.get("do") == "reset":
        done = config_actions.save_settings(
            by=person(request), scope=scope, values={name: None}
        )
        return told(request, scope, done)
    found = effective(scope)
    form = SettingForm(
        request.POST, key=key, own=own_values(scope).get(name), now=found[name].value
    )
    wants_effect = request.POST.get("do") == "preview"
    if form.is_valid():
        result = tried(form, lambda: _done(request, scope, form, wants_effect))
        if isinstance(result, Changed):
            return told(request, scope, result)
        if isinstance(result, Difference):
            return settings_page(request, workspace, scope, form, result)
        form.see(own_values(scope).get(name))
    return settings_page(request, workspace, scope, form)


def _done(
    request: HttpRequest, scope: Workspace | Agent, form: SettingForm, preview: bool
) -> Changed | Difference:
    values = {form.key.name: form.value()}
    if preview:
        return config_actions.difference(scope, values)
    seen = {form.key.name: form.seen_value()}
    return config_actions.save_settings(
        by=person(request), scope=scope, values=values, seen=seen
    )


@login_required
@require_POST
def import_settings(request: HttpRequest, slug: str) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_workspace")
    scope = scope_of(request, workspace)
    form = ImportForm(request.POST, request.FILES)
    if form.is_valid():
        done = tried(
            form,
            lambda: config_actions.import_settings(
                by=person(request), scope=scope, text=form.cleaned_data["text"]
            ),
        )
        if done:
            return told(request, scope, done)
    return settings_page(request, workspace, scope, import_form=form)


@login_required
@require_safe
def export_settings(request: HttpRequest, slug: str) -> HttpResponse:
    """What the layer sets, as JSON; with `?all` everything that holds in it."""
    workspace = workspace_for(request.user, slug)
    scope = scope_of(request, workspace)
    if "all" in request.GET:
        values = {name: one.value for name, one in effective(scope).values.items()}
    else:
        values = own_values(scope)
    response = HttpResponse(
        config_actions.exported(values), content_type="application/json"
    )
    response["Content-Disposition"] = f'attachment; filename="{slug}-settings.json"'
    return response


def scope_of(request: HttpRequest, workspace: Workspace) -> Workspace | Agent:
    """The layer that the page is about: the workspace, or one of its agents."""
    name = request.GET.get("agent", "")
    return agent_for(workspace, name) if name else workspace


def key_for(name: str) -> Key:
    key = keys().get(name)
    if key is None:
        raise NotVisible(_("There is no setting of that name here."))
    return key


def told(request: HttpRequest, scope: Workspace | Agent, done: Changed) -> HttpResponse:
    """Back to the page, which says what was done."""
    for warning in done.warnings:
        messages.warning(request, warning)
    later = [name for name in done.names if keys()[name].about.effect != "next call"]
    at_once = [name for name in done.names if name not in later]
    if later:
        text = _("Changed: %(names)s. Open conversations keep what they began with.")
        messages.success(request, text % {"names": ", ".join(later)})
    if at_once:
        text = _("Changed: %(names)s. This holds from the next model call on.")
        messages.success(request, text % {"names": ", ".join(at_once)})
    if not done.names:
        messages.info(request, _("Nothing changed."))
    return redirect(_address(scope))


def _address(scope: Workspace | Agent) -> str:
    if isinstance(scope, Agent):
        url = reverse("agents:settings_all", args=[scope.workspace.slug])
        return f"{url}?agent={scope.name}"
    return reverse("agents:settings_all", args=[scope.slug])


def settings_page(
    request: HttpRequest,
    workspace: Workspace,
    scope: Workspace | Agent,
    form: SettingForm | None = None,
    difference: Difference | None = None,
    import_form: ImportForm | None = None,
) -> HttpResponse:
    """The page; a bound form takes its setting's place, with its effect if asked."""
    seed_workspace(workspace)
    context: dict[str, Any] = {
        "lines": list(_lines(scope, form, difference)),
        "form": form or ImportForm(),
        "import_form": import_form or ImportForm(),
        "agent": scope if isinstance(scope, Agent) else None,
        "query": f"?agent={scope.name}" if isinstance(scope, Agent) else "",
        "agents": workspace.agents.filter(deleted_at=None).order_by("created_at"),
        "changes": _changes(workspace, person(request)),
        "drift": _drift(scope),
    }
    return shown(request, workspace, "agents/settings_all.html", context)


def _lines(
    scope: Workspace | Agent, form: SettingForm | None, difference: Difference | None
) -> Iterator[Line]:
    found, own = effective(scope), own_values(scope)
    notes = {"tools.toolSearch.threshold": _preload_note(scope, found.settings)}
    for name, key in keys().items():
        value = found[name]
        used = form and form.key is key
        row = form if form and used else _form(key, own.get(name), value)
        shown = difference if used else None
        yield Line(key, value, name in own, row, shown, notes.get(name, ""))


def _preload_note(scope: Workspace | Agent, chosen: Settings) -> str:
    """What the threshold comes to now: everything on demand is declared, or nothing."""
    pool, budget = config_actions.preload(scope, chosen)
    values = {"pool": number_format(pool), "budget": number_format(budget)}
    if budget and pool <= budget:
        return _("Now: pool %(pool)s tokens, budget %(budget)s: all.") % values
    return _("Now: pool %(pool)s tokens, budget %(budget)s: none.") % values


def _form(key: Key, own: Any, value: Value) -> SettingForm:
    return SettingForm(key=key, own=own, now=value.value)


def _changes(workspace: Workspace, viewer: User) -> QuerySet[Change]:
    """The latest changes of the workspace's layer and those of its agents."""
    return changes_of(workspace, viewer, action="setting.changed")[:MOST_CHANGES]


def _drift(scope: Workspace | Agent) -> str:
    """How the base instructions changed since the override was written; "" if not."""
    overrides = {
        row.layer: row.written_against
        for row in stored(scope)
        if row.key == "agent.systemPrompt"
    }
    written = [overrides[layer] for layer in ORDER if layer in overrides]
    old = (written and written[-1]) or BASE
    lines = difflib.unified_diff(
        old.splitlines(), BASE.splitlines(), _("then"), _("now"), lineterm=""
    )
    return "\n".join(lines)
