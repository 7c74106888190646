"""Images in what is sent: the stored file for a model that sees, a line for others.

Which of the two is decided for each request, so a later switch of the model shows what
was only named before. An image that is no longer sent, or was erased, is named too.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from uuid import UUID

from agents.providers.base import Message, Picture
from workspace import blobs

#: The file of a stored image by its SHA-256, in base64; "" when it is gone.
Load = Callable[[str], str]

_BLIND = "this model cannot see images"
_ERASED = "it was erased"
_PRUNED = "no longer sent; view or attach it again if you need it"


def nothing(sha256: str) -> str:
    """For requests that no store stands behind."""
    return ""


def loader(workspace_id: UUID) -> Load:
    """Reads the workspace's store; what was read last stays at hand."""
    return lambda sha256: _encoded(workspace_id, sha256)


@lru_cache(maxsize=24)
def _read(workspace_id: UUID, sha256: str) -> str:
    return base64.b64encode(blobs.get(workspace_id, sha256)).decode()


def _encoded(workspace_id: UUID, sha256: str) -> str:
    # What was erased must not come back from memory.
    if not blobs.path(workspace_id, sha256).exists():
        return ""
    try:
        return _read(workspace_id, sha256)
    except blobs.DamagedBlob:
        return ""


def without(message: Message, pruned: Collection[int]) -> Message:
    """The message, with only the names of images that came with these entries."""
    left = [one for one in message.pictures if one.seq in pruned]
    if not left:
        return message
    kept = tuple(one for one in message.pictures if one.seq not in pruned)
    return _named(replace(message, pictures=kept), left, _PRUNED)


def shown(
    messages: Iterable[Message], load: Load, *, sees: bool
) -> tuple[Message, ...]:
    """The messages with their images filled in, or named if the model cannot see."""
    return tuple(
        _shown(message, load, sees=sees) if message.pictures else message
        for message in messages
    )


def _shown(message: Message, load: Load, *, sees: bool) -> Message:
    if not sees:
        return _named(replace(message, pictures=()), message.pictures, _BLIND)
    filled = [replace(one, data=load(one.sha256)) for one in message.pictures]
    there = tuple(one for one in filled if one.data)
    gone = [one for one in filled if not one.data]
    return _named(replace(message, pictures=there), gone, _ERASED)


def _named(message: Message, pictures: Iterable[Picture], why: str) -> Message:
    lines = [
        f"[image attached: {one.name} {one.width}x{one.height}; {why}]"
        for one in pictures
    ]
    text = "\n".join(filter(None, [message.text, *lines]))
    return replace(message, text=text)
