"""What the context explorer shows: the next request part by part, and what if."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from agents.config.schema import Settings
from agents.context.preview import OnDemand, Preview
from agents.context.report import HELP, Report, Row, category_of
from agents.context.segments import Segment
from agents.context.startup import begun_with, mode_in, settings_in, tools_and_surface
from agents.surface.index import group_of
from agents.surface.policy import BRIDGE, Surface
from agents.tools.base import Tool
from workspace.errors import BadInput, NotVisible
from workspace.models import Conversation

#: Characters of a segment that one answer carries.
PART_LENGTH = 40_000
EXCERPT_LENGTH = 140
_LOOK_INTO = 4000  # characters of a segment in which its words begin
#: Units in the width of a bar, and the fewest that a row takes to be seen.
BAR_UNITS, LEAST_UNITS = 1000, 8
#: Titles that end in a name, by how they begin.
_STARTS = {
    "Result of ": gettext_noop("Result of %(name)s"),
    "Persona of ": gettext_noop("Persona of %(name)s"),
    "Mode ": gettext_noop("Mode %(name)s"),
    "Skill ": gettext_noop("Skill %(name)s"),
}
#: Where the words of a message begin, whichever API's format it has.
_WORDS = re.compile(
    r'"(?:content|text|output|arguments|description)":\s*"((?:[^"\\]|\\.)+)', re.DOTALL
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{64,}={0,2}")
_ESCAPE = re.compile(r'\\(?:(["\\/])|([bfnrt])|u([0-9a-fA-F]{4}))')


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of a bar, in its units."""

    key: str
    title: str
    tokens: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Part:
    """A segment in the tree: `about` is how it begins, `why` a tool is declared."""

    digest: str
    title: str
    tokens: int
    size: int
    place: str
    about: str
    why: str


@dataclass(frozen=True, slots=True)
class Group:
    """A row of the ledger with its segments in wire order."""

    key: str
    title: str
    help: str
    tokens: int
    of_window: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A tool that may be declared or not: `change` is what the other choice adds.

    Whoever is declared leaves the index, and comes back to it otherwise; what a line of
    the index costs is known for its tools alone, so the others get their mean.
    """

    name: str
    group: str
    declared: bool
    change: float
    why: str
    fixed: bool

    @property
    def size(self) -> float:
        return abs(self.change)


@dataclass(frozen=True, slots=True)
class Explored:
    """Everything on the page."""

    found: Preview
    groups: tuple[Group, ...]
    window_bar: tuple[Slice, ...]
    request_bar: tuple[Slice, ...]
    declared: tuple[Choice, ...]
    deferred: tuple[Choice, ...]
    switch_off: str

    @property
    def of_window(self) -> str:
        return percent(self.found.next.total, self.found.next.cap)

    @property
    def kept_free(self) -> tuple[Group, Group]:
        """What the window holds beside the request."""
        report = self.found.next
        return (
            _free(
                "reserved",
                _("Reserved for the answer"),
                _("Kept free for the answer, which may not be longer."),
                report.reserved,
                report.cap,
            ),
            _free(
                "available",
                _("Available"),
                _("What is left for messages to come."),
                report.available,
                report.cap,
            ),
        )

    @property
    def cached_share(self) -> int:
        """Percent of the last request that came from the provider's cache."""
        last = self.found.last
        return round(100 * last.cached / last.total) if last and last.total else 0


def explored(conversation: Conversation, found: Preview) -> Explored:
    """The page of a preview, under the settings that the conversation keeps."""
    begun = begun_with(conversation)
    chosen = settings_in(conversation, begun)
    mode = mode_in(conversation, begun)
    tools, surface = tools_and_surface(conversation, chosen, mode)
    report, segments = found.next, found.assembled.segments
    on_demand = found.on_demand
    return Explored(
        found,
        tuple(_group(row, segments, surface, report.cap) for row in report.rows),
        _window_bar(report),
        slices([(row.key, _(row.title), row.tokens) for row in report.rows]),
        _declared(segments, tools, surface, on_demand),
        tuple(_deferred(one, surface) for one in on_demand),
        switch_off(chosen),
    )


def switch_off(chosen: Settings) -> str:
    """The switch that keeps every tool declared; "" when none is off."""
    if not settings.TOOL_DEFERRAL:
        return "TOOL_DEFERRAL"
    if not chosen.tools.deferred:
        return "tools.deferred"
    return "" if chosen.tools.tool_search.enabled else "tools.toolSearch.enabled"


def percent(tokens: int, window: int) -> str:
    """A share of the window in words: below 0.1 %, 4.2 %, 37 %."""
    share = 100 * tokens / window if window else 0
    if 0 < share < 0.1:
        return "< 0.1 %"
    return f"{number_format(f'{share:.1f}' if share < 10 else f'{share:.0f}')} %"


def slices(rows: Sequence[tuple[str, str, int]]) -> tuple[Slice, ...]:
    """A bar of these rows, which fill it; a row with tokens is never too thin to see."""
    shown = [row for row in rows if row[2] > 0]
    total = sum(row[2] for row in shown)
    lengths = [max(LEAST_UNITS, BAR_UNITS * row[2] // total) for row in shown]
    if lengths:
        lengths[lengths.index(max(lengths))] += BAR_UNITS - sum(lengths)
    made, start = [], 0
    for row, length in zip(shown, lengths, strict=True):
        made.append(Slice(*row, start, length))
        start += length
    return tuple(made)


def _window_bar(report: Report) -> tuple[Slice, ...]:
    rows = [(row.key, _(row.title), row.tokens) for row in report.rows]
    rows.append(("reserved", _("Reserved for the answer"), report.reserved))
    rows.append(("available", _("Available"), report.available))
    return slices(rows)


def _free(key: str, title: str, about: str, tokens: int, window: int) -> Group:
    return Group(key, title, about, tokens, percent(tokens, window), ())


def _group(
    row: Row, segments: Sequence[Segment], surface: Surface, window: int
) -> Group:
    own = [one for one in segments if category_of(one.kind, one.id) == row.key]
    return Group(
        row.key,
        _(row.title),
        _(HELP[row.key]),
        row.tokens,
        percent(row.tokens, window),
        tuple(_part(one, surface) for one in own),
    )


def _part(segment: Segment, surface: Surface) -> Part:
    kind, _colon, rest = segment.id.partition(":")
    return Part(
        segment.digest,
        title_of(segment.title),
        segment.tokens,
        segment.size,
        f"#{rest.partition(':')[0]}" if kind == "entry" else "",
        excerpt(text_of(segment)),
        surface.reasons.get(rest, "") if kind == "tool" else "",
    )


def title_of(title: str) -> str:
    """A segment's title in the reader's language, as far as it is ours."""
    for start, text in _STARTS.items():
        if title.startswith(start):
            return _(text) % {"name": title.removeprefix(start)}
    return _(title) if title else ""


def text_of(segment: Segment) -> str:
    text = segment.data.decode("utf-8", "replace")
    return _BASE64.sub(_image_instead, text) if segment.is_picture else text


def _image_instead(match: re.Match[str]) -> str:
    size = number_format(len(match[0]), force_grouping=True)
    return _("[… the image, %(size)s characters of base64 …]") % {"size": size}


def excerpt(text: str) -> str:
    """How a segment begins, on one line: its words if it has any, else its format."""
    found = _WORDS.search(text[:_LOOK_INTO])
    head = (found[1] if found else text)[: 2 * EXCERPT_LENGTH]
    line = " ".join(readable(head).split())
    return line[:EXCERPT_LENGTH] + ("…" if len(line) > EXCERPT_LENGTH else "")


def readable(text: str) -> str:
    """The text with the escapes of JSON strings undone."""

    def plain(match: re.Match[str]) -> str:
        same, control, code = match.groups()
        if same:
            return str(same)
        return "\n" if control in ("n", "r") else " " if control else chr(int(code, 16))

    return _ESCAPE.sub(plain, text)


def matching(segments: Sequence[Segment], words: str) -> list[str]:
    """Digests of the segments that hold the words, in title, format or text."""
    wanted = words.casefold()
    return [
        one.digest
        for one in segments
        if wanted in title_of(one.title).casefold()
        or wanted in (text := text_of(one)).casefold()
        or wanted in readable(text).casefold()
    ]


def part_of(segments: Sequence[Segment], digest: str, number: int) -> tuple[str, int]:
    """A piece of a segment's text, and the number of the next one; 0 after the last.

    Raises NotVisible when the next request has no such segment (any more).
    """
    segment = next((one for one in segments if one.digest == digest), None)
    if segment is None:
        raise NotVisible
    text, start = text_of(segment), number * PART_LENGTH
    if number and start >= len(text):
        raise BadInput(_("This part of the request ends before that."))
    end = start + PART_LENGTH
    return text[start:end], number + 1 if end < len(text) else 0


def _declared(
    segments: Sequence[Segment],
    tools: Sequence[Tool],
    surface: Surface,
    on_demand: Sequence[OnDemand],
) -> tuple[Choice, ...]:
    groups = {tool.name: group_of(tool) for tool in tools}
    line = on_demand[0].index_tokens if on_demand else 0.0
    return tuple(
        Choice(
            one.title,
            groups.get(one.title, ""),
            True,
            round(line - one.tokens, 1),
            surface.reasons.get(one.title, ""),
            one.title in BRIDGE,
        )
        for one in segments
        if one.kind == "tools" and one.id == f"tool:{one.title}"
    )


def _deferred(tool: OnDemand, surface: Surface) -> Choice:
    return Choice(
        tool.name,
        tool.group,
        False,
        round(tool.load_tokens - tool.index_tokens, 1),
        surface.reasons.get(tool.name, ""),
        False,
    )
