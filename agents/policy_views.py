"""The page of the tool policy: for a workspace, and for the whole server."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents import policy_page
from agents.policies import BLOCKS, FOR_MODE, policy_of
from agents.policy_actions import (
    BlockValues,
    checked,
    removed_names,
    reset_block,
    save_block,
)
from agents.surface.modes import MODES, TIERS
from agents.tools.registry import catalogue
from workspace.access import can, workspace_for
from workspace.errors import ActionError, BadInput, Conflict, NotVisible
from workspace.models import Workspace
from workspace.people_views import page, person

MOST_NAMES = 2_000


@login_required
@page
def workspace_policy(request: HttpRequest, slug: str) -> HttpResponse:
    """The policy in a workspace; its admins change it, all members read it."""
    workspace = workspace_for(request.user, slug)
    if request.method == "POST":
        workspace = workspace_for(request.user, slug, "manage_agents")
    return _answer(request, workspace)


@login_required
@page
def server_policy(request: HttpRequest) -> HttpResponse:
    """The policy of workspaces without their own, for server staff."""
    if not person(request).is_staff:
        raise NotVisible
    return _answer(request, None)


@login_required
@require_POST
def workspace_effect(request: HttpRequest, slug: str) -> HttpResponse:
    """What the ticked tools would do, before anything is saved."""
    return _effect(request, workspace_for(request.user, slug, "manage_agents"))


@login_required
@require_POST
def server_effect(request: HttpRequest) -> HttpResponse:
    if not person(request).is_staff:
        raise NotVisible
    return _effect(request, None)


def address_of(workspace: Workspace | None, block: str, part: str = "policy") -> str:
    name = f"agents:{part}" if workspace else f"agents:server_{part}"
    address = reverse(name, args=[workspace.slug] if workspace else [])
    return f"{address}?block={block}"


def _answer(request: HttpRequest, workspace: Workspace | None) -> HttpResponse:
    block = block_of(request)
    if request.method != "POST":
        return _shown(request, workspace, block)
    values = given(request, block)
    try:
        if "reset" in request.POST:
            return _reset(request, workspace, block)
        if "effect" in request.POST:
            checked(block, values, [], catalogue(workspace.pk if workspace else None))
            return _shown(request, workspace, block, values)
        _row, warnings = save_block(
            by=person(request),
            workspace=workspace,
            block=block,
            values=values,
            seen=_seen(request),
        )
    except (BadInput, Conflict) as refusal:
        return _shown(request, workspace, block, values, refusal)
    messages.success(
        request,
        _("Saved. Conversations that are open keep their tools until they end."),
    )
    for warning in warnings:
        messages.warning(request, warning)
    return redirect(address_of(workspace, block))


def _reset(
    request: HttpRequest, workspace: Workspace | None, block: str
) -> HttpResponse:
    if workspace is None:
        raise BadInput(_("The server's policy is the lowest; there is none below it."))
    reset_block(
        by=person(request), workspace=workspace, block=block, seen=_seen(request)
    )
    messages.success(request, _("The block follows the server's policy again."))
    return redirect(address_of(workspace, block))


def _effect(request: HttpRequest, workspace: Workspace | None) -> HttpResponse:
    block = block_of(request)
    context: dict[str, Any] = {"problem": "", "effects": []}
    try:
        known = catalogue(workspace.pk if workspace else None)
        values = checked(block, given(request, block), [], known)
        context["effects"] = policy_page.effects(workspace, block, values)
    except BadInput as refusal:
        context["problem"] = refusal.message
    return render(request, "agents/_policy_effect.html", context)


def block_of(request: HttpRequest) -> str:
    block = request.GET.get("block", BLOCKS[0])
    if block not in BLOCKS:
        raise NotVisible
    return block


def given(request: HttpRequest, block: str) -> BlockValues:
    """The block as the form has it."""
    names = request.POST.getlist("tool")[:MOST_NAMES]
    names += request.POST.get("more", "").replace(",", " ").split()[:MOST_NAMES]
    if not block.startswith(FOR_MODE):
        return BlockValues(tuple(names))
    allowed = request.POST.get("allowed", "").replace(",", " ").split()[:MOST_NAMES]
    return BlockValues(
        tuple(names), request.POST.get("ceiling", ""), tuple(allowed) or None
    )


def _seen(request: HttpRequest) -> int:
    seen = request.POST.get("seen", "")
    if not seen.isascii() or not seen.isdigit() or len(seen) > 9:
        raise BadInput(_("The form is not whole. Load the page again."))
    return int(seen)


def _shown(
    request: HttpRequest,
    workspace: Workspace | None,
    block: str,
    values: BlockValues | None = None,
    refusal: ActionError | None = None,
) -> HttpResponse:
    stored, version, is_own = policy_page.current(workspace, block)
    values = values or stored
    policy = policy_of(workspace.pk if workspace else None)
    mode = block.removeprefix(FOR_MODE) if block.startswith(FOR_MODE) else ""
    use = policy_page.used(workspace, mode)
    known = catalogue(workspace.pk if workspace else None)
    rows = policy_page.choices(block, values.names, policy, use, known)
    context = {
        "workspace": workspace,
        "part": block,
        "blocks": [
            (name, policy_page.TITLES[name], address_of(workspace, name))
            for name in BLOCKS
        ],
        "title": policy_page.TITLES[block],
        "help": policy_page.HELP.get(block, policy_page.FOR_ONE_MODE),
        "mode": MODES.get(mode),
        "values": values,
        "tiers": TIERS,
        "rows": rows,
        "total": sum(row.tokens or 0 for row in rows if row.chosen),
        "use": use,
        "days": policy_page.DAYS,
        "effects": policy_page.effects(workspace, block, values),
        "effect_url": address_of(workspace, block, "policy_effect"),
        "version": version,
        "is_own": is_own,
        "may_change": workspace is None
        or can(request.user, workspace, "manage_agents"),
        "now": stored.names if refusal else (),
        "problem": refusal.message if refusal else "",
        "removed": sorted({name for _row, name in removed_names()}),
    }
    status = refusal.status if refusal else 200
    return render(request, "agents/settings_policy.html", context, status=status)
