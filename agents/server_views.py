"""The page of a workspace's servers: who is there, what they offer and cost."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from agents import server_actions as actions
from agents.context.startup import canonical, declaration
from agents.context.tokens import count
from agents.mcp.servers import servers_of
from agents.models import McpServer
from agents.settings_views import shown
from workspace.access import workspace_for
from workspace.errors import NotVisible
from workspace.models import Workspace
from workspace.people_views import page, person, tried


class ServerForm(forms.Form):
    """A new server. Which fields count follows from how it is reached."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=30)
    transport = forms.ChoiceField(
        label=gettext_lazy("How it is reached"), choices=McpServer.Transport.choices
    )
    command = forms.CharField(
        label=gettext_lazy("Program and arguments"),
        required=False,
        help_text=gettext_lazy("It runs in the sandbox, in the workspace's folder."),
    )
    url = forms.CharField(label=gettext_lazy("Address"), required=False, max_length=500)
    secrets = forms.CharField(
        label=gettext_lazy("Environment or headers"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off"}),
        help_text=gettext_lazy(
            "NAME=value, one a line. Stored encrypted, never shown."
        ),
    )
    include_tools = forms.CharField(
        label=gettext_lazy("Only these tools"), required=False
    )
    exclude_tools = forms.CharField(
        label=gettext_lazy("Without these tools"), required=False
    )
    call_seconds = forms.IntegerField(
        label=gettext_lazy("Seconds for a call"), initial=120, min_value=1
    )
    network = forms.BooleanField(
        label=gettext_lazy("Its program may reach the network"), required=False
    )
    trusted = forms.BooleanField(
        label=gettext_lazy("Believe it which tools only read; those run unasked"),
        required=False,
    )

    def values(self) -> actions.ServerValues:
        """Raises BadInput."""
        given = self.cleaned_data
        return actions.ServerValues(
            name=given["name"],
            transport=given["transport"],
            command=actions.words_of(given["command"]),
            url=given["url"].strip(),
            secrets=actions.pairs_of(given["secrets"]),
            include_tools=tuple(given["include_tools"].replace(",", " ").split()),
            exclude_tools=tuple(given["exclude_tools"].replace(",", " ").split()),
            call_seconds=given["call_seconds"],
            network=given["network"],
            trusted=given["trusted"],
        )


class ImportServersForm(forms.Form):
    text = forms.CharField(
        label=".mcp.json", widget=forms.Textarea(attrs={"rows": 5}), max_length=200_000
    )


@login_required
@page
@sensitive_post_parameters("secrets")
def servers(request: HttpRequest, slug: str) -> HttpResponse:
    """The list; a POST adds one and tries it at once."""
    if request.method != "POST":
        return _page(request, workspace_for(request.user, slug))
    workspace = workspace_for(request.user, slug, "manage_workspace")
    form = ServerForm(request.POST)
    if form.is_valid():
        made = tried(
            form,
            lambda: actions.add_server(
                by=person(request), workspace=workspace, values=form.values()
            ),
        )
        if made:
            return _tell(request, made)
    return _page(request, workspace, form)


@login_required
@require_POST
@sensitive_post_parameters("text")
def import_servers(request: HttpRequest, slug: str) -> HttpResponse:
    workspace = workspace_for(request.user, slug, "manage_workspace")
    form = ImportServersForm(request.POST)
    if form.is_valid():
        made = tried(
            form,
            lambda: actions.import_servers(
                by=person(request),
                workspace=workspace,
                text=form.cleaned_data["text"],
            ),
        )
        if made:
            messages.success(request, _("Added. They are connected to in a moment."))
            return redirect("agents:servers", slug)
    return _page(request, workspace, import_form=form)


@login_required
@require_POST
def try_server(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    return _tell(request, _server(request, slug, pk))


@login_required
@require_POST
def disconnect_server(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    actions.disconnect_server(by=person(request), server=_server(request, slug, pk))
    messages.success(request, _("Disconnected. Open conversations are told."))
    return redirect("agents:servers", slug)


@login_required
@require_POST
def remove_server(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    actions.remove_server(by=person(request), server=_server(request, slug, pk))
    messages.success(request, _("Removed, with its secrets."))
    return redirect("agents:servers", slug)


def _tell(request: HttpRequest, server: McpServer) -> HttpResponse:
    """Try a server and say what came of it."""
    if actions.try_server(by=person(request), server=server):
        messages.success(request, _("%(name)s is connected.") % {"name": server})
    else:
        server.refresh_from_db()
        messages.warning(
            request,
            _("%(name)s cannot be reached: %(why)s.")
            % {"name": server, "why": server.reason},
        )
    return redirect("agents:servers", server.workspace.slug)


def _server(request: HttpRequest, slug: str, pk: UUID) -> McpServer:
    workspace = workspace_for(request.user, slug, "manage_workspace")
    rows = workspace.mcp_servers.filter(deleted_at=None).select_related("workspace")
    found = rows.filter(pk=pk).first()
    if found is None:
        raise NotVisible
    return found


def _page(
    request: HttpRequest,
    workspace: Workspace,
    form: ServerForm | None = None,
    import_form: ImportServersForm | None = None,
) -> HttpResponse:
    rows = {row.pk: row for row in workspace.mcp_servers.filter(deleted_at=None)}
    listed = [_line(rows[one.id], one.offer.tools) for one in servers_of(workspace.pk)]
    context = {
        "servers": listed,
        "form": form or ServerForm(),
        "import_form": import_form or ImportServersForm(),
    }
    return shown(request, workspace, "agents/settings_servers.html", context)


def _line(row: McpServer, tools: Any) -> dict[str, Any]:
    """A server with its tools and what each costs when it is declared, in tokens."""
    costs = [(tool, count(canonical(declaration(tool)))) for tool in tools]
    total = sum(tokens for _, tokens in costs)
    return {"row": row, "tools": costs, "tokens": total}
