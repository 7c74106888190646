"""What people do with the notes that agents keep: add, correct, pin, forget."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from agents.memories import change, keep, may_change
from agents.models import Agent, Memory
from workspace import audit
from workspace.access import require
from workspace.errors import BadInput, NotAllowed, NotVisible
from workspace.models import User, Workspace


@transaction.atomic
def add_note(
    *,
    by: User,
    workspace: Workspace,
    text: str,
    scope: str,
    agent: Agent | None = None,
) -> Memory:
    """Write a note by hand: for oneself, or as an admin for all or for one agent."""
    shared = scope != Memory.Scope.USER
    require(by, workspace, "manage_workspace" if shared else "post")
    if scope not in Memory.Scope.values or (scope == Memory.Scope.AGENT) != bool(agent):
        raise BadInput(_("Choose whom the note is for."))
    note, is_new = keep(
        Memory(
            workspace=workspace,
            scope=scope,
            user=None if shared else by,
            agent=agent,
            text=text,
            source=Memory.Source.PERSON,
            created_by=by,
        )
    )
    if is_new:
        _note_change("memory.added", by, note)
    return note


@transaction.atomic
def change_note(*, by: User, note: Memory, text: str, pinned: bool) -> None:
    """Correct a note, and say whether it is always told first."""
    _require(by, note)
    old = note.text
    change(note, text)
    if note.pinned != pinned:
        note.pinned = pinned
        note.save(update_fields=["pinned"])
    _note_change("memory.changed", by, note, old=old)


@transaction.atomic
def forget_note(*, by: User, note: Memory) -> None:
    """Delete a note for good; the audit log does not keep its text."""
    _require(by, note)
    _note_change("memory.forgotten", by, note)
    note.delete()


def _require(by: User, note: Memory) -> None:
    """404 for another person's note, 403 for a shared one that one may not change."""
    if note.scope == Memory.Scope.USER and note.user_id != by.pk:
        raise NotVisible
    if not may_change(note, by):
        raise NotAllowed(
            _(
                "Who added this note can change it, and so can an admin of the workspace."
            )
        )


def _note_change(action: str, by: User, note: Memory, **values: Any) -> None:
    """Shared notes are everybody's business; a person's own are not."""
    if note.scope == Memory.Scope.USER:
        return
    lengths = {"characters": len(note.text)}
    old = {"characters": len(values["old"])} if "old" in values else None
    audit.record(
        action,
        by=by,
        workspace=note.workspace,
        subject=f"mem:{note.pk} ({note.scope})",
        old=old,
        new=lengths,
    )
