"""`@path` in a message: files, lines, folders and images of the workspace come along.

`@src/a.py` is the whole file, `@src/a.py:10-20` exactly those lines, `@src/` the names in
a folder; a name with spaces stands in quotes. What is no path of the workspace stays
text: `@decorator`, an address. Prose such as "lines 45-67" is never expanded.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from agents.errors import ToolError
from agents.providers.wire import clean
from agents.tools.files import Page, scan
from agents.tools.listing import printable
from agents.tools.paths import Opened, Root, parse
from workspace import images
from workspace.errors import ActionError, BadInput
from workspace.models import Conversation, Workspace

MOST_MENTIONS = 20
MOST_NAMES = 200  # of a folder
MOST_CHARACTERS = 20_000  # of one file
LARGEST_BYTES = 64 * 1024 * 1024  # of a file that is looked through
_ALL = 10**9  # lines
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
#: Names of files and folders that usually hold credentials; matched in small letters.
SECRETS = (
    *(".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "*.jks"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc"),
    *(".pypirc", ".htpasswd", ".git-credentials", ".pgpass", "credentials*"),
    *("secrets.*", "secret.*", ".ssh", ".aws", ".gnupg", ".kube"),
)
#: Written to be read: they only look like secrets.
_EXAMPLES = (".env.example", ".env.sample", ".env.template")
_MENTION = re.compile(
    r"""(?<![\w@./\\-])@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"'`,;()<>\[\]{}@]+))
        (?(quoted)(?::(?P<range>\d+(?:-\d+)?))?)""",
    re.VERBOSE,
)
_RANGE = re.compile(r"(?P<path>.+?):(?P<range>\d+(?:-\d+)?)")


@dataclass(frozen=True, slots=True)
class Mention:
    """A path that somebody wrote, and which lines of it; None for all."""

    path: str
    first: int | None = None
    last: int | None = None

    @property
    def has_lines(self) -> bool:
        return self.first is not None


def mentions(text: str) -> list[Mention]:
    """What a message mentions, each once, in order."""
    found = dict.fromkeys(
        one for match in _MENTION.finditer(text) if (one := _of(match)).path
    )
    return list(found)


def _of(match: re.Match[str]) -> Mention:
    if match["quoted"]:
        return _with_lines(match["quoted"], match["range"])
    written = match["plain"].rstrip(".,:!?…")
    ranged = _RANGE.fullmatch(written)
    if ranged:
        return _with_lines(ranged["path"], ranged["range"])
    return Mention(written)


def _with_lines(path: str, lines: str | None) -> Mention:
    if not lines:
        return Mention(path)
    first, _dash, last = lines.partition("-")
    return Mention(path, int(first[:9]), int((last or first)[:9]))


@dataclass(frozen=True, slots=True)
class Brought:
    """What mentions bring: rows of text for the message, and images it shows."""

    rows: tuple[dict[str, Any], ...] = ()
    pictures: tuple[dict[str, Any], ...] = ()

    def parts(self) -> dict[str, Any]:
        return {"mentions": list(self.rows)} if self.rows else {}


def brought_by(conversation: Conversation, text: str) -> Brought:
    """Read what a message mentions. Raises BadInput: then nothing is sent.

    Reads the disk, so not inside a transaction.
    """
    found = mentions(text) if "@" in text else []
    rows: list[dict[str, Any]] = []
    pictures: list[dict[str, Any]] = []
    root = Root(conversation.root)
    for one in found:
        kind = _kind_of(root, one)
        if kind is None:
            continue
        if len(rows) + len(pictures) == MOST_MENTIONS:
            raise BadInput(
                _("A message brings at most %(n)d files with @.") % {"n": MOST_MENTIONS}
            )
        _refuse_secret(one.path)
        if kind == "folder":
            rows.append(_folder(root, one))
        elif one.path.lower().endswith(_IMAGES) and not one.has_lines:
            pictures.append(_picture(root, one, conversation))
        else:
            rows.append(_file(root, one))
    return Brought(tuple(rows), tuple(pictures))


def check(workspace: Workspace, text: str) -> None:
    """Raises BadInput for what a first message could not bring: before it begins."""
    brought_by(Conversation(workspace=workspace), text)


def _kind_of(root: Root, one: Mention) -> str | None:
    """file, folder, or None for what is no path of the workspace."""
    try:
        status = root.stat(one.path)
    except (ToolError, OSError) as error:
        if one.has_lines and isinstance(error, ToolError):
            raise BadInput(error.message) from None
        return None
    if status is None:
        if one.has_lines and ("/" in one.path or "." in one.path):
            raise BadInput(_("%(path)s is not there.") % {"path": f"@{one.path}"})
        return None
    return "folder" if stat.S_ISDIR(status.st_mode) else "file"


def _refuse_secret(path: str) -> None:
    names = [name.lower() for name in parse(path)]
    for name in names:
        if name not in _EXAMPLES and any(fnmatch.fnmatch(name, one) for one in SECRETS):
            raise BadInput(
                _(
                    "%(path)s looks as if it held credentials, so it was not sent. Copy "
                    "what is needed into another file."
                )
                % {"path": f"@{path}"}
            )


def _folder(root: Root, one: Mention) -> dict[str, Any]:
    if one.has_lines:
        raise BadInput(
            _("%(path)s is a folder, which has no lines.") % {"path": f"@{one.path}"}
        )
    try:
        with root.enter(parse(one.path)) as folder, os.scandir(folder) as entries:
            found = sorted(
                f"{printable(entry.name)}{'/' * entry.is_dir(follow_symlinks=False)}"
                for entry in entries
            )
    except (ToolError, OSError) as error:
        raise _unreadable(one, error) from None
    names = found[:MOST_NAMES]
    if left := len(found) - len(names):
        names.append(f"[{left} more]")
    text = "\n".join(names) or "(empty)"
    return {"path": "/".join(parse(one.path)) or ".", "lines": "", "text": clean(text)}


def _file(root: Root, one: Mention) -> dict[str, Any]:
    first = 1 if one.first is None else one.first
    last = _ALL if one.last is None else one.last
    if one.has_lines and not 1 <= first <= last:
        raise BadInput(
            _("%(path)s: lines are written first-last, from 1 on.")
            % {"path": f"@{one.path}:{one.first}-{one.last}"}
        )
    page = Page(first, last - first + 1)
    try:
        with root.open(one.path) as opened:
            path = opened.path
            scanned = scan(_chunks(opened), page)
    except (ToolError, OSError) as error:
        raise _unreadable(one, error) from None
    if scanned.binary:
        raise BadInput(
            _("%(path)s is not a text file; agents can look at it with their tools.")
            % {"path": f"@{path}"}
        )
    if one.has_lines and last > scanned.total:
        raise BadInput(
            _("%(path)s has %(n)d lines only.")
            % {"path": f"@{path}", "n": scanned.total}
        )
    text, shown = _bounded(page.lines)
    whole = shown == (last - first + 1 if one.has_lines else scanned.total)
    if not whole:
        text += f"\n[lines {first}-{first + shown - 1} of {scanned.total}; go on with "
        text += f"read_file offset={first + shown}]"
    lines = f"{first}-{last}" if one.has_lines else ""
    return {"path": path, "lines": lines, "text": clean(text) or "(empty)"}


def _bounded(lines: list[str]) -> tuple[str, int]:
    """The first lines, within the characters that a file may have, and how many."""
    size = kept = 0
    for line in lines:
        if kept and size + len(line) + 1 > MOST_CHARACTERS:
            break
        size, kept = size + len(line) + 1, kept + 1
    return "\n".join(lines[:kept])[:MOST_CHARACTERS], kept


def _chunks(opened: Opened) -> Iterator[bytes]:
    if opened.status.st_size > LARGEST_BYTES:
        raise ToolError(
            _("%(path)s is too large to come along; let the agent search in it.")
            % {"path": f"@{opened.path}"}
        )
    left = LARGEST_BYTES
    while left > 0 and (data := os.read(opened.descriptor, 1 << 20)):
        left -= len(data)
        yield data


def _picture(root: Root, one: Mention, conversation: Conversation) -> dict[str, Any]:
    try:
        with root.open(one.path) as opened:
            images.check_size(opened.status.st_size)
            data = b"".join(_chunks(opened))
            name = opened.path
        images.check_size(len(data))
        kept: dict[str, Any] = images.keep(conversation.workspace_id, data, name).body()
    except (ToolError, OSError) as error:
        raise _unreadable(one, error) from None
    except ActionError as error:
        raise BadInput(f"@{one.path}: {error.message}") from None
    return kept


def _unreadable(one: Mention, error: Exception) -> BadInput:
    reason = error.message if isinstance(error, ToolError) else str(error.args[-1])
    return BadInput(
        _("%(path)s cannot be sent: %(reason)s")
        % {"path": f"@{one.path}", "reason": reason}
    )
