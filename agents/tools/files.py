"""read_file, write_file, edit_file: one file at a time, never outside the root."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import Field

from agents.errors import ToolError
from agents.sandbox import no_room
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult
from agents.tools.caps import MOST_CHARACTERS, OUTPUTS
from agents.tools.edits import replace, unified
from agents.tools.paths import NotThere, Opened, Root, parse

DEFAULT_LINES = 2_000
_CHUNK = 1 << 20
_BINARY_SAMPLE = 8_192  # bytes in which a NUL betrays a binary file
_MOST_EDITED = 256 << 20  # bytes of a file that an edit may load
_MOST_WRITTEN = 20_000_000  # bytes
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tiff", ".ico", ".avif")
_PATH_NAMES = {"file_path": "path", "filename": "path", "absolute_path": "path"}


class ReadFile(Arguments):
    also_called: ClassVar[dict[str, str]] = _PATH_NAMES

    path: str
    offset: int = Field(1, ge=1, description="first line, from 1")
    limit: int = Field(DEFAULT_LINES, ge=1, le=100_000)


class WriteFile(Arguments):
    also_called: ClassVar[dict[str, str]] = {**_PATH_NAMES, "text": "content"}

    path: str
    content: str


class EditFile(Arguments):
    also_called: ClassVar[dict[str, str]] = {
        **_PATH_NAMES,
        "old": "old_string",
        "new": "new_string",
        "replaceAll": "replace_all",
    }

    path: str
    old_string: str
    new_string: str
    replace_all: bool = False


@dataclass(slots=True)
class Page:
    """Numbered lines from `first` on, filled line by line until a limit is reached."""

    first: int
    limit: int
    lines: list[str] = field(default_factory=list)
    full: bool = False
    cut: bool = False
    _size: int = 0

    def add(self, number: int, line: bytes, length: int) -> None:
        """Take a line if it is in the page; `length` is its whole length in bytes."""
        if number < self.first or self.full:
            return
        text = line.decode("utf-8", "replace").removesuffix("\r")
        text = text.removeprefix("\ufeff") if number == 1 else text
        shown = f"{number}\t{text}" if text else ""  # an empty line needs no number
        room = MOST_CHARACTERS - self._size
        if len(self.lines) == self.limit or (self.lines and len(shown) > room):
            self.full = True
            return
        if len(shown) > room or length > len(line):
            shown = f"{shown[:room]}\n[line {number} is cut: {length:,} bytes in all]"
            self.cut = True
        self.lines.append(shown)
        self._size += len(shown) + 1


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one pass over a file found out."""

    page: Page
    total: int  # lines; a last line without newline counts
    sha256: str
    binary: bool


def _chunks(ctx: ToolContext, descriptor: int) -> Iterator[bytes]:
    while data := os.read(descriptor, _CHUNK):
        ctx.interrupt.check()
        yield data


def scan(chunks: Iterator[bytes], page: Page) -> Scanned:
    """Hash a file, count its lines and fill a page, holding one line's head at most."""
    digest = hashlib.sha256()
    total, held, length = 0, b"", 0
    keep = 4 * MOST_CHARACTERS  # bytes of a line that could be shown
    seen_any = binary = False
    for chunk in chunks:
        digest.update(chunk)
        if not seen_any:
            seen_any, binary = True, b"\0" in chunk[:_BINARY_SAMPLE]
        at = 0
        while (end := chunk.find(b"\n", at)) >= 0:
            total += 1
            if total >= page.first and not page.full:
                line = held + chunk[at : min(end, at + keep - len(held))]
                page.add(total, line, length + end - at)
            elif page.full:
                total += chunk.count(b"\n", end + 1)
                end = chunk.rfind(b"\n")
            held, length, at = b"", 0, end + 1
        held += chunk[at : at + keep - len(held)]
        length += len(chunk) - at
    if length:
        total += 1
        page.add(total, held, length)
    return Scanned(page, total, digest.hexdigest(), binary)


def read_file(ctx: ToolContext, args: ReadFile) -> ToolResult:
    page = Page(args.offset, args.limit)
    parts = parse(args.path)
    path = "/".join(parts)
    if path.startswith(OUTPUTS):
        stored = ctx.stored_output(path)
        if stored is None:
            raise NotThere(path)
        return _shown(path, scan(iter([stored]), page), args)
    with Root(ctx.root).open(args.path) as opened:
        if opened.path.lower().endswith(_IMAGES):
            kilobytes = opened.status.st_size // 1024
            return ToolResult(
                True,
                f"{opened.path} is an image ({kilobytes:,} KB): read_file shows text "
                f"only. To see it, use view_image if you have that tool.",
                meta={"path": opened.path},
            )
        scanned = scan(_chunks(ctx, opened.descriptor), page)
        if scanned.binary:
            raise ToolError(
                f"{opened.path!r} is a binary file ({opened.status.st_size:,} bytes). "
                f"Inspect it with shell, e.g. `file` or `xxd | head`.",
                code="binary",
            )
        return _shown(opened.path, scanned, args)


def _shown(path: str, scanned: Scanned, args: ReadFile) -> ToolResult:
    page, total = scanned.page, scanned.total
    meta = {
        "path": path,
        "sha256": scanned.sha256,
        "lines": len(page.lines),
        "total_lines": total,
    }
    if total == 0:
        return ToolResult(True, f"({path} is empty)", meta=meta)
    if args.offset > total:
        raise ToolError(
            f"offset {args.offset} is past the end: {path!r} has {total} lines.",
            code="past_end",
        )
    output = "\n".join(page.lines)
    last = args.offset + len(page.lines) - 1
    if last < total:
        output += f"\n[lines {args.offset}-{last} of {total}; go on: offset={last + 1}]"
    elif page.cut:
        output += "\n[to see more of a cut line use grep, or shell with cut -c]"
    return ToolResult(True, output, meta=meta)


def _current(ctx: ToolContext, opened: Opened) -> bytes:
    """The whole file, if it is what this conversation last saw of it."""
    if opened.status.st_size > _MOST_EDITED:
        raise ToolError(
            f"{opened.path!r} has {opened.status.st_size:,} bytes, too many to edit "
            f"here. Change it with shell (sed, a script).",
            code="too_large",
        )
    data = b"".join(_chunks(ctx, opened.descriptor))
    seen = ctx.last_seen(opened.path)
    if seen == hashlib.sha256(data).hexdigest():
        return data
    happened = "has changed since you read it" if seen else "exists; read it before"
    raise ToolError(
        f"{opened.path!r} {happened}. Nothing was written: call read_file on it, then "
        f"try again.",
        code="stale_file",
    )


def _refuse_read_only(ctx: ToolContext) -> None:
    if ctx.read_only:
        raise ToolError(
            "Files are read-only at this approval level. Describe the change instead.",
            code="read_only",
        )


def _written(
    path: str, data: bytes, output: str, diff: str, created: bool
) -> ToolResult:
    meta = {
        "path": path,
        "sha256": hashlib.sha256(data).hexdigest(),
        "total_lines": data.count(b"\n") + (data[-1:] not in (b"", b"\n")),
        "diff": diff,
        "created": created,
    }
    return ToolResult(True, output, meta=meta)


def _encoded(text: str, name: str) -> bytes:
    """The text as it goes to disk; what came in as undecodable bytes goes out as such."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{name} holds half of a surrogate pair at character {error.start}, which "
            f"no file can store. Write the character itself.",
            code="bad_text",
        ) from error
    if len(data) > _MOST_WRITTEN and name == "content":
        raise ToolError(
            f"content has {len(data):,} bytes; at most {_MOST_WRITTEN:,} can be "
            f"written at once. Generate large files with shell.",
            code="too_large",
        )
    return data


def write_file(ctx: ToolContext, args: WriteFile) -> ToolResult:
    _refuse_read_only(ctx)
    data = _encoded(args.content, "content")
    root = Root(ctx.root)
    path = _writable(args.path)
    before = b""
    try:
        with root.open(args.path) as opened:
            path = opened.path
            before = _current(ctx, opened)
            created = False
    except NotThere:
        created = True
    _check_room(ctx, path, len(data) - len(before))
    root.replace(path, data)
    diff = "" if b"\0" in before[:_BINARY_SAMPLE] else _difference(before, data, path)
    done = "created" if created else "wrote"
    return _written(
        path, data, f"{done} {path} ({len(args.content):,} characters)", diff, created
    )


def _writable(path: str) -> str:
    """The path below the root; stored outputs are a view and cannot be written."""
    parts = parse(path)
    if "/".join(parts).startswith(OUTPUTS):
        raise ToolError(f"{path!r} is a stored output and read-only.", code="read_only")
    return "/".join(parts)


def _check_room(ctx: ToolContext, path: str, growth: int) -> None:
    """Refuse what would go over the quota; what shrinks a file is always welcome."""
    if growth > 0 and (sentence := no_room(ctx.root, growth)):
        raise ToolError(f"{path!r} was not written. {sentence}", code="disk")


def _difference(before: bytes, after: bytes, path: str) -> str:
    return unified(
        before.decode("utf-8", "replace"), after.decode("utf-8", "replace"), path
    )


def edit_file(ctx: ToolContext, args: EditFile) -> ToolResult:
    _refuse_read_only(ctx)
    _writable(args.path)
    root = Root(ctx.root)
    with root.open(args.path) as opened:
        path, before = opened.path, _current(ctx, opened)
    if b"\0" in before[:_BINARY_SAMPLE]:
        raise ToolError(
            f"{path!r} is a binary file; change it with shell.", code="binary"
        )
    _encoded(args.old_string, "old_string")
    text = before.decode("utf-8", "surrogateescape")
    edited = replace(text, args.old_string, args.new_string, args.replace_all)
    after = _encoded(edited.text, "new_string")
    _check_room(ctx, path, len(after) - len(before))
    root.replace(path, after)
    places = "1 place" if edited.count == 1 else f"{edited.count} places"
    return _written(
        path,
        after,
        f"edited {path}: {places}, line {edited.line}",
        _difference(before, after, path),
        created=False,
    )


READ_FILE = Tool(
    name="read_file",
    group="files",
    description=(
        "Read a text file as line number, tab, text (empty lines bare). Says how to go "
        "on when there is more."
    ),
    tag="read",
    arguments=ReadFile,
    run=read_file,
    idempotent=True,
    path_arguments=("path",),
    main_argument="path",
    hints=("open", "view", "cat", "show", "파일", "읽기", "열기", "보기"),
    aliases=("read", "view_file", "cat"),
)
WRITE_FILE = Tool(
    name="write_file",
    group="files",
    description=(
        "Create or overwrite a file (folders are made). Read an existing file first; "
        "for changes prefer edit_file."
    ),
    tag="write",
    arguments=WriteFile,
    run=write_file,
    path_arguments=("path",),
    main_argument="path",
    hints=("create", "save", "new file", "쓰기", "저장", "만들기", "생성"),
    aliases=("write", "create_file"),
)
EDIT_FILE = Tool(
    name="edit_file",
    group="files",
    description=(
        "Replace old_string, which must match the file exactly and once (without line "
        "numbers), by new_string. Read the file first."
    ),
    tag="write",
    arguments=EditFile,
    run=edit_file,
    path_arguments=("path",),
    main_argument="path",
    hints=("change", "replace", "patch", "modify", "수정", "편집", "바꾸기"),
    aliases=("edit", "replace", "patch", "str_replace"),
)
TOOLS = (READ_FILE, WRITE_FILE, EDIT_FILE)
