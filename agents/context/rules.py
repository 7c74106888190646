"""Rules files as values: which of them are in the prefix, and cut to which size.

Caps are in characters and follow from the model's window in tokens (reference: context
files and caps). Over the total the deepest files are cut first and the root file last; a
file that has no room at all is left out, and attached when a tool works in its folder.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext_noop

from agents.tools.listing import printable

#: Project files in the order in which they are read; every folder may have them.
KINDS = (
    "AGENTS.md",
    "CLAUDE.md",
    "QWEN.md",
    ".snowpea/instructions.md",
    ".cursorrules",
)

LARGEST_FILE, LEAST_FILE, SMALL_WINDOW_FILE = 500_000, 20_000, 8_000
LARGEST_TOTAL, LEAST_TOTAL = 120_000, 12_000
SMALL_WINDOW = 32_000  # tokens

HEADING = "# Project Context"
INTRODUCTION = (
    "Rules of this workspace, outermost first; for a folder its own rules count most. "
    "Follow them unless your instructions or the people here say otherwise."
)

Reason = Literal[
    "same", "empty", "binary", "large", "link", "unreadable", "many", "no_room"
]
#: An opening or closing tag of the wrapper, however it is written.
_TAG = re.compile(r"<(?=\s*/?\s*context\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RulesFile:
    """A rules file that was read. `folder` is the one it speaks for; "" is the root.

    `globs`: meant for matching paths only, so it is not in the prefix. `kind`: project
    files everybody has; mode files are for one mode of agents.
    """

    path: str
    text: str
    folder: str = ""
    globs: tuple[str, ...] = ()
    kind: Literal["project", "mode"] = "project"
    note: str = ""

    @property
    def depth(self) -> int:
        return self.folder.count("/") + 1 if self.folder else 0

    @property
    def digest(self) -> str:
        return digest_of(self.text)


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file that is there and not used; `detail` is what the reason needs."""

    path: str
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a look into the workspace found, root first."""

    files: tuple[RulesFile, ...] = ()
    ignored: tuple[Ignored, ...] = ()


@dataclass(frozen=True, slots=True)
class Caps:
    """Characters of one file, and of all files together."""

    per_file: int
    total: int

    @classmethod
    def of(
        cls,
        window: int | None,
        per_file: int | None = None,
        total: int | None = None,
    ) -> Caps:
        """From the window in tokens, None if unknown; settings go before."""
        if not window or window < 0:
            return cls(per_file or LEAST_FILE, total or LEAST_TOTAL)
        floor = SMALL_WINDOW_FILE if window <= SMALL_WINDOW else LEAST_FILE
        return cls(
            per_file or min(max(window * 24 // 100, floor), LARGEST_FILE),
            total or min(max(window * 40 // 100, LEAST_TOTAL), LARGEST_TOTAL),
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """A file as it is sent: `text` is escaped and perhaps cut."""

    file: RulesFile
    text: str

    @property
    def is_whole(self) -> bool:
        return self.text == escaped(self.file.text)

    def is_full(self, caps: Caps) -> bool:
        """Whether it is as long as its own cap lets it be: no other file shortened it."""
        path = printable(self.file.path)
        return self.text == cut(escaped(self.file.text), caps.per_file, path)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def escaped(text: str) -> str:
    """The text, unable to close the wrapper around it or to open another one."""
    return _TAG.sub("&lt;", text)


def marker(left_out: int, path: str) -> str:
    return f"…[truncated: {left_out} more chars; read {path} for the rest]"


def cut(text: str, allowance: int, path: str) -> str:
    """At most `allowance` characters: 70 % head and 20 % tail of it around the marker.

    "" when there is no room for the marker and a bit of text.
    """
    if len(text) <= allowance:
        return text
    head, tail = allowance * 7 // 10, allowance * 2 // 10
    longest = len(marker(len(text), path))
    if head + tail + longest > allowance:
        room = allowance - longest
        if room <= 0:
            return ""
        head, tail = room - room * 2 // 9, room * 2 // 9
    left_out = len(text) - head - tail
    return text[:head] + marker(left_out, path) + text[len(text) - tail :]


def fitted(files: Sequence[RulesFile], caps: Caps) -> list[Kept]:
    """The files that have room, in their order, each at the size it may have.

    The total is at least what keeps the root file whole, up to its own cap.
    """
    whole = [escaped(file.text) for file in files]
    texts = [
        cut(text, caps.per_file, printable(file.path))
        for file, text in zip(files, whole, strict=True)
    ]
    root = len(texts[0]) if files and not files[0].depth else 0
    over = sum(map(len, texts)) - max(caps.total, root)
    deepest_first = sorted(
        range(len(files)), key=lambda index: (-files[index].depth, -index)
    )
    for index in deepest_first:
        if over <= 0:
            break
        before = len(texts[index])
        path = printable(files[index].path)
        texts[index] = cut(whole[index], max(0, before - over), path)
        over -= before - len(texts[index])
    return [
        Kept(file, text)
        for file, text in zip(files, texts, strict=True)
        if text.strip()
    ]


def wrapped(kept: Kept) -> str:
    """The file as it is sent: its path and text in a wrapper that it cannot close."""
    path = html.escape(printable(kept.file.path), quote=True)
    return f'<context file="{path}">\n{kept.text}\n</context>'


def root_only(found: Found) -> Found:
    """What a lean child is given: the first of the root's project files."""
    mine = [file for file in found.files if _is_lean(file)]
    return Found(tuple(mine[:1]), ())


def _is_lean(file: RulesFile) -> bool:
    return not file.depth and file.kind == "project" and not file.globs


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rules that a conversation begins with.

    `parts` are parts of the startup context; `record` is kept beside them: which files
    at which size, which ones wait for a path, which ones were left out.
    """

    parts: tuple[dict[str, str], ...]
    record: dict[str, Any]


def snapshot(found: Found, caps: Caps, *, off: bool = False) -> Snapshot:
    """The block `# Project Context`, one part for each file. Pure."""
    always = [file for file in found.files if not file.globs]
    kept = fitted(always, caps)
    left = {file.path for file in always} - {one.file.path for one in kept}
    record = {
        "off": off,
        "per_file": caps.per_file,
        "total": caps.total,
        "files": [_row(one, caps) for one in kept],
        "gated": [
            {"path": file.path, "paths": list(file.globs), "size": len(file.text)}
            for file in found.files
            if file.globs
        ],
        "ignored": [
            {"path": one.path, "reason": one.reason, "detail": one.detail}
            for one in (
                *found.ignored,
                *(Ignored(path, "no_room") for path in sorted(left)),
            )
        ],
    }
    return Snapshot(tuple(_parts(kept)), record)


def _row(kept: Kept, caps: Caps) -> dict[str, Any]:
    file = kept.file
    return {
        "path": file.path,
        "size": len(file.text),
        "kept": len(kept.text),
        "full": kept.is_full(caps),
        "digest": file.digest,
        "note": file.note,
    }


def _parts(kept: Sequence[Kept]) -> Iterable[dict[str, str]]:
    if kept:
        text = f"{HEADING}\n\n{INTRODUCTION}"
        yield {
            "id": "rules:heading",
            "title": gettext_noop("Heading of the rules"),
            "text": text,
        }
    for one in kept:
        path = printable(one.file.path)
        yield {"id": f"rules:{path}", "title": path, "text": wrapped(one)}
