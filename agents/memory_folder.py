"""Notes as files: what a memory agent reads and writes, and what becomes of it.

One file for each note, named by its number, in `user/`, `workspace/` and `agent/`;
pinned notes lie in `pinned/` and are never changed. A new file is a new note, an emptied
one is forgotten. Nothing is taken over before the agent has ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.db import transaction
from django.utils.translation import gettext as _

from agents.errors import ToolError
from agents.memories import change, keep, may_change
from agents.models import Memory, MemoryRun
from agents.tools.paths import Root, parse
from workspace.errors import ActionError, NotAllowed

PINNED = "pinned"
FOLDERS = tuple(Memory.Scope.values)
#: Changes that one run may make; bytes of a file that are looked at.
MOST_CHANGES, MOST_BYTES = 30, 20_000
_NAME = re.compile(r"mem-(\d+)\.md")


@dataclass
class Outcome:
    """How many notes changed, and what was refused, as sentences."""

    changes: int = 0
    refused: list[str] = field(default_factory=list)


def render(notes: list[Memory], folder: Path) -> None:
    """Write the notes below an empty folder."""
    for name in (*FOLDERS, PINNED):
        (folder / name).mkdir(mode=0o700)
    for note in notes:
        (folder / path_of(note)).write_text(note.text + "\n", encoding="utf-8")


def path_of(note: Memory) -> str:
    return f"{PINNED if note.pinned else note.scope}/mem-{note.pk}.md"


def guard(path: str) -> None:
    """Refuse a write that no note could come of. Raises ToolError."""
    parts = parse(path)
    if len(parts) != 2 or parts[0] not in FOLDERS:
        raise ToolError(
            f"{path!r} is no place for a note: write user/…, workspace/… or agent/…; "
            "what lies in pinned/ stays as it is.",
            code="bad_path",
        )


@transaction.atomic
def take_over(run: MemoryRun, notes: list[Memory], folder: Path) -> Outcome:
    """Make the notes what the files say; a file that is refused changes nothing."""
    outcome = Outcome()
    known = {path_of(note): note for note in notes if not note.pinned}
    private = _is_private(run, notes)
    for path, text in _files(folder):
        note = known.get(path)
        if note is not None and " ".join(note.text.split()) == " ".join(text.split()):
            continue
        if note is None and (not text.strip() or _NAME.search(path)):
            continue
        if outcome.changes >= MOST_CHANGES:
            outcome.refused.append(f"More than {MOST_CHANGES} changes were left out.")
            break
        try:
            _take(run, note, path, text, private)
        except ActionError as error:
            outcome.refused.append(f"{path}: {error.message}")
        else:
            outcome.changes += 1
    return outcome


def _is_private(run: MemoryRun, notes: list[Memory]) -> bool:
    """Whether what is written may repeat what was said in private."""
    if run.conversation:
        return run.conversation.private
    return any(note.private for note in notes)


def _take(
    run: MemoryRun, note: Memory | None, path: str, text: str, private: bool
) -> None:
    if note is None:
        keep(_new(run, path.partition("/")[0], text, private))
        return
    _require_may_change(run, note, private)
    if text.strip():
        change(note, text, private=private)
    else:
        note.delete()


def _require_may_change(run: MemoryRun, note: Memory, private: bool) -> None:
    """A run may do to notes what its person may; one for nobody tidies the shared."""
    if private and note.scope != Memory.Scope.USER:
        raise NotAllowed(_("What was said in private is kept for its person alone."))
    if run.user_id and not may_change(note, run.user):
        raise NotAllowed(
            _("mem:%(key)d belongs to all; only who added it or an admin changes it.")
            % {"key": note.pk}
        )


def _new(run: MemoryRun, scope: str, text: str, private: bool) -> Memory:
    """What is learned in private is its person's alone, whatever folder it is in."""
    talk = run.conversation
    if private or (run.kind == MemoryRun.Kind.CONSOLIDATION and run.user_id):
        scope = Memory.Scope.USER
    agent = None
    if scope == Memory.Scope.AGENT and talk:
        agent = run.workspace.agents.filter(name=talk.agent_name).first()
    if scope == Memory.Scope.AGENT and agent is None:
        scope = Memory.Scope.WORKSPACE
    return Memory(
        workspace_id=run.workspace_id,
        scope=scope,
        user_id=run.user_id if scope == Memory.Scope.USER else None,
        agent=agent,
        text=text,
        private=private,
        source=Memory.Source(run.kind),
        created_by_id=run.user_id,
        conversation=talk,
        turn=talk.turns.order_by("-created_at").first() if talk else None,
    )


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Path and text of each file that may be a note, by name; links are not followed."""
    root = Root(folder)
    for name in FOLDERS:
        for found in sorted((folder / name).iterdir()):
            path = f"{name}/{found.name}"
            try:
                with (
                    root.open(path) as opened,
                    open(opened.descriptor, "rb", closefd=False) as file,
                ):
                    data = file.read(MOST_BYTES)
            except ToolError:
                continue
            yield path, data.decode("utf-8", "replace")
