"""Skills as values: listed by name and description, their bodies only when called for.

Later sources win over earlier ones of the same name: the workspace's folders in their
order, the workspace's own skills, the server's. A skill with `paths:` is not listed
until a matching path is touched. `allowed-tools` never grants anything.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from agents.context.folding import fold
from agents.context.frontmatter import (
    gate_of,
    line_of,
    names_of,
    split,
    unusable_paths,
)
from agents.context.view import Item

INDEX_BUDGET = 8_000  # characters of the whole list
LONGEST_CUT = 200  # characters of a description, once the list is too long
LONGEST_DESCRIPTION, LONGEST_WHEN = 1_000, 500  # characters
LARGEST_BODY = 200_000  # characters
NAME = re.compile(r"\w[\w.-]{0,63}")

HEADING = "# Skills"
INTRODUCTION = (
    "Instructions for kinds of work. When one fits what you are about to do, read it "
    "first with skill_view(name)."
)
ANNOUNCEMENT = (
    "Skills for the files you touched; read one with skill_view(name) before such work:"
)

Source = Literal["folder", "workspace", "server"]
#: Rank of the sources that are no folder: later wins.
ORDER: tuple[Source, ...] = ("folder", "workspace", "server")
_TAG = re.compile(r"<(?=\s*/?\s*skill\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that can be read. `path` is its file, "" for one in the database."""

    name: str
    description: str
    body: str
    source: Source
    when: str = ""
    globs: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    path: str = ""
    files: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """What skill_view gives, and what a person's `/name` brings in."""
        head = [f"# Skill: {self.name}"]
        if self.path:
            head.append(f"From {self.path}.")
        if self.files:
            head.append(f"Its files, for read_file: {', '.join(self.files)}.")
        return "\n".join(head) + f"\n\n{self.body}"

    @property
    def digest(self) -> str:
        return digest_of(self.shown)


@dataclass(frozen=True, slots=True)
class Problem:
    """A sentence about a skill's file that could not be used, or not wholly."""

    path: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Made:
    """What became of a file: a skill or none, and what is wrong with it."""

    skill: Skill | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Library:
    """Every skill of a workspace by name, those that lost to one of the same name too."""

    skills: Mapping[str, Skill] = field(default_factory=dict)
    hidden: tuple[Skill, ...] = ()
    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, found: Iterable[Skill], problems: Iterable[Problem] = ()) -> Library:
        """Later ones win."""
        by_name: dict[str, Skill] = {}
        hidden: list[Skill] = []
        for skill in found:
            if skill.name in by_name:
                hidden.append(by_name.pop(skill.name))
            by_name[skill.name] = skill
        ordered = {name: by_name[name] for name in sorted(by_name)}
        return cls(ordered, tuple(hidden), tuple(problems))

    def nearest(self, name: str) -> list[str]:
        return difflib.get_close_matches(name, self.skills, n=3, cutoff=0.4)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def made_of(
    text: str,
    *,
    name: str,
    source: Source,
    path: str = "",
    files: Sequence[str] = (),
) -> Made:
    """Read a SKILL.md. `name` is its folder's, for a head that names none."""
    where = path or name
    document = split(text)
    problems = [Problem(where, document.problem)] if document.problem else []

    def refused(sentence: str) -> Made:
        return Made(None, (*problems, Problem(where, sentence)))

    values = document.values
    named = line_of(values.get("name"), 200) or name
    if not NAME.fullmatch(named):
        return refused(
            _(
                "The name %(name)s cannot be used: letters, digits, dot, dash and "
                "underscore, at most 64."
            )
            % {"name": repr(named[:80])}
        )
    if not document.text:
        return refused(_("It has no text behind its head."))
    if len(document.text) > LARGEST_BODY:
        return refused(
            _("Its text has more than %(n)s characters.") % {"n": LARGEST_BODY}
        )
    described = line_of(values.get("description"), LONGEST_DESCRIPTION)
    if not described:
        described = _first_line(document.text)
        problems.append(
            Problem(where, _("It has no description, so its first line stands for it."))
        )
    gate = gate_of(values.get("paths"))
    if gate.dropped:
        problems.append(Problem(where, unusable_paths(gate)))
    when = values.get("when-to-use", values.get("when_to_use"))
    skill = Skill(
        named,
        described,
        document.text,
        source,
        line_of(when, LONGEST_WHEN),
        gate.globs,
        tuple(tools_of(values.get("allowed-tools"))),
        path,
        tuple(files),
    )
    return Made(skill, tuple(problems))


def tools_of(value: Any) -> list[str]:
    """Names of tools, however they are written; specifiers are left out."""
    if isinstance(value, str):
        value = re.sub(r"\([^)]*\)", "", value).replace(",", " ").split()
    return [name.partition("(")[0].strip() for name in names_of(value)][:50]


def _first_line(text: str) -> str:
    line = next(
        (row.strip("# \t") for row in text.splitlines() if row.strip("# \t")), ""
    )
    return " ".join(line.split())[:LONGEST_CUT]


def escaped(text: str) -> str:
    """The text, unable to close the wrapper around it."""
    return _TAG.sub("&lt;", text)


def line(skill: Skill, *, short: bool = False) -> str:
    """Its line in the list; `short` is cut and without when to use it."""
    described = skill.description[:LONGEST_CUT] if short else skill.description
    when = f" Use it {_lowered(skill.when)}" if skill.when and not short else ""
    return escaped(f"- {skill.name}: {described}{when}".rstrip())


def _lowered(text: str) -> str:
    """When to use it, as the end of a sentence: "Use it when …", "Use it: …"."""
    first = text.split(" ", 1)[0].lower()
    if first in ("when", "for", "before", "after", "if", "to", "while"):
        return text[0].lower() + text[1:]
    return f"when: {text}"


def index_lines(
    skills: Sequence[Skill], budget: int = INDEX_BUDGET
) -> list[tuple[Skill, str]]:
    """The lines of the list within `budget` characters, in order of names.

    Nothing is cut while all fit. Then what is not the server's loses when to use it and
    all but the start of its description; then the last ones all but their names.
    """
    lines = [line(skill) for skill in skills]
    if _size(lines) > budget:
        lines = [
            text if skill.source == "server" else line(skill, short=True)
            for skill, text in zip(skills, lines, strict=True)
        ]
    size = _size(lines)
    for index in range(len(skills) - 1, -1, -1):
        if size <= budget:
            break
        bare = f"- {skills[index].name}"
        size -= len(lines[index]) - len(bare)
        lines[index] = bare
    while lines and size > budget:
        size -= len(lines.pop()) + 1
    return list(zip(skills, lines, strict=False))


def _size(lines: Sequence[str]) -> int:
    return sum(len(text) + 1 for text in lines)


@dataclass(frozen=True, slots=True)
class Listing:
    """The skills that a conversation begins with, as parts of its startup context.

    `record` is kept beside them: what is listed, and what waits for a path.
    """

    parts: tuple[dict[str, str], ...] = ()
    record: dict[str, Any] = field(default_factory=dict)


def listing(library: Library) -> Listing:
    """The list of skills, one part for each. Pure."""
    always = [skill for skill in library.skills.values() if not skill.globs]
    gated = [skill for skill in library.skills.values() if skill.globs]
    heading = f"{HEADING}\n\n{INTRODUCTION}"
    room = INDEX_BUDGET - len(heading)
    lines = index_lines(always, room - len(_more(len(always))))
    record = {
        "listed": [skill.name for skill, _text in lines],
        "gated": [
            {"name": one.name, "paths": list(one.globs), "line": line(one, short=True)}
            for one in gated
        ],
    }
    if not lines:
        return Listing((), record)
    parts = [_part("heading", gettext_noop("Heading of the skills"), heading)]
    parts += [_part(skill.name, skill.name, text) for skill, text in lines]
    if left := len(always) - len(lines):
        parts.append(_part("more", gettext_noop("Skills without room"), _more(left)))
    return Listing(tuple(parts), record)


def _more(count: int) -> str:
    return f"and {count} more, which skill_view finds by name"


def _part(key: str, title: str, text: str) -> dict[str, str]:
    before = "\n\n" if key == "heading" else "\n"
    return {"id": f"skills:{key}", "title": title, "text": text, "before": before}


def announcement(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The body of the notice that names skills whose paths were touched."""
    names = [str(row["name"]) for row in rows]
    return {
        "type": "skill",
        "to_model": True,
        "path": f"skills: {', '.join(names)}",
        "names": names,
        "text": "\n".join([ANNOUNCEMENT, *(str(row["line"]) for row in rows)]),
    }


def invocation(skill: Skill) -> dict[str, str]:
    """What a message holds besides its text when a person calls a skill by `/name`."""
    text = f'<skill name="{skill.name}">\n{escaped(skill.shown)}\n</skill>'
    return {"name": skill.name, "digest": skill.digest, "text": text}


def active(items: Sequence[Item]) -> frozenset[str]:
    """Gated skills that were announced, or called by a person."""
    names: set[str] = set()
    for row in fold(items).rows:
        if row.kind == "notice" and row.body.get("type") == "skill":
            names |= set(row.body.get("names", ()))
        elif row.kind == "user" and row.body.get("skill"):
            names.add(row.body["skill"]["name"])
    return frozenset(names)


def waiting(items: Sequence[Item]) -> list[Mapping[str, Any]]:
    """Skills that the conversation began with and that still wait for a path."""
    begun = [item.body for item in items if item.kind == "startup"]
    record = (begun[-1].get("skills") if begun else None) or {}
    known = active(items)
    return [row for row in record.get("gated", ()) if row["name"] not in known]


def is_before_the_model(
    items: Sequence[Item], visible: frozenset[int], name: str, digest: str
) -> bool:
    """Whether the very text of a skill stands whole in what is sent next.

    `visible` as `outgoing.verbatim(items)` gives it.
    """
    folded = fold(items)
    for row in folded.rows:
        if row.kind == "tool_result" and row.seq in visible:
            meta = row.body.get("meta") or {}
            if meta.get("skill") == name and meta.get("skill_sha256") == digest:
                return True
        if row.kind == "user" and (row.body.get("skill") or {}).get("digest") == digest:
            return True
    summary = folded.summary.body if folded.summary else {}
    kept = summary.get("skills", ())
    return any(one["name"] == name and digest_of(one["text"]) == digest for one in kept)
