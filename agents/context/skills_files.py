"""Finds the skills of a workspace: in its folders, in the database, on the server.

Bad files become sentences, never a broken start. Never inside a transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.context.rules_files import Reader, Unusable
from agents.context.skills import Library, Made, Problem, Skill, made_of
from agents.errors import ToolError
from agents.models import WorkspaceSkill
from agents.tools.listing import printable
from agents.tools.paths import Root, parse

#: Folders of skills in a workspace; later ones win.
FOLDERS = (".tallyroom/skills", ".agents/skills", ".claude/skills", ".snowpea/skills")
MOST_IN_FOLDER = 200  # skills of one folder
MOST_FILES = 40  # files beside SKILL.md that are named
#: Why a file is there and not used, for people.
REASONS = {
    "same": gettext_lazy("The same text as %(detail)s, so it is read once."),
    "empty": gettext_lazy("It is empty."),
    "binary": gettext_lazy("It is not a text file."),
    "large": gettext_lazy("It is too large: %(detail)s bytes."),
    "link": gettext_lazy("It is a link that leads out of the workspace or nowhere."),
    "unreadable": gettext_lazy("It cannot be read."),
    "many": gettext_lazy(
        "Too many files; this one comes in when an agent works there."
    ),
    "no_room": gettext_lazy(
        "No room is left for it; it comes in when an agent works there."
    ),
}


def reason_of(reason: str, detail: str) -> str:
    """Why a file is not used, as a sentence in the reader's language."""
    return str(REASONS[reason]) % {"detail": printable(detail)}


def library_of(workspace_id: UUID, root: Path) -> Library:
    """Every skill that a workspace has. One query, and the disk."""
    made = [
        *(one for folder in FOLDERS for one in in_folder(Root(root), folder)),
        *stored(workspace_id),
        *of_server(),
    ]
    return Library.of(
        [one.skill for one in made if one.skill],
        [problem for one in made for problem in one.problems],
    )


def stored(workspace_id: UUID) -> Iterator[Made]:
    """The skills that people wrote in the workspace's settings."""
    for row in WorkspaceSkill.objects.filter(workspace=workspace_id).order_by("name"):
        yield Made(
            Skill(
                row.name,
                row.description,
                row.body,
                "workspace",
                row.when_to_use,
                tuple(row.paths),
                tuple(row.allowed_tools),
            )
        )


def of_server() -> Iterator[Made]:
    """The skills of the folder that SKILLS_DIR names, for every workspace."""
    if not settings.SKILLS_DIR:
        return
    folder = Path(settings.SKILLS_DIR)
    for one in in_folder(Root(folder), ""):
        if one.skill is None:
            yield one
            continue
        # The files beside it lie outside of the workspace: no tool could read them.
        skill = replace(one.skill, source="server", path="", files=())
        yield Made(skill, one.problems)


def in_folder(root: Root, folder: str) -> Iterator[Made]:
    """The skills of a folder, by the names of theirs."""
    reader = Reader(root)
    names = _entries(root, parse(folder), folders=True)
    for name in names[:MOST_IN_FOLDER]:
        parts = (*parse(folder), name)
        files = _entries(root, parts, folders=False)
        if "SKILL.md" not in files:
            continue
        path = "/".join((*parts, "SKILL.md"))
        try:
            text = reader.text(path)
        except Unusable as error:
            sentence = reason_of(error.reason, error.detail)
            yield Made(None, (Problem(path, sentence),))
            continue
        beside = [f"{path.removesuffix('SKILL.md')}{one}" for one in files]
        yield made_of(
            text,
            name=name,
            source="folder",
            path=printable(path),
            files=[printable(one) for one in beside if one != path][:MOST_FILES],
        )
    left = len(names) - MOST_IN_FOLDER
    if left > 0:
        sentence = _("%(left)s folders beyond the first %(n)s are not read.") % {
            "left": left,
            "n": MOST_IN_FOLDER,
        }
        yield Made(None, (Problem(folder or "SKILLS_DIR", sentence),))


def _entries(root: Root, parts: tuple[str, ...], *, folders: bool) -> list[str]:
    """Names of the folders in a folder, or of what is none; [] if it is not there."""
    try:
        with root.enter(parts) as descriptor, os.scandir(descriptor) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
    except (ToolError, OSError):
        return []
    return sorted(
        name
        for name, is_folder in found
        if is_folder is folders and not name.startswith(".")
    )
