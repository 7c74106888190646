"""What a shell command line runs, as far as its text tells.

For rules that forbid or ask: it errs towards finding too much. What only a shell can
know (a program named by a variable) it cannot see; a rule for the whole tool can.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

#: Programs that run the program their arguments name.
LAUNCHERS = frozenset(
    (  # noqa: SIM905 - words are easier to read than a list of strings
        "builtin busybox chroot command doas env exec flock ionice nice nohup parallel "
        "setpriv setsid stdbuf strace sudo time timeout unshare watch xargs"
    ).split()
)
#: Programs that run a text among their arguments.
INTERPRETERS = frozenset(
    "ash awk bash dash eval ksh node perl php python python3 ruby sh source zsh".split()  # noqa: SIM905
)
#: Words before a command that are no part of it.
_KEYWORDS = frozenset("! case coproc do elif else if in then until while".split())  # noqa: SIM905
#: Options of `find` and its kin that are followed by a command.
_STARTERS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})

_SEPARATOR = re.compile(r"[;&|\n\r(){}`]+|\$\(")
_ASSIGNMENT = re.compile(r"\w+\+?=")
_REDIRECTION = re.compile(r"\d*[<>]+&?(?P<target>.*)")
_DEEPEST = 3


def words_of(command: str) -> list[str]:
    """The words of a simple command; split at spaces when its quotes do not close."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def runs(command: str, wanted: list[str], depth: int = 0) -> bool:
    """Whether some part of a command line runs `wanted`: a program, then its words.

    Other words may stand between them, so that `git -C x push` is `git push`.
    """
    # Redirections are taken out first: their `&` separates no commands.
    parts = _SEPARATOR.split(re.sub(r"(\d*[<>]+)&", r"\1", command.replace("\\\n", "")))
    return any(
        _is_named(words, wanted) or _is_inside(words, wanted, depth)
        for part in parts
        for words in _candidates(words_of(part))
    )


def _candidates(words: list[str]) -> Iterator[list[str]]:
    """The command itself, and what a launcher in front of it might run."""
    words = _without_prefix(words)
    if not words:
        return
    yield words
    launched = posixpath.basename(words[0]) in LAUNCHERS
    for index in range(1, len(words)):
        if launched or words[index - 1] in _STARTERS:
            yield words[index:]


def _without_prefix(words: list[str]) -> list[str]:
    """The words from the program on: no keywords, assignments and redirections."""
    index = 0
    while index < len(words):
        redirection = _REDIRECTION.fullmatch(words[index])
        if redirection and not redirection["target"]:
            index += 1  # its target is the next word
        elif not (
            redirection or words[index] in _KEYWORDS or _ASSIGNMENT.match(words[index])
        ):
            break
        index += 1
    return words[index:]


def _is_named(words: list[str], wanted: list[str]) -> bool:
    program = words[0] if "/" in wanted[0] else posixpath.basename(words[0])
    if program != wanted[0]:
        return False
    rest = iter(words[1:])
    return all(word in rest for word in wanted[1:])


def _is_inside(words: list[str], wanted: list[str], depth: int) -> bool:
    """Whether a text that the command interprets runs `wanted`."""
    if depth >= _DEEPEST or posixpath.basename(words[0]) not in INTERPRETERS:
        return False
    return any(runs(word, wanted, depth + 1) for word in words[1:]) or runs(
        " ".join(words[1:]), wanted, depth + 1
    )


def hides_a_program(command: str) -> bool:
    """Whether a part's program is only known to the shell: `$X a`, `r? a`."""
    for part in _SEPARATOR.split(command):
        words = _without_prefix(words_of(part))
        if words and any(letter in words[0] for letter in "$*?["):
            return True
    return "`" in command or "$(" in command
