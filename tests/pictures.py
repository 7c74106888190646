"""Image files for tests, made on the spot."""

from __future__ import annotations

import io
import os
import struct
import zlib
from typing import Any

from PIL import Image


def picture(
    width: int = 8,
    height: int = 6,
    form: str = "PNG",
    mode: str = "RGB",
    **options: Any,
) -> bytes:
    """A plain image file; `color` and what `save` takes are options."""
    image = Image.new(mode, (width, height), options.pop("color", "teal"))
    return saved(image, form, **options)


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def noise(width: int, height: int, mode: str = "RGBA") -> Image.Image:
    size = width * height * len(mode)
    return Image.frombytes(mode, (width, height), os.urandom(size))


def declared(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header promises this many pixels."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [
        _chunk(b"IHDR", head),
        _chunk(b"IDAT", zlib.compress(b"\0" * 1000)),
        _chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    crc = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))
