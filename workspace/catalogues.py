"""Compiles translations where GNU gettext is not installed.

Only `.po` files are kept in the repository. A catalogue that is missing or older than
its source is written beside it when the process starts; that takes milliseconds.
"""

from __future__ import annotations

import ast
import contextlib
import logging
import os
import re
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

MAGIC = 0x950412DE
HEADER_BYTES = 7 * 4
LINE = re.compile(r'(?:(msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)\s+)?(".*")')


def compile_missing(folders: Iterable[str | Path]) -> None:
    """Bring every catalogue up to date. A folder that cannot be written is left."""
    for folder in folders:
        for source in Path(folder).glob("*/LC_MESSAGES/*.po"):
            target = source.with_suffix(".mo")
            if _is_fresh(target, source):
                continue
            try:
                _replace(target, compiled(source.read_text(encoding="utf-8")))
            except OSError as error:
                logger.warning("%s cannot be written: %s", target.name, error.strerror)


def _is_fresh(target: Path, source: Path) -> bool:
    try:
        return target.stat().st_mtime >= source.stat().st_mtime
    except FileNotFoundError:
        return False


def _replace(target: Path, data: bytes) -> None:
    """Put the whole file in its place: several processes may start at once."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".mo")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def messages(source: str) -> Iterator[tuple[str, str]]:
    """Each translated message of a `.po` text, keyed as a `.mo` file keys it."""
    for block in re.split(r"\n\s*\n", source):
        parts: dict[str, str] = {}
        part = ""
        for line in block.splitlines():
            if line.startswith("#") or not (match := LINE.fullmatch(line.strip())):
                continue
            part = match[1] or part
            parts[part] = parts.get(part, "") + ast.literal_eval(match[2])
        yield from _message(parts)


def _message(parts: dict[str, str]) -> Iterator[tuple[str, str]]:
    forms = [text for name, text in sorted(parts.items()) if name.startswith("msgstr")]
    if "msgid" not in parts or not all(forms):
        return
    key = parts["msgid"]
    if "msgid_plural" in parts:
        key += "\0" + parts["msgid_plural"]
    if "msgctxt" in parts:
        key = parts["msgctxt"] + "\4" + key
    yield key, "\0".join(forms)


def compiled(source: str) -> bytes:
    """The `.mo` file of a `.po` text: a header, two tables of places, the texts."""
    pairs = sorted((k.encode(), v.encode()) for k, v in messages(source))
    count = len(pairs)
    at = HEADER_BYTES + count * 16
    keys, values, texts = b"", b"", b""
    for column in (0, 1):
        table = b""
        for pair in pairs:
            table += struct.pack("<2I", len(pair[column]), at)
            texts += pair[column] + b"\0"
            at += len(pair[column]) + 1
        keys, values = (table, values) if column == 0 else (keys, table)
    header = struct.pack(
        "<7I", MAGIC, 0, count, HEADER_BYTES, HEADER_BYTES + count * 8, 0, 0
    )
    return header + keys + values + texts
