"""A workspace's files as people reach them: no path and no link leads out.

A path is walked one name at a time from the folder's own descriptor and links are
never followed, so what is checked is what is opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _

from workspace import room
from workspace.errors import BadInput, Conflict, NotVisible, TooMuch

#: Bytes of one uploaded file, names that a folder shows, parts of a path.
LARGEST_UPLOAD = 50 * 1024 * 1024
MOST_LISTED = 2000
DEEPEST = 64

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Listed:
    """One name in a folder. Links are shown, not followed."""

    name: str
    path: str
    kind: str
    size: int
    changed: datetime


def parts_of(path: str) -> list[str]:
    """The names of a path below the root. Raises NotVisible for anything that leaves."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    wrong = any(
        part == ".." or "\0" in part or "\\" in part or len(part.encode()) > 255
        for part in parts
    )
    if wrong or len(parts) > DEEPEST or path.startswith("/"):
        raise NotVisible
    return parts


@contextlib.contextmanager
def entered(root: Path, parts: list[str]) -> Iterator[int]:
    """A descriptor of the folder. Raises NotVisible if it is none, or behind a link."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        for part in parts:
            try:
                descriptor = os.open(part, _FOLDER, dir_fd=descriptor)
            except OSError:
                raise NotVisible from None
            stack.callback(os.close, descriptor)
        yield descriptor


def is_folder(root: Path, path: str) -> bool:
    try:
        with entered(root, parts_of(path)):
            return True
    except NotVisible:
        return False


def listing(root: Path, path: str) -> list[Listed]:
    """What lies in a folder: folders first, then files, by name."""
    parts = parts_of(path)
    with entered(root, parts) as descriptor:
        names = sorted(os.listdir(descriptor))[:MOST_LISTED]
        found = [_described(descriptor, parts, name) for name in names]
    shown = [one for one in found if one is not None]
    return sorted(shown, key=lambda one: (one.kind != "folder", one.name.lower()))


def _described(descriptor: int, parts: list[str], name: str) -> Listed | None:
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return None
    kind = "other"
    if stat.S_ISDIR(status.st_mode):
        kind = "folder"
    elif stat.S_ISREG(status.st_mode):
        kind = "file"
    elif stat.S_ISLNK(status.st_mode):
        kind = "link"
    # A name that is not UTF-8 has no address; it is shown without a link.
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if shown != name:
        kind = "other"
    changed = datetime.fromtimestamp(status.st_mtime, UTC)
    return Listed(shown, "/".join([*parts, shown]), kind, status.st_size, changed)


def opened(root: Path, path: str) -> BinaryIO:
    """A regular file, open for reading. Raises NotVisible for anything else."""
    parts = parts_of(path)
    if not parts:
        raise NotVisible
    with entered(root, parts[:-1]) as descriptor:
        try:
            handle = os.open(parts[-1], _READ, dir_fd=descriptor)
        except OSError:
            raise NotVisible from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(handle)
        raise NotVisible
    return os.fdopen(handle, "rb")


def save(root: Path, path: str, upload: UploadedFile[bytes], *, replace: bool) -> None:
    """Write an uploaded file into a folder. Raises Conflict if the name is taken."""
    name = parts_of((upload.name or "").replace("\\", "/"))[-1:]
    if not name:
        raise BadInput(_("The file has no name; rename it and try again."))
    if (upload.size or 0) > LARGEST_UPLOAD:
        raise TooMuch(
            _("%(name)s is larger than %(limit)d MB. Upload a smaller file.")
            % {"name": name[0], "limit": LARGEST_UPLOAD // 1024**2}
        )
    room.require(root, upload.size or 0)
    with entered(root, parts_of(path)) as descriptor:
        partial = f".{name[0][:80]}.{os.urandom(6).hex()}.part"
        try:
            _write(descriptor, partial, upload)
            _give_name(descriptor, partial, name[0], replace=replace)
        except OSError as error:
            raise _refusal(error, name[0]) from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(partial, dir_fd=descriptor)


def _write(descriptor: int, partial: str, upload: UploadedFile[bytes]) -> None:
    handle = os.open(partial, _NEW, 0o644, dir_fd=descriptor)
    with os.fdopen(handle, "wb") as file:
        for chunk in upload.chunks():
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _give_name(descriptor: int, partial: str, name: str, *, replace: bool) -> None:
    """Put the whole file in its place at once; `link` fails where a name is taken."""
    if replace:
        os.replace(partial, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
    else:
        os.link(
            partial,
            name,
            src_dir_fd=descriptor,
            dst_dir_fd=descriptor,
            follow_symlinks=False,
        )


def _refusal(error: OSError, name: str) -> Exception:
    if error.errno == errno.EEXIST:
        return Conflict(
            _(
                "There is a file called %(name)s already. Tick “Replace” to overwrite "
                "it."
            )
            % {"name": name}
        )
    return BadInput(
        _("%(name)s could not be written: %(reason)s.")
        % {"name": name, "reason": error.strerror}
    )
