"""Rules files and skills of a workspace as its settings show them. Reads the disk.

A file is marked until a member has looked at it as it is now: agents write files, and
what they write into a rules file speaks to every later conversation.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from agents.context.rules import digest_of
from agents.context.rules_files import Reader, Unusable, discover
from agents.context.skills_files import FOLDERS, in_folder, reason_of
from agents.context.surroundings import Surroundings, look_around
from agents.context.tokens import count
from agents.models import SeenInstruction, ToolCall
from agents.seeding import DEFAULT_AGENT
from agents.surface.modes import MODES
from agents.tools.listing import printable
from agents.tools.paths import Root
from workspace.diffs import Row, rows_of
from workspace.models import Conversation, User, Workspace

LONGEST_KEPT = 200_000  # characters of a text that is kept for the next comparison
MOST_FILES = 500  # that are compared


@dataclass(frozen=True, slots=True)
class Read:
    """A rules file as a conversation begins with it; sizes in characters."""

    path: str
    size: int
    kept: int
    tokens: int
    note: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What a new conversation in a mode would be given."""

    off: bool
    per_file: int
    total: int
    files: tuple[Read, ...]
    gated: tuple[Mapping[str, Any], ...]
    ignored: tuple[tuple[str, str], ...]

    @property
    def tokens(self) -> int:
        return sum(file.tokens for file in self.files)


@dataclass(frozen=True, slots=True)
class Unseen:
    """A file that is not as a member last saw it. `digest` "" when it is gone."""

    path: str
    digest: str
    is_new: bool
    diff: list[Row]
    conversation: Conversation | None

    @property
    def is_gone(self) -> bool:
        return not self.digest


def rules_of(workspace: Workspace, mode: str) -> Rules:
    """The rules that a conversation of the default agent would begin with now."""
    found = _surroundings(workspace, mode).rules
    record = found.record
    tokens = {part["id"]: count(part["text"]) for part in found.parts}
    return Rules(
        record["off"],
        record["per_file"],
        record["total"],
        tuple(
            Read(
                printable(row["path"]),
                row["size"],
                row["kept"],
                tokens[f"rules:{printable(row['path'])}"],
                row["note"],
            )
            for row in record["files"]
        ),
        tuple(record["gated"]),
        tuple(
            (printable(row["path"]), reason_of(row["reason"], row["detail"]))
            for row in record["ignored"]
        ),
    )


def _surroundings(workspace: Workspace, mode: str) -> Surroundings:
    conversation = Conversation(
        workspace=workspace, agent_name=DEFAULT_AGENT, mode=mode
    )
    return look_around(conversation)


def texts_now(workspace: Workspace) -> dict[str, str]:
    """The whole text, head included, of every rules file and SKILL.md there is."""
    root = Root(workspace.root)
    paths = {
        file.path for mode in MODES for file in discover(workspace.root, mode).files
    }
    paths |= {
        one.skill.path
        for folder in FOLDERS
        for one in in_folder(root, folder)
        if one.skill
    }
    reader, found = Reader(root), {}
    for path in sorted(paths)[:MOST_FILES]:
        try:
            found[path] = reader.text(path)
        except Unusable:
            continue
    return found


def unseen_in(workspace: Workspace, viewer: User) -> list[Unseen]:
    """Files that no member has seen as they are now, by path."""
    now = texts_now(workspace)
    rows = {row.path: row for row in _seen_of(workspace)}
    if "" not in rows:
        remember_first(workspace, now)
        return []
    del rows[""]
    changed = [
        path
        for path in sorted({*now, *rows})
        if path not in rows
        or path not in now
        or rows[path].digest != digest_of(now[path])
    ]
    return [_unseen(workspace, viewer, path, rows, now) for path in changed]


def _seen_of(workspace: Workspace) -> QuerySet[SeenInstruction]:
    return SeenInstruction.objects.filter(workspace=workspace)


def _unseen(
    workspace: Workspace,
    viewer: User,
    path: str,
    rows: Mapping[str, SeenInstruction],
    now: Mapping[str, str],
) -> Unseen:
    before = rows[path].text if path in rows else ""
    diff = difflib.unified_diff(
        before.splitlines(), now.get(path, "").splitlines(), lineterm="", n=3
    )
    return Unseen(
        path,
        digest_of(now[path]) if path in now else "",
        path not in rows,
        rows_of("\n".join(diff)),
        _changed_in(workspace, viewer, path),
    )


def _changed_in(workspace: Workspace, viewer: User, path: str) -> Conversation | None:
    """The conversation whose tool last wrote the file, if the viewer may see it."""
    call = (
        ToolCall.objects.filter(
            run__workspace=workspace,
            ok=True,
            outcome__meta__path=path,
            outcome__meta__diff__isnull=False,
        )
        .order_by("-ended_at")
        .select_related("run")
        .first()
    )
    if call is None:
        return None
    visible = Conversation.objects.visible_to(viewer)
    return visible.filter(pk=call.run.conversation_id).first()


def remember_first(workspace: Workspace, now: Mapping[str, str] | None = None) -> None:
    """Before the first agent works here: what is there was put there by people.

    One query when that was done already.
    """
    if _seen_of(workspace).filter(path="").exists():
        return
    texts = texts_now(workspace) if now is None else now
    SeenInstruction.objects.bulk_create(
        [
            SeenInstruction(workspace=workspace, path="", digest=""),
            *(seen_row(workspace, path, text) for path, text in texts.items()),
        ],
        ignore_conflicts=True,
    )


def seen_row(
    workspace: Workspace, path: str, text: str, by: User | None = None
) -> SeenInstruction:
    return SeenInstruction(
        workspace=workspace,
        path=path,
        digest=digest_of(text),
        text=text[:LONGEST_KEPT],
        seen_by=by,
    )


def source_title(source: str) -> str:
    """Where a skill comes from, for people."""
    titles = {
        "folder": _("File"),
        "workspace": _("Workspace"),
        "server": _("Server"),
    }
    return titles[source]
