"""Signed heads: Ed25519 with a key that lies outside the database.

Whoever owns the database can re-hash a plain chain; without the key file they cannot
sign its new head.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from django.conf import settings

from workspace.errors import TranscriptError


class KeyTrouble(TranscriptError):
    """The signing key cannot be used; says which file and what to do."""


def key_exists() -> bool:
    return _file().exists()


def public_key() -> str:
    """Hexadecimal; makes the key when there is none yet."""
    return _key().public_key().public_bytes_raw().hex()


def sign(conversation_id: UUID, seq: int, digest: str) -> str:
    """Hexadecimal; makes the key when there is none yet."""
    return _key().sign(_statement(conversation_id, seq, digest)).hex()


def is_signed(
    key: str, conversation_id: UUID, seq: int, digest: str, signature: str
) -> bool:
    """Whether the owner of this public key (hexadecimal) signed this head."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(signature), _statement(conversation_id, seq, digest)
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def _statement(conversation_id: UUID, seq: int, digest: str) -> bytes:
    return f"transcript head\n{conversation_id}\n{seq}\n{digest}\n".encode()


def _file() -> Path:
    return Path(settings.SIGNING_KEY_FILE)


def _key() -> Ed25519PrivateKey:
    if not key_exists():
        _make_key()
    try:
        seed = bytes.fromhex(_file().read_text(encoding="ascii"))
        return Ed25519PrivateKey.from_private_bytes(seed)
    except (OSError, ValueError) as error:
        raise KeyTrouble(
            f"The signing key {str(_file())!r} cannot be read ({error}); restore it "
            "from a backup, since a new key cannot vouch for what the old one signed."
        ) from error


def _make_key() -> None:
    """Write the key beside its place, then link it: the first process wins."""
    file = _file()
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            opened.write(secrets.token_bytes(32).hex())
            opened.flush()
            os.fsync(opened.fileno())
        _link(draft, file)
    except OSError as error:
        raise KeyTrouble(
            f"The signing key {str(file)!r} cannot be written: {error.strerror}."
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def _link(draft: Path, file: Path) -> None:
    try:
        file.hardlink_to(draft)
    except FileExistsError:
        return  # another process was first; its key is the one
