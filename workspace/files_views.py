"""A workspace's files: browse, view, download, upload."""

from __future__ import annotations

import mimetypes
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from workspace import folder as files
from workspace import markdown
from workspace.access import can, workspace_for
from workspace.errors import BadInput, NotVisible
from workspace.models import Workspace

#: Bytes of a text that the page shows; larger ones are downloaded.
LARGEST_SHOWN = 1024 * 1024
#: Pictures that browsers decode without running anything in them; SVG is not one.
PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"}
SIGNATURES = {
    "image/png": b"\x89PNG",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
    "image/avif": b"\x00\x00\x00",
}


def trail(workspace: Workspace, path: str) -> list[tuple[str, str]]:
    """Name and address of each folder on the way to a path."""
    root = reverse("workspace:files", args=[workspace.slug])
    parts = files.parts_of(path)
    return [
        (part, f"{root}?path={'/'.join(parts[: index + 1])}")
        for index, part in enumerate(parts)
    ]


@login_required
@require_GET
def folder(request: HttpRequest, slug: str) -> HttpResponse:
    """A folder's content."""
    workspace = workspace_for(request.user, slug)
    path = request.GET.get("path", "")
    context = {
        "workspace": workspace,
        "path": path,
        "trail": trail(workspace, path),
        "files": files.listing(workspace.root, path),
        "most": files.MOST_LISTED,
        "may_upload": can(request.user, workspace, "attach"),
    }
    return render(request, "workspace/files.html", context)


@login_required
@require_GET
def view(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    """One file: a picture, Markdown, or text with line numbers."""
    workspace = workspace_for(request.user, slug)
    if files.is_folder(workspace.root, name):
        return redirect(
            f"{reverse('workspace:files', args=[slug])}?path={'/'.join(files.parts_of(name))}"
        )
    with files.opened(workspace.root, name) as file:
        data = file.read(LARGEST_SHOWN + 1)
    context: dict[str, Any] = {
        "workspace": workspace,
        "name": name,
        "trail": trail(workspace, name),
        "size": len(data),
        "too_large": len(data) > LARGEST_SHOWN,
    } | shown(name, data, as_source="source" in request.GET)
    return render(request, "workspace/file.html", context)


def shown(name: str, data: bytes, *, as_source: bool) -> dict[str, Any]:
    """How a file is shown: `picture`, `prose`, `lines`, or nothing of these."""
    if picture_type(name, data):
        return {"picture": True}
    if b"\0" in data[:8192] or len(data) > LARGEST_SHOWN:
        return {}
    text = data.decode("utf-8", "replace")
    is_markdown = name.lower().endswith((".md", ".markdown"))
    if is_markdown and not as_source:
        return {"prose": text, "has_source": True}
    language = name.rsplit(".", 1)[-1] if "." in name else ""
    marked = markdown.highlighted(text, language)
    return {"lines": marked.splitlines() or [""], "is_markdown": is_markdown}


def picture_type(name: str, data: bytes) -> str:
    """The type of a picture whose name and first bytes agree; "" for anything else."""
    guessed = mimetypes.guess_type(name)[0] or ""
    if guessed in PICTURES and data.startswith(SIGNATURES[guessed]):
        return guessed
    return ""


@login_required
@require_GET
def raw(request: HttpRequest, slug: str, name: str) -> HttpResponseBase:
    """The bytes themselves: pictures inline, everything else as a download."""
    workspace = workspace_for(request.user, slug)
    file = files.opened(workspace.root, name)
    head = file.read(16)
    file.seek(0)
    kind = picture_type(name, head)
    response = FileResponse(
        file,
        as_attachment=not kind or "download" in request.GET,
        filename=name.rsplit("/", 1)[-1],
        content_type=kind or "application/octet-stream",
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


@login_required
@require_POST
def upload(request: HttpRequest, slug: str) -> HttpResponse:
    """Save the uploaded files into a folder."""
    workspace = workspace_for(request.user, slug, "attach")
    path = request.POST.get("path", "")
    given = request.FILES.getlist("files")
    if not given:
        raise BadInput(_("Choose at least one file."))
    if not files.is_folder(workspace.root, path):
        raise NotVisible
    for one in given:
        files.save(workspace.root, path, one, replace="replace" in request.POST)
    messages.success(
        request,
        _("Uploaded: %(names)s") % {"names": ", ".join(str(one.name) for one in given)},
    )
    back = reverse("workspace:files", args=[slug])
    return redirect(f"{back}?path={path}" if path else back)
