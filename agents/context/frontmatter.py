"""The head of a rules file or skill: YAML between two lines of dashes, and its globs.

The text comes from a folder that anybody's agent may write to: it is read within
bounds, and what cannot be used is told in a sentence instead of raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml
from django.utils.translation import gettext as _

from agents.errors import ToolError
from agents.tools.listing import compile_glob, matches
from agents.tools.paths import parse

LONGEST_HEAD = 8_000  # characters between the dashes
MOST_GLOBS, LONGEST_GLOB = 50, 300  # patterns, characters of one
_HEAD = re.compile(
    r"\A---[ \t]*\r?\n(?P<head>.*?)(?:^|(?<=\n))---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.M
)


@dataclass(frozen=True, slots=True)
class Document:
    """A file in two: the values of its head, and the text behind it.

    `problem` is a sentence when there is a head that cannot be read; it is then left
    out, and `values` is empty.
    """

    values: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    problem: str = ""


def split(text: str) -> Document:
    """A text without a head is all text."""
    if not text.startswith("---"):
        return Document(text=text.strip())
    found = _HEAD.match(text)
    if found is None:
        return Document(text=text.strip())
    body = text[found.end() :].strip()
    head = found["head"]
    if len(head) > LONGEST_HEAD:
        return Document(
            {},
            body,
            _("Its head has more than %(n)s characters.") % {"n": LONGEST_HEAD},
        )
    try:
        values = yaml.safe_load(head)
        if isinstance(values, dict):
            values = {str(key): value for key, value in values.items()}
    except Exception as error:  # noqa: BLE001 - a tag such as !!bool raises KeyError and more
        return Document(
            {}, body, _("Its head is not YAML (%(where)s).") % {"where": _where(error)}
        )
    if values is None:
        return Document(text=body)
    if not isinstance(values, dict):
        return Document({}, body, _("Its head is not a list of names and values."))
    return Document(values, body)


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return _("line %(n)s") % {"n": mark.line + 2} if mark else type(error).__name__


def line_of(value: Any, longest: int) -> str:
    """A value as one line of text; "" for what is no text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    try:
        return " ".join(str(value).split())[:longest]
    except ValueError:  # a number with more digits than Python writes
        return ""


def names_of(value: Any) -> list[str]:
    """A list of words, however it is written: a list, or one text with commas."""
    if isinstance(value, str):
        value = re.split(r",(?![^{}]*\})", value)
    if not isinstance(value, list):
        return []
    return [one.strip() for one in value if isinstance(one, str) and one.strip()]


@dataclass(frozen=True, slots=True)
class Gate:
    """For which paths a file is meant; without globs for all. `dropped` are unusable."""

    globs: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def gate_of(value: Any) -> Gate:
    """The globs of `paths:`, relative to the workspace root."""
    kept: list[str] = []
    dropped: list[str] = []
    for glob in names_of(value)[:MOST_GLOBS]:
        (kept if _is_usable(glob) else dropped).append(glob[:LONGEST_GLOB])
    return Gate(tuple(kept), tuple(dropped))


def unusable_paths(gate: Gate) -> str:
    """A sentence about the globs that were dropped."""
    dropped = ", ".join(gate.dropped)
    return _("These paths cannot be used: %(paths)s.") % {"paths": dropped}


def _is_usable(glob: str) -> bool:
    if len(glob) > LONGEST_GLOB:
        return False
    try:
        return bool(_compiled(glob))
    except (ToolError, re.error):
        return False


@lru_cache(maxsize=500)
def _compiled(glob: str) -> tuple[str | re.Pattern[str], ...]:
    written = f"{glob}**" if glob.endswith("/") else glob
    return tuple(compile_glob(written.removeprefix("./")))


def admits(globs: Iterable[str], paths: Iterable[str]) -> bool:
    """Whether a path matches one of the globs.

    Names that begin with a dot are matched only by a glob that writes the dot.
    """
    split_paths = [parts for path in paths if (parts := parse(path))]
    return any(_matches(glob, parts) for glob in globs for parts in split_paths)


def _matches(glob: str, parts: tuple[str, ...]) -> bool:
    if not matches(list(_compiled(glob)), parts):
        return False
    written = {name for name in glob.split("/") if name.startswith(".")}
    return all(
        any(_begins_alike(name, one) for one in written)
        for name in parts
        if name.startswith(".")
    )


def _begins_alike(name: str, glob: str) -> bool:
    fixed = re.split(r"[*?\[{]", glob, maxsplit=1)[0]
    return name.startswith(fixed)
