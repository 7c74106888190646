"""A switch for each group of tools, with what it changes in every request."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents.config.layers import effective
from agents.config_actions import difference, own_values, save_settings
from agents.settings_views import shown
from agents.surface.policy import DISCOVERY
from agents.tools.registry import catalogue
from workspace.access import workspace_for
from workspace.errors import BadInput
from workspace.models import Workspace
from workspace.people_views import person

KEY = "tools.disabled"


@dataclass(frozen=True, slots=True)
class Switch:
    """A group; `change` is what turning its switch does to a request that is idle, in
    tokens. `is_fixed`: a layer below has switched it off, so it stays off here.
    """

    group: str
    tools: tuple[str, ...]
    is_off: bool
    is_fixed: bool
    change: int


def groups_of(workspace: Workspace) -> dict[str, tuple[str, ...]]:
    """The tools of each group by its name, but for those that find the others."""
    found: dict[str, list[str]] = {}
    for tool in catalogue(workspace.pk).tools:
        if tool.name not in DISCOVERY:
            found.setdefault(tool.group, []).append(tool.name)
    return {group: tuple(sorted(found[group])) for group in sorted(found)}


def turned(own: list[str], group: str, *, off: bool) -> list[str]:
    """The workspace's own list with the group in it, or without."""
    name = f"group:{group}"
    rest = [one for one in own if one != name]
    return [*rest, name] if off else rest


def switches(workspace: Workspace, own: list[str]) -> list[Switch]:
    """A few queries for each group: for every switch its effect is worked out."""
    in_force = effective(workspace).settings.tools.disabled
    found = []
    for group, tools in groups_of(workspace).items():
        is_off = f"group:{group}" in in_force
        is_fixed = is_off and f"group:{group}" not in own
        values = {KEY: turned(own, group, off=not is_off)}
        change = 0 if is_fixed else difference(workspace, values).tokens
        found.append(Switch(group, tools, is_off, is_fixed, change))
    return found


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def groups(request: HttpRequest, slug: str) -> HttpResponse:
    """The page; a switch is stored at once and holds for new conversations."""
    if request.method == "POST":
        return _turn(request, workspace_for(request.user, slug, "manage_workspace"))
    workspace = workspace_for(request.user, slug)
    own = own_values(workspace).get(KEY)
    context = {"switches": switches(workspace, own or []), "seen": json.dumps(own)}
    return shown(request, workspace, "agents/settings_groups.html", context)


def _turn(request: HttpRequest, workspace: Workspace) -> HttpResponse:
    group = request.POST.get("group", "")
    if group not in groups_of(workspace):
        raise BadInput(_("There is no group %(name)s.") % {"name": repr(group)})
    seen = _seen(request)
    values = {KEY: turned(seen or [], group, off=request.POST.get("do") == "off")}
    save_settings(by=person(request), scope=workspace, values=values, seen={KEY: seen})
    messages.success(request, _("Saved. Open conversations keep what they began with."))
    return redirect("agents:tool_groups", workspace.slug)


def _seen(request: HttpRequest) -> Any:
    """The list that the person decided upon; null when the workspace had none."""
    try:
        seen = json.loads(request.POST.get("seen") or "null")
    except (ValueError, RecursionError):
        seen = ""
    if seen is not None and not (
        isinstance(seen, list) and all(isinstance(one, str) for one in seen)
    ):
        raise BadInput(_("The page is out of date. Load it again."))
    return seen
