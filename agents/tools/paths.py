"""The conversation's folder, opened so that no path leads out of it.

A path is walked one component at a time from the root's descriptor, never following a
symbolic link: what is checked is what is opened, whatever changes in between. A file
with several names (hard links) is served only if all of them lie inside the root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.errors import ToolError
from agents.sandbox import HOME

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_COMPONENTS = 200
_MAX_NAMES_SEARCHED = 50_000  # entries looked at for a hard link's other names

#: Never listed or searched: version control, dependencies, caches and build output.
IGNORED_FOLDERS = frozenset(
    (  # noqa: SIM905 - words are easier to read than a list of strings
        ".git .hg .svn .jj node_modules bower_components .venv venv __pycache__ "
        ".mypy_cache .pytest_cache .ruff_cache .tox .nox .gradle .idea .tallyroom "
        "target dist build .next .turbo .cache vendor"
    ).split()
)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class PathRefused(ToolError):
    """A path that a tool does not serve; says what would work."""

    def __init__(self, message: str, code: str = "bad_path") -> None:
        super().__init__(message, code=code)


class NotThere(PathRefused):
    """Nothing of that name."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path!r} does not exist. Paths are relative to the workspace root; "
            f"use glob or list_dir to find it.",
            "not_found",
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """A regular file open for reading and what was known when it was opened."""

    descriptor: int
    path: str
    status: os.stat_result


def parse(path: str) -> tuple[str, ...]:
    """The components of a path below the root; () for the root itself."""
    if "\0" in path or any("\ud800" <= char <= "\udfff" for char in path):
        raise PathRefused(f"{path!r} holds characters that no file name can have.")
    if path.startswith("/"):
        if path != HOME and not path.startswith(HOME + "/"):
            raise PathRefused(
                f"{path!r} is outside the workspace. Use a path relative to the "
                f"workspace root, or one below {HOME}."
            )
        path = path[len(HOME) :]
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise PathRefused(f"{path!r} leads out of the workspace.")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if len(parts) > _MAX_COMPONENTS or any(len(p.encode()) > 255 for p in parts):
        raise PathRefused("The path is too deep or a name in it is too long.")
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Root:
    """The folder that a conversation's tools may see."""

    folder: Path

    @contextlib.contextmanager
    def enter(self, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
        """A descriptor of a folder below the root; raises `PathRefused`."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for index, part in enumerate(parts):
                path = "/".join(parts[: index + 1])
                below = _step(descriptor, part, path, create)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Opened]:
        """A regular file, open for reading; raises `PathRefused`."""
        parts = parse(path)
        if not parts:
            raise PathRefused(
                f"{path!r} is a folder. Use list_dir or glob.", "is_folder"
            )
        shown = "/".join(parts)
        with self.enter(parts[:-1]) as folder:
            name = _existing_name(folder, parts[-1])
            descriptor = _open(folder, name, _FILE, shown)
        try:
            status = os.fstat(descriptor)
            _check_regular(status, shown)
            if status.st_nlink > 1:
                self._check_names(status, shown)
            yield Opened(descriptor, "/".join((*parts[:-1], name)), status)
        finally:
            os.close(descriptor)

    def stat(self, path: str) -> os.stat_result | None:
        """What lies at a path, links not followed; None if nothing does."""
        parts = parse(path)
        try:
            with self.enter(parts[:-1]) as folder:
                name = _existing_name(folder, parts[-1]) if parts else "."
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotThere):
            return None

    def replace(self, path: str, data: bytes) -> None:
        """Write a whole file at once: readers see the old or the new one, never half.

        Makes missing folders and keeps an existing file's permissions.
        """
        parts = parse(path)
        if not parts:
            raise PathRefused(f"{path!r} is the workspace itself; name a file in it.")
        shown = "/".join(parts)
        with self.enter(parts[:-1], create=True) as folder:
            name = _existing_name(folder, parts[-1])
            mode = _mode_to_keep(folder, name, shown)
            try:
                _write_beside(folder, name, data, mode)
            except OSError as error:
                raise _refusal(error, shown) from error

    def _check_names(self, status: os.stat_result, shown: str) -> None:
        """Refuse a file that also has a name outside the root."""
        found = looked_at = 0
        waiting = [os.fspath(self.folder)]
        while waiting and looked_at <= _MAX_NAMES_SEARCHED:
            with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    looked_at += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.inode() == status.st_ino:
                        found += _is_same(entry, status)
            if found >= status.st_nlink:
                return
        raise PathRefused(
            f"{shown!r} is a hard link to a file that may lie outside the workspace. "
            f"Make a copy of it under another name.",
            "hard_link",
        )


def _is_same(entry: os.DirEntry[str], status: os.stat_result) -> bool:
    other = entry.stat(follow_symlinks=False)
    return (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino)


def _step(descriptor: int, part: str, path: str, create: bool) -> int:
    name = _existing_name(descriptor, part)
    if create:
        with contextlib.suppress(FileExistsError):
            try:
                os.mkdir(name, 0o755, dir_fd=descriptor)
            except FileExistsError:
                raise
            except OSError as error:
                raise _refusal(error, path) from error
    return _open(descriptor, name, _FOLDER, path)


def _existing_name(folder: int, name: str) -> str:
    """The name under which the file is there: its accents may be written either way."""
    for form in (name, *(unicodedata.normalize(f, name) for f in ("NFC", "NFD"))):
        try:
            os.stat(form, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue
        return form
    return name


def _open(folder: int, name: str, flags: int, shown: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            with contextlib.suppress(OSError):
                target = os.readlink(name, dir_fd=folder)
                raise PathRefused(
                    f"{shown!r} is a symbolic link to {target!r}; links are not "
                    f"followed. Use the path it points to, if that is in the workspace.",
                    "symbolic_link",
                ) from error
        raise _refusal(error, shown) from error


def _refusal(error: OSError, shown: str) -> PathRefused:
    if error.errno == errno.ENOENT:
        return NotThere(shown)
    if error.errno == errno.ENOTDIR:
        return PathRefused(f"{shown!r} is a file, not a folder.", "not_folder")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PathRefused(
            f"The disk is full; {shown!r} is unchanged. Delete files that are not "
            f"needed or ask the operator for space.",
            "disk_full",
        )
    reason = os.strerror(error.errno or errno.EIO).lower()
    return PathRefused(f"{shown!r} cannot be used: {reason}.", "unusable_path")


def _check_regular(status: os.stat_result, shown: str) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
    hint = " Use list_dir or glob." if stat.S_ISDIR(status.st_mode) else ""
    code = "is_folder" if hint else "not_regular"
    raise PathRefused(f"{shown!r} is {kind}, not a file.{hint}", code)


def _mode_to_keep(folder: int, name: str, shown: str) -> int:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    if stat.S_ISLNK(status.st_mode):
        raise PathRefused(
            f"{shown!r} is a symbolic link; links are not written through. Use the path "
            f"it points to, if that is in the workspace.",
            "symbolic_link",
        )
    _check_regular(status, shown)
    return stat.S_IMODE(status.st_mode)


def _write_beside(folder: int, name: str, data: bytes, mode: int) -> None:
    """Write a temporary file in the same folder, then put it in the name's place."""
    temporary = f".tallyroom-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
