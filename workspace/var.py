"""The folder that holds everything an installation keeps: var/."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

#: Bytes; the kernel refuses a longer socket address (108 with its final zero).
LONGEST_SOCKET_PATH = 100


def broker_socket(var: Path) -> Path:
    """Where the embedded Valkey listens; every process computes the same path.

    A path that the kernel would refuse moves to a private folder among the
    temporary ones, named after the folder it stands for.
    """
    path = var / "valkey.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    name = hashlib.sha256(os.fsencode(var)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"tallyroom-{os.getuid()}-{name}"
    return folder / "valkey.sock"


def read_key(path: Path) -> str:
    """A key that `manage.py up` wrote; empty when there is none yet."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise ImproperlyConfigured(
            f"The key {str(path)!r} cannot be read: {error.strerror}. Run as the user "
            "who owns it, or name another folder with VAR_DIR."
        ) from None
