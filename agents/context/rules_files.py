"""Finds and reads rules files in a workspace's folder, within bounds.

Files are opened as tools open them: no path leads out of the workspace. A symbolic link
is followed only to a file that lies in the workspace itself. Never inside a transaction.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agents.context.frontmatter import gate_of, split, unusable_paths
from agents.context.rules import KINDS, Found, Ignored, Reason, RulesFile
from agents.errors import ToolError
from agents.providers.wire import clean
from agents.tools.paths import IGNORED_FOLDERS, Root, parse

DEEPEST = 4  # folders below the root
MOST_BELOW = 40  # files in sub-folders
MOST_IN_FOLDER = 40  # files of one .bob/rules folder
LARGEST_BYTES = 2 * 1024 * 1024  # of one file
MOST_BYTES = 16 * 1024 * 1024  # of all files of one look
_MOST_VISITED = 20_000  # names that one look goes through
_MOST_LINKS = 5
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FIRST_NAMES = frozenset(kind.partition("/")[0] for kind in KINDS)
_BINARY_SAMPLE = 8_192  # bytes in which a NUL betrays a binary file


class Unusable(Exception):
    """Why a file that is there is not used."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(slots=True)
class Reader:
    """Reads files below one root, up to a number of bytes in all."""

    root: Root
    left: int = MOST_BYTES

    def text(self, path: str) -> str:
        """The file's text. Raises Unusable; NotThere's reason is `unreadable`."""
        data = self._bytes(path)
        if b"\0" in data[:_BINARY_SAMPLE]:
            raise Unusable("binary")
        return clean(data.decode("utf-8-sig", "replace")).replace("\r\n", "\n")

    def _bytes(self, path: str) -> bytes:
        most = min(LARGEST_BYTES, self.left)
        for _ in range(_MOST_LINKS):
            try:
                with self.root.open(path) as opened:
                    if opened.status.st_size > most:
                        raise Unusable("large", f"{opened.status.st_size:,}")
                    data = _read(opened.descriptor, most)
                    self.left -= len(data)
                    return data
            except ToolError as error:
                if error.code != "symbolic_link":
                    raise Unusable("unreadable", error.message) from error
                path = self._target(path)
            except OSError as error:
                raise Unusable("unreadable", error.strerror or "") from error
        raise Unusable("link", path)

    def _target(self, path: str) -> str:
        """Where a link points to, as a path of the workspace."""
        *folders, name = parse(path)
        try:
            with self.root.enter(tuple(folders)) as folder:
                target = os.readlink(name, dir_fd=folder)
            if not target.startswith("/"):
                target = "/".join((*folders, target))
            return "/".join(parse(target))
        except (ToolError, OSError) as error:
            raise Unusable("link", path) from error


def _read(descriptor: int, most: int) -> bytes:
    """The whole file; it may have grown beyond `most` bytes since it was opened."""
    parts: list[bytes] = []
    size = 0
    while data := os.read(descriptor, 1 << 20):
        size += len(data)
        if size > most:
            raise Unusable("large", f"{size:,}")
        parts.append(data)
    return b"".join(parts)


@dataclass(slots=True)
class _Gathering:
    """Files so far; a text that is known already is not read twice by the model."""

    reader: Reader
    files: list[RulesFile] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)

    def add(
        self, path: str, folder: str, kind: Literal["project", "mode"] = "project"
    ) -> None:
        try:
            file = read_file(self.reader, path, folder, kind)
        except Unusable as error:
            self.ignored.append(Ignored(path, error.reason, error.detail))
            return
        if first := self.known.get(file.text):
            self.ignored.append(Ignored(path, "same", first))
            return
        self.known[file.text] = path
        self.files.append(file)


def read_file(
    reader: Reader,
    path: str,
    folder: str,
    kind: Literal["project", "mode"] = "project",
) -> RulesFile:
    """One rules file, its head apart. Raises Unusable."""
    document = split(reader.text(path))
    if not document.text:
        raise Unusable("empty")
    gate = gate_of(document.values.get("paths"))
    notes = [document.problem] if document.problem else []
    if gate.dropped:
        notes.append(unusable_paths(gate))
    return RulesFile(path, document.text, folder, gate.globs, kind, " ".join(notes))


def discover(folder: Path, mode: str) -> Found:
    """Every rules file that a conversation in this mode begins with, root first."""
    root = Root(folder)
    gathering = _Gathering(Reader(root))
    top = _names(root, ())
    for path in kinds_in(root, "", top):
        gathering.add(path, "")
    for path in _mode_files(root, mode, top, gathering.ignored):
        gathering.add(path, "", "mode")
    below = list(_below(root))
    for path, inner in below[:MOST_BELOW]:
        gathering.add(path, inner)
    gathering.ignored += [Ignored(path, "many") for path, _ in below[MOST_BELOW:]]
    return Found(tuple(gathering.files), tuple(gathering.ignored))


def kinds_in(root: Root, folder: str, names: Iterable[str] | None = None) -> list[str]:
    """Paths of the project files that a folder has, in their order."""
    parts = parse(folder)
    there = set(_names(root, parts) if names is None else names)
    found = []
    for kind in KINDS:
        first, _, rest = kind.partition("/")
        if first in there and (not rest or rest in _names(root, (*parts, first))):
            found.append("/".join((*parts, kind)))
    return found


def _mode_files(
    root: Root, mode: str, top: Iterable[str], ignored: list[Ignored]
) -> Iterator[str]:
    """General files, then the mode's; a folder with files goes before the one file."""
    there = set(top)
    for name in ("", f"-{mode}") if mode else ("",):
        rules = f".bob/rules{name}"
        files = _files(root, parse(rules)) if ".bob" in there else []
        ignored += [Ignored(path, "many") for path in files[MOST_IN_FOLDER:]]
        yield from files[:MOST_IN_FOLDER]
        if not files and f".bobrules{name}" in there:
            yield f".bobrules{name}"


def _files(root: Root, parts: tuple[str, ...]) -> list[str]:
    """What is no folder in a folder, by name; [] if it is none."""
    try:
        with root.enter(parts) as descriptor, os.scandir(descriptor) as entries:
            names = [
                one.name for one in entries if not one.is_dir(follow_symlinks=False)
            ]
    except (ToolError, OSError):
        return []
    return ["/".join((*parts, name)) for name in sorted(names) if _is_text_name(name)]


def _is_text_name(name: str) -> bool:
    return not name.startswith(".") and not name.endswith("~")


def _names(root: Root, parts: tuple[str, ...]) -> list[str]:
    try:
        with root.enter(parts) as descriptor:
            return os.listdir(descriptor)
    except (ToolError, OSError):
        return []


def _below(root: Root) -> Iterator[tuple[str, str]]:
    """Paths and folders of the files in sub-folders, by depth, then by path."""
    waiting: deque[tuple[str, ...]] = deque([()])
    visited = 0
    try:
        top = os.open(root.folder, _FOLDER)
    except OSError:
        return
    try:
        while waiting and visited <= _MOST_VISITED:
            parts = waiting.popleft()
            names, folders = _look(top, "/".join(parts))
            visited += len(names)
            if parts and not _FIRST_NAMES.isdisjoint(names):
                folder = "/".join(parts)
                for path in kinds_in(root, folder, names):
                    yield path, folder
            if len(parts) < DEEPEST:
                waiting.extend((*parts, name) for name in folders)
    finally:
        os.close(top)


def _look(top: int, folder: str) -> tuple[list[str], list[str]]:
    """All names in a folder, and the folders among them that are looked into.

    Opened in one step: were a folder above it swapped for a link meanwhile, this would
    see names only; the files are opened component by component.
    """
    try:
        descriptor = os.open(folder or ".", _FOLDER, dir_fd=top)
    except OSError:
        return [], []
    try:
        with os.scandir(descriptor) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
    except OSError:
        return [], []
    finally:
        os.close(descriptor)
    names = [name for name, _ in found]
    folders = [
        name
        for name, is_folder in found
        if is_folder and name not in IGNORED_FOLDERS and not name.startswith(".")
    ]
    return names, sorted(folders)
