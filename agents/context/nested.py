"""Rules that come into a conversation when a tool works in their folder.

The whole chain, outermost first, each file once; an edited file once more. They stand at
the tail as notices, which pruning and compaction leave whole. What is known follows from
the entries that are sent: a rewind forgets what it took out of sight.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.context.folding import fold
from agents.context.frontmatter import admits
from agents.context.rules import Caps, Kept, RulesFile, fitted, wrapped
from agents.context.rules_files import Reader, Unusable, kinds_in, read_file
from agents.context.touching import Touch, folders_to
from agents.context.view import Item
from agents.errors import ToolError
from agents.tools.listing import printable
from agents.tools.paths import Root

MOST_FOLDERS = 100  # that one round's calls are followed into
MOST_FILES = 40  # rules files that one round may attach


@dataclass(frozen=True, slots=True)
class Known:
    """What the model has before it: digests by path, and how the rules began.

    `gated` are files of the root that wait for a path: their globs by path.
    """

    off: bool
    caps: Caps
    digests: Mapping[str, str]
    gated: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, items: Sequence[Item]) -> Known:
        """From a conversation's entries."""
        rows = fold(items).rows
        begun = [row.body for row in rows if row.kind == "startup"]
        record: Mapping[str, Any] = (begun[-1].get("rules") if begun else None) or {}
        digests = {
            row["path"]: row["digest"] for row in record.get("files", ()) if row["full"]
        }
        for row in rows:
            if row.kind == "notice" and row.body.get("type") == "rules":
                digests[row.body["path"]] = row.body["digest"]
        unknown = Caps.of(None)
        return cls(
            bool(record.get("off")),
            Caps(
                record.get("per_file", unknown.per_file),
                record.get("total", unknown.total),
            ),
            digests,
            {row["path"]: row["paths"] for row in record.get("gated", ())},
        )


@dataclass(frozen=True, slots=True)
class Attachment:
    """A rules file that a round brings in; `cause` is the path that was touched."""

    kept: Kept
    cause: str
    is_again: bool

    def body(self) -> dict[str, Any]:
        """The body of the notice entry."""
        file = self.kept.file
        return {
            "type": "rules",
            "to_model": True,
            "path": file.path,
            "digest": file.digest,
            "size": len(file.text),
            "kept": len(self.kept.text),
            "cause": self.cause,
            "again": self.is_again,
            "text": f"{self._lead}\n{wrapped(self.kept)}",
        }

    @property
    def _lead(self) -> str:
        path = printable(self.kept.file.path)
        if self.is_again:
            return f"{path} has changed. From now on these rules hold:"
        return f"Rules that hold for {printable(self.cause)}, from {path}:"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rules file may lie, for which folder, and what was touched there."""

    path: str
    folder: str
    cause: str


def attachments(
    folder: Path, touched: Iterable[Touch], known: Known
) -> list[Attachment]:
    """The rules files to attach now, outermost first. Reads the disk."""
    if known.off:
        return []
    root = Root(folder)
    there = existing(root, touched)
    places = [*_waiting(known, there), *_chains(root, there)]
    found = _read(root, places, list(there), known)
    causes = {file.path: cause for file, cause in found}
    files = sorted((file for file, _ in found), key=_outermost)
    return [
        Attachment(kept, causes[kept.file.path], kept.file.path in known.digests)
        for kept in fitted(files, known.caps)
    ]


def _outermost(file: RulesFile) -> int:
    return file.depth


def existing(root: Root, touched: Iterable[Touch]) -> dict[str, bool]:
    """Paths that are there, or surely were, and whether they are folders."""
    found: dict[str, bool] = {}
    for touch in touched:
        try:
            status = root.stat(touch.path)
        except (ToolError, OSError):
            continue
        if status is not None:
            found[touch.path] = stat.S_ISDIR(status.st_mode)
        elif touch.is_sure:
            found[touch.path] = False
    return found


def _waiting(known: Known, paths: Iterable[str]) -> Iterator[Place]:
    """Gated files whose globs a touched path matches."""
    for file, globs in known.gated.items():
        cause = next((path for path in paths if admits(globs, [path])), None)
        if cause is not None:
            yield Place(file, "", cause)


def _chains(root: Root, there: Mapping[str, bool]) -> Iterator[Place]:
    """The rules files of every folder on the way to what was touched."""
    causes: dict[str, str] = {}
    for path, is_folder in there.items():
        for folder in folders_to(path, is_folder):
            if len(causes) < MOST_FOLDERS:
                causes.setdefault(folder, path)
    for folder, cause in causes.items():
        for path in kinds_in(root, folder):
            yield Place(path, folder, cause)


def _read(
    root: Root, places: Iterable[Place], paths: Sequence[str], known: Known
) -> list[tuple[RulesFile, str]]:
    """The files that the model does not have as they are now, and why they come."""
    reader = Reader(root)
    shown = set(known.digests.values())
    found: dict[str, tuple[RulesFile, str]] = {}
    for place in places:
        file = _one(reader, place) if len(found) < MOST_FILES else None
        if file is None or place.path in found or file.digest in shown:
            continue
        if file.globs and not admits(file.globs, paths):
            continue
        shown.add(file.digest)
        found[place.path] = file, place.cause
    return list(found.values())


def _one(reader: Reader, place: Place) -> RulesFile | None:
    try:
        return read_file(reader, place.path, place.folder)
    except Unusable:
        return None
