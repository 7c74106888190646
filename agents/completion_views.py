"""What the composer offers while somebody types `@` or `/`."""

from __future__ import annotations

import os

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from agents.context.skills_files import library_of
from agents.errors import ToolError
from agents.tools.listing import printable
from agents.tools.paths import IGNORED_FOLDERS, Root, parse
from workspace.access import workspace_for
from workspace.models import Workspace

MOST_OFFERED = 12
LONGEST_QUERY = 500  # characters
Offer = dict[str, str]


@login_required
@require_GET
def complete(request: HttpRequest, slug: str) -> JsonResponse:
    """Offers for what stands behind the sign; `kind` is `file` or `command`."""
    workspace = workspace_for(request.user, slug, "post")
    written = request.GET.get("q", "")[:LONGEST_QUERY]
    is_file = request.GET.get("kind") == "file"
    offers = files(workspace, written) if is_file else commands(workspace, written)
    return JsonResponse({"offers": offers[:MOST_OFFERED]})


def files(workspace: Workspace, written: str) -> list[Offer]:
    """Names in the folder that is written so far; folders end in a slash."""
    folder, _slash, begun = written.lstrip('"').rpartition("/")
    try:
        parts = parse(folder)
        with Root(workspace.root).enter(parts) as place, os.scandir(place) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
    except (ToolError, OSError):
        return []
    offers = []
    for name, is_folder in sorted(found, key=lambda pair: pair[0].casefold()):
        hidden = name.startswith(".") and not begun.startswith(".")
        if hidden or name in IGNORED_FOLDERS or name != printable(name):
            continue
        if name.casefold().startswith(begun.casefold()) and '"' not in name:
            path = "/".join((*parts, name))
            offers.append(_file(path, is_folder))
    return offers


def _file(path: str, is_folder: bool) -> Offer:
    """A name with spaces stands in quotes; a folder leaves room to go on."""
    if is_folder:
        return {"value": f"@{path}/", "label": f"{path}/", "about": "", "open": "yes"}
    value = f'@"{path}" ' if " " in path else f"@{path} "
    return {"value": value, "label": path, "about": ""}


def commands(workspace: Workspace, written: str) -> list[Offer]:
    """The chat's own commands, then the skills, by name."""
    known = {
        "context": _("What the next request carries"),
        "compact": _("Sum up the older messages"),
        "attach": _("Attach a file"),
        "mode": _("What this conversation is for"),
        "plan": _("Plan only: the agent reads and changes nothing."),
        "tools": _("Tools of this conversation"),
    }
    library = library_of(workspace.pk, workspace.root)
    skills = {name: one.description[:200] for name, one in library.skills.items()}
    return [
        {"value": f"/{name} ", "label": f"/{name}", "about": about}
        for name, about in (skills | known).items()
        if name.casefold().startswith(written.casefold())
    ]
