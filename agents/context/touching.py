"""Which paths of the workspace a call touches, as far as its arguments tell. Pure.

File tools name their paths. Of a shell command the words count that could be paths; who
asks looks which of them exist.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents.commands import words_of
from agents.errors import ToolError
from agents.tools.base import Tool
from agents.tools.paths import IGNORED_FOLDERS, parse

MOST_WORDS = 60  # of one command that are looked at
_LONGEST_WORD = 300  # characters
_PARTS = re.compile(r"[;&|\n(){}]+")
_REDIRECTION = re.compile(r"^\d*[<>]+&?")
_WILDCARD = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True)
class Touch:
    """A path below the root. `is_sure`: a tool worked on it, so it is or was there."""

    path: str
    is_sure: bool


def touches(tool: Tool, values: Mapping[str, Any]) -> list[Touch]:
    """The paths of one call, each once; the root itself is none."""
    found: dict[str, bool] = {}
    for path, is_sure in _named(tool, values):
        if clean := _inside(path):
            found[clean] = found.get(clean, False) or is_sure
    return [Touch(path, is_sure) for path, is_sure in found.items()]


def _named(tool: Tool, values: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for name in tool.path_arguments:
        if isinstance(value := values.get(name), str):
            yield value, True
    if tool.name == "glob":
        yield _fixed_part(values), False
    if tool.name == "shell" and isinstance(command := values.get("command"), str):
        for word in words_that_name_paths(command, str(values.get("cwd") or "")):
            yield word, False


def _fixed_part(values: Mapping[str, Any]) -> str:
    """The folder that a pattern names before its first wildcard."""
    names: list[str] = []
    for name in str(values.get("pattern") or "").split("/"):
        if _WILDCARD.search(name):
            break
        names.append(name)
    return posixpath.join(str(values.get("path") or ""), *names)


def words_that_name_paths(command: str, cwd: str) -> list[str]:
    """The words of a command line that could be paths, from the root on.

    `cd` counts: what follows it is relative to that folder.
    """
    found: list[str] = []
    for part in _PARTS.split(command[:10_000]):
        words = words_of(part)
        if words[:1] == ["cd"] and len(words) > 1:
            cwd = posixpath.join(cwd, words[1])
            found.append(cwd)
            continue
        found += [posixpath.join(cwd, word) for word in _candidates(words)]
    return found[:MOST_WORDS]


def _candidates(words: list[str]) -> Iterator[str]:
    for index, written in enumerate(words):
        word = _REDIRECTION.sub("", written)
        if word.startswith("-"):
            word = word.partition("=")[2]
        if not word or len(word) > _LONGEST_WORD or "://" in word or "\n" in word:
            continue
        if index or "/" in word:
            yield word.split(":", 1)[0]


def _inside(path: str) -> str:
    """The path below the root; "" for the root and for what is outside of it."""
    try:
        return "/".join(parse(path))
    except ToolError:
        return ""


def folders_to(path: str, is_folder: bool) -> list[str]:
    """The folders above a path, outermost first, and itself if it is one.

    None inside of dependencies and hidden folders: their rules are not the project's.
    """
    names = path.split("/")
    chain = ["/".join(names[: end + 1]) for end in range(len(names) - (not is_folder))]
    kept: list[str] = []
    for folder in chain:
        name = folder.rpartition("/")[2]
        if name in IGNORED_FOLDERS or name.startswith("."):
            break
        kept.append(folder)
    return kept
