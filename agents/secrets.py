"""Keys of model services at rest: Fernet, under a key that lives outside the database.

The first of the server's keys encrypts, every one decrypts: to rotate, put a new key in
front of `FERNET_KEYS`, then run `manage.py rotate_secrets`. Without any key one is
made and kept in `var/fernet.key`, readable by the server's own account only. Whatever
passes here in the clear is from then on redacted from records and log lines.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from functools import lru_cache
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext as _

from workspace.errors import ActionError
from workspace.redaction import register
from workspace.var import read_key

KEY_FILE = "fernet.key"


class SecretUnreadable(ActionError):
    """A stored secret cannot be decrypted: the server's key is not the one it had."""

    status = 409


def encrypt(plain: str) -> str:
    """The ciphertext to store; empty for an empty secret."""
    if not plain:
        return ""
    register(plain)
    return _fernet().encrypt(plain.encode()).decode("ascii")


def decrypt(stored: str) -> str:
    """The secret itself: pass it on, never keep, log or show it.

    Raises `SecretUnreadable` when no key of the server fits.
    """
    if not stored:
        return ""
    try:
        plain = _fernet().decrypt(stored.encode()).decode()
    except (InvalidToken, UnicodeError):
        raise SecretUnreadable(_unreadable()) from None
    register(plain)
    return plain


def reencrypt(stored: str) -> str:
    """The same secret under the server's first key. Raises `SecretUnreadable`."""
    if not stored:
        return ""
    try:
        return _fernet().rotate(stored.encode()).decode("ascii")
    except (InvalidToken, UnicodeError):
        raise SecretUnreadable(_unreadable()) from None


def _unreadable() -> str:
    return _(
        "The stored key cannot be decrypted with this server's keys. Restore the key "
        "file (var/fernet.key or FERNET_KEYS) that was in use when it was saved, or "
        "enter the key again."
    )


def _fernet() -> MultiFernet:
    return _multi_fernet(tuple(_keys()))


@lru_cache(maxsize=4)
def _multi_fernet(keys: tuple[str, ...]) -> MultiFernet:
    try:
        return MultiFernet([Fernet(key) for key in keys])
    except ValueError:
        # Not `from error`: its text may hold a part of the key.
        raise ImproperlyConfigured(
            "A key in FERNET_KEYS or var/fernet.key is not a Fernet key. It must be 32 "
            "random bytes in URL-safe base64, 44 characters long."
        ) from None


def _keys() -> list[str]:
    """The server's keys, newest first. The file is read when the settings have none."""
    configured = [key.strip() for key in settings.FERNET_KEYS if key.strip()]
    return configured or [_stored_key(Path(settings.VAR_DIR) / KEY_FILE)]


def _stored_key(path: Path) -> str:
    """The key in the file; written first if there is none."""
    if key := read_key(path):
        return key
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _create(path, Fernet.generate_key())
    return read_key(path)


def _create(path: Path, key: bytes) -> None:
    """Put a whole key in place at once; whoever was first wins."""
    descriptor, partial = tempfile.mkstemp(dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key + b"\n")
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)
    finally:
        Path(partial).unlink()
