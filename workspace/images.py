"""Pictures as models and people get them: one set of rules for every way in.

What is kept is never the file that came but a picture made anew from its pixels: turned
upright, scaled down, without metadata, and without whatever else hid in the file.
"""

from __future__ import annotations

import io
import struct
import threading
import zlib
from dataclasses import asdict, dataclass
from typing import Any, Literal
from uuid import UUID

from django.utils.translation import gettext as _
from PIL import Image, ImageOps

from workspace import blobs
from workspace.errors import BadInput, TooMuch

#: Bytes of a file that is accepted; one more is refused (spec: images).
MOST_BYTES = 20_971_520
#: Pixels that may be decoded: 256 MB as RGBA.
MOST_PIXELS = 64_000_000
#: Pixels of the longer edge of what is kept, by detail.
EDGES: dict[str, int] = {"high": 1568, "low": 768}
#: Bytes of what is kept: services refuse a picture over 5 MiB of base64.
MOST_KEPT = 3_900_000
LONGEST_NAME = 120  # characters

_FORMATS = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "WEBP": "image/webp",
    "GIF": "image/gif",
}
TYPES = frozenset(_FORMATS.values())
_QUALITIES = (90, 80, 65, 50)
#: What decoders raise for files that are broken or made to break them.
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, KeyError, IndexError) + (
    struct.error,
    zlib.error,
    OverflowError,
    MemoryError,
    Image.DecompressionBombError,
)

#: Decoding may take 256 MB for each: two at a time in one process.
_decoding = threading.BoundedSemaphore(2)

# Pillow's own bound warns at half and refuses at twice its number; the one here is
# checked first, on the size that the header declares.
Image.MAX_IMAGE_PIXELS = None

Detail = Literal["high", "low"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture ready to be kept. `width` and `height` in pixels."""

    data: bytes
    mime: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A picture in the store, as entries and results name it. `size` in bytes."""

    sha256: str
    mime: str
    width: int
    height: int
    size: int
    name: str

    def body(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def line(self) -> str:
        """What a tool says of it: never more than this."""
        kilobytes = max(1, self.size // 1024)
        return (
            f"image attached: {self.name} {self.width}x{self.height} "
            f"{self.mime} ({kilobytes} KB)"
        )


def type_of(data: bytes) -> str:
    """The type that the first bytes say, whatever the name; "" for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return ""


def check_size(size: int) -> None:
    """Raise TooMuch for a file of more bytes than are accepted."""
    if size > MOST_BYTES:
        raise TooMuch(
            _("The image is %(size)d bytes; the limit is %(limit)d. Scale it down.")
            % {"size": size, "limit": MOST_BYTES}
        )


def prepared(data: bytes, detail: Detail = "high") -> Picture:
    """The picture that is kept of a file.

    1. Size and type are checked on the bytes, the pixels on what the header declares.
    2. The first frame is decoded, turned upright and scaled to the detail's edge.
    3. It is written anew; JPEG and WebP stay what they are, the others become PNG.

    Raises TooMuch or BadInput with what is wrong with the file.
    """
    check_size(len(data))
    kind = type_of(data)
    if not kind:
        raise BadInput(
            _("This is no PNG, JPEG, WebP or GIF image. Convert it to one of these.")
        )
    try:
        with _decoding, Image.open(io.BytesIO(data), formats=list(_FORMATS)) as opened:
            _check_pixels(opened.size)
            upright = _decoded(opened, EDGES[detail])
            return _written(upright, kind)
    except _BROKEN as error:
        raise BadInput(
            _(
                "The image is damaged, incomplete or not what it pretends to be, so it "
                "cannot be shown. Save it anew and try again."
            )
        ) from error


def _check_pixels(size: tuple[int, int]) -> None:
    if size[0] * size[1] > MOST_PIXELS:
        raise TooMuch(
            _(
                "The image has %(width)d x %(height)d pixels; the limit is %(most)d "
                "million in all. Scale it down."
            )
            % {"width": size[0], "height": size[1], "most": MOST_PIXELS // 1_000_000}
        )


def _decoded(opened: Image.Image, edge: int) -> Image.Image:
    """The first frame, upright, no edge longer than `edge`."""
    size = scaled(opened.size, edge)
    if opened.format in ("JPEG", "MPO"):
        opened.draft(None, size)  # a JPEG can be decoded at a half or a quarter
    opened.load()
    still: Image.Image = opened
    if still.mode.startswith("I;16"):
        still = still.convert("L")
    if still.mode not in ("RGB", "RGBA", "L"):
        still = still.convert("RGBA" if _is_clear(still) else "RGB")
    if still.size != size:
        still = still.resize(size, Image.Resampling.LANCZOS)
    still.info.setdefault("exif", opened.info.get("exif", b""))
    return ImageOps.exif_transpose(still)


def _is_clear(image: Image.Image) -> bool:
    return "transparency" in image.info or "A" in image.getbands()


def scaled(size: tuple[int, int], edge: int) -> tuple[int, int]:
    """The size that fits: rounded, at least one pixel, never larger than it was."""
    width, height = size
    longest = max(width, height)
    if longest <= edge:
        return size
    return (
        max(1, round(width * edge / longest)),
        max(1, round(height * edge / longest)),
    )


def _written(image: Image.Image, kind: str) -> Picture:
    """The picture as a file of at most `MOST_KEPT` bytes, without metadata."""
    kept_kind = kind if kind in ("image/jpeg", "image/webp") else "image/png"
    if kept_kind == "image/png":
        data = _saved(image, "PNG", optimize=False)
        if len(data) <= MOST_KEPT:
            return Picture(data, kept_kind, *image.size)
        kept_kind = "image/jpeg"
    for quality in _QUALITIES:
        if kept_kind == "image/webp":
            data = _saved(image, "WEBP", quality=quality, method=4)
        else:
            data = _saved(_opaque(image), "JPEG", quality=quality)
        if len(data) <= MOST_KEPT:
            return Picture(data, kept_kind, *image.size)
    raise TooMuch(
        _("The image stays larger than %(limit)d bytes when scaled. Scale it down.")
        % {"limit": MOST_KEPT}
    )


def _opaque(image: Image.Image) -> Image.Image:
    """On white: JPEG knows no transparency."""
    if image.mode != "RGBA":
        return image
    ground = Image.new("RGB", image.size, "white")
    ground.paste(image, mask=image.getchannel("A"))
    return ground


def _saved(image: Image.Image, form: str, **options: Any) -> bytes:
    bare = image.copy()
    bare.info.clear()
    out = io.BytesIO()
    bare.save(out, form, **options)
    return out.getvalue()


def plain_name(name: str, mime: str = "") -> str:
    """The last part of a path, on one line, short enough to be shown."""
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    last = "".join(char if char.isprintable() else " " for char in last)
    last = " ".join(last.split())
    ending = mime.partition("/")[2] or "image"
    return last[:LONGEST_NAME] or f"image.{ending}"


def keep(workspace_id: UUID, data: bytes, name: str, detail: Detail = "high") -> Kept:
    """Prepare the picture and put it into the workspace's store.

    No query: whoever stores what names it calls `attachments.register_images` in the
    same transaction.
    """
    picture = prepared(data, detail)
    return Kept(
        blobs.put(workspace_id, picture.data),
        picture.mime,
        picture.width,
        picture.height,
        len(picture.data),
        plain_name(name, picture.mime),
    )
