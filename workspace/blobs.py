"""Bytes kept by their SHA-256, per workspace: var/blobs/<workspace>/ab/<sha256>.

Files are written before the row that names them, so a crash leaves an orphan and never
a reference to nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from workspace.errors import TranscriptError
from workspace.models import Blob

DIGEST = re.compile(r"[0-9a-f]{64}")


class DamagedBlob(TranscriptError):
    """A stored file is gone, or its content is no longer what its name says."""


class StoreFailed(TranscriptError):
    """The bytes could not be kept; nothing was stored. Names the system's reason."""


def path(workspace_id: UUID, sha256: str) -> Path:
    """Where these bytes lie, or would lie."""
    if not DIGEST.fullmatch(sha256):
        raise DamagedBlob(f"{sha256!r} is not the name of a stored file.")
    return folder_of(workspace_id) / sha256[:2] / sha256


def folder_of(workspace_id: UUID) -> Path:
    """Where all of a workspace's bytes lie."""
    return Path(settings.VAR_DIR) / "blobs" / str(UUID(str(workspace_id)))


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(workspace_id: UUID, data: bytes) -> str:
    """Keep the bytes, once and for all processes; returns their SHA-256.

    Raises StoreFailed when the disk is full or cannot be written.
    """
    sha256 = name_of(data)
    target = path(workspace_id, sha256)
    try:
        if not target.exists():
            _make_folder(target.parent)
            _write(target, data)
    except OSError as error:
        raise StoreFailed(
            f"{len(data)} bytes could not be stored below {str(settings.VAR_DIR)!r}: "
            f"{error.strerror}. Free some space or repair the folder, then try again."
        ) from error
    return sha256


def get(workspace_id: UUID, sha256: str) -> bytes:
    """The bytes, checked against their name; raises DamagedBlob."""
    try:
        data = path(workspace_id, sha256).read_bytes()
    except OSError as error:
        raise DamagedBlob(
            f"The stored file {sha256} cannot be read: {error.strerror}."
        ) from error
    if name_of(data) != sha256:
        raise DamagedBlob(f"The stored file {sha256} has been changed.")
    return data


def record(workspace_id: UUID, data: bytes, mime: str) -> Blob:
    """Keep the bytes and the row by which people reach them."""
    return register(workspace_id, put(workspace_id, data), len(data), mime)


def register(workspace_id: UUID, sha256: str, size: int, mime: str) -> Blob:
    """The row of bytes that lie in the store already."""
    blob, _ = Blob.objects.update_or_create(
        workspace_id=workspace_id,
        sha256=sha256,
        defaults={"shredded_at": None},
        create_defaults={"size": size, "mime": mime},
    )
    return blob


def forget(workspace_id: UUID, sha256: str) -> None:
    """Remove the bytes and note in their row that they are gone."""
    remove(workspace_id, sha256)
    Blob.objects.filter(
        workspace_id=workspace_id, sha256=sha256, shredded_at=None
    ).update(shredded_at=timezone.now())


def remove(workspace_id: UUID, sha256: str) -> None:
    """Forget the bytes; the caller knows that nothing names them any more."""
    path(workspace_id, sha256).unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    """Each missing level with mode 0700, whatever the process's mask."""
    missing = [level for level in (folder, *folder.parents) if not level.exists()]
    for level in reversed(missing):
        level.mkdir(mode=0o700, exist_ok=True)


def _write(target: Path, data: bytes) -> None:
    """Write beside, flush, then rename: readers see the whole file or none."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".new-")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
