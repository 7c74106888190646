"""view_image, and what other tools do with images that they bring.

An image goes into the workspace's store and its name into the result's `meta`. After
all results of the round the model is shown the images in one message; no output, entry
or event ever holds their bytes.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from agents.errors import ToolError
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult
from agents.tools.paths import Root
from workspace import images
from workspace.errors import ActionError

#: Images of one result that are kept; the others become a line.
MOST_ATTACHED = 4


class ViewImage(Arguments):
    also_called: ClassVar[dict[str, str]] = {
        "file_path": "path",
        "filename": "path",
        "image_path": "path",
    }

    path: str
    detail: Literal["high", "low"] = "high"


def view_image(ctx: ToolContext, args: ViewImage) -> ToolResult:
    if not ctx.sees_images:
        raise ToolError(
            "The model of this conversation cannot see images, so nothing was attached. "
            "Get at what the image holds by other means, or ask a person.",
            code="no_vision",
        )
    with Root(ctx.root).open(args.path) as opened:
        path, size = opened.path, opened.status.st_size
        data = b"" if size > images.MOST_BYTES else _read(ctx, opened.descriptor)
    try:
        images.check_size(max(size, len(data)))
        kept = images.keep(ctx.workspace_id, data, path, args.detail)
    except ActionError as error:
        raise ToolError(f"{path!r}: {error.message}", code="bad_image") from error
    return ToolResult(True, kept.line, meta={"path": path, "images": [kept.body()]})


def _read(ctx: ToolContext, descriptor: int) -> bytes:
    """The whole file, but not more than one byte over the limit if it grows."""
    parts: list[bytes] = []
    left = images.MOST_BYTES + 1
    while left > 0 and (chunk := os.read(descriptor, min(left, 1 << 20))):
        ctx.interrupt.check()
        parts.append(chunk)
        left -= len(chunk)
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Encoded:
    """An image as a remote tool sends it: base64, and the type that it claims."""

    data: str
    mime: str

    @property
    def size(self) -> int:
        """Bytes of the file, from the length of its text."""
        return len(self.data) * 3 // 4

    @property
    def marker(self) -> str:
        """What stands for an image that is not kept."""
        claimed = "".join(char for char in self.mime if char.isprintable())[:60]
        return f"[{claimed or 'image'} content, {self.size} bytes]"


def attach_images(
    ctx: ToolContext, result: ToolResult, found: Sequence[Encoded], name: str = "image"
) -> ToolResult:
    """The result with images that came with it, by the rules of every other image.

    At most `MOST_ATTACHED` are kept; the others, and those that are too large or not
    images, become a marker. The first line of the output then is `N image(s) attached`,
    the result's own text follows. For a model that cannot see them they are kept too.
    """
    kept: list[images.Kept] = []
    lines: list[str] = []
    for number, encoded in enumerate(found, start=1):
        one = None
        if len(kept) < MOST_ATTACHED:
            one = _kept(ctx, encoded, f"{name} {number}")
        if one is None:
            lines.append(encoded.marker)
        else:
            kept.append(one)
    head = [f"{len(kept)} image(s) attached"] if kept else []
    output = "\n".join(filter(None, [*head, result.output, *lines]))
    rows = [one.body() for one in kept]
    meta = {**result.meta, "images": rows} if rows else result.meta
    return replace(result, output=output, meta=meta)


def _kept(ctx: ToolContext, encoded: Encoded, name: str) -> images.Kept | None:
    if encoded.size > images.MOST_BYTES + 2:  # padding counts in the length
        return None
    try:
        data = base64.b64decode(encoded.data, validate=True)
        return images.keep(ctx.workspace_id, data, name)
    except (binascii.Error, ValueError, ActionError):
        return None


TOOLS = (
    Tool(
        name="view_image",
        group="files",
        description=(
            "Look at a PNG, JPEG, WebP or GIF file; it is shown to you after this "
            "round's results. detail=low is cheaper."
        ),
        tag="read",
        arguments=ViewImage,
        run=view_image,
        idempotent=True,
        path_arguments=("path",),
        main_argument="path",
        hints=("picture", "photo", "screenshot", "look at", "이미지", "사진", "그림"),
    ),
)
