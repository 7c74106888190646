"""What a run's records say about how it went: each finding with its remedy.

`diagnose` is a function of values, so that a log of another day says the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from agents.models import ModelCall, Run
from agents.tools.registry import catalogue
from observability.breaks import title_of
from observability.models import Record
from workspace import transcript
from workspace.models import Entry

KINDS = (
    "tool.searched",
    "tool.loaded",
    "tool.called",
    "loop.suspected",
    "budget.warned",
    "budget.exceeded",
)
#: Records that are read, oldest first: more tell nothing that these do not.
MOST_RECORDS = 5_000
#: Findings of one kind that are shown.
MOST_OF_A_KIND = 5
#: A tool whose score reaches this share of the best one could be meant as well.
NEAR = 0.85
#: The tool that finds deferred ones.
SEARCH = "tool_search"

#: How an answer says that something cannot be done for want of a tool.
LACKS = re.compile(
    r"\b(?:i|we)\s+(?:do\s+not|don['’]t|can\s?not|can['’]t|am\s+unable|lack)\b"
    r"[^.!?\n]{0,80}\b(?:tools?|access|browse|internet|capabilit|able\s+to|function)"
    r"|\bno\s+(?:suitable\s+|such\s+)?tools?\b|\bunable\s+to\s+access\b"
    r"|도구(?:가|는|를)?\s*(?:없|찾을\s*수\s*없)|접근(?:할|이)\s*(?:수\s*없|불가)"
    r"|(?:기능|권한)(?:이|은)?\s*없",
    re.IGNORECASE,
)
WORD = re.compile(r"\w{2,}")


@dataclass(frozen=True, slots=True)
class Event:
    """A record as the diagnosis needs it."""

    seq: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands out. `seq` is the event that shows it, 0 for none."""

    kind: str
    title: str
    detail: str
    remedy: str
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Broken:
    """A cache break of the run."""

    round: int
    cause: str
    segment: str
    lost: int


def diagnose(
    events: Sequence[Event],
    *,
    answer: str = "",
    could_search: bool = False,
    descriptions: Mapping[str, str] | None = None,
    broken: Sequence[Broken] = (),
) -> list[Finding]:
    """All findings, in the order in which they are worth reading."""
    makers = (
        _never_looked(events, answer, could_search=could_search),
        _search_misses(events, descriptions or {}),
        _look_alikes(events),
        _loops(events),
        _breaks(broken),
        _budget(events),
    )
    return [one for found in makers for one in list(found)[:MOST_OF_A_KIND]]


def _never_looked(
    events: Sequence[Event], answer: str, *, could_search: bool
) -> Iterable[Finding]:
    """The answer names a lack, tools could have been searched, and none was."""
    searched = any(one.kind in ("tool.searched", "tool.loaded") for one in events)
    lack = LACKS.search(answer)
    if searched or not could_search or lack is None:
        return
    yield Finding(
        "never-looked",
        _("It never looked"),
        _("The answer says “%(words)s”, but no tool was searched for.")
        % {"words": lack.group().strip()[:120]},
        _(
            "Say in the agent’s persona or in a rules file that it must search for a "
            "tool before it gives up, or make the tool resident."
        ),
    )


def _search_misses(
    events: Sequence[Event], descriptions: Mapping[str, str]
) -> Iterable[Finding]:
    """Searches after which nothing was loaded, with the words that nothing holds."""
    known = {
        word
        for name, text in descriptions.items()
        for word in _words(f"{name.replace('_', ' ')} {text}")
    }
    loaded = _texts(events, "tool.loaded", "query")
    called = _texts(events, "tool.called", "tool")
    for one in events:
        query = one.data.get("query")
        if one.kind != "tool.searched" or not isinstance(query, str):
            continue
        hits = [name for name, _score in _hits(one)]
        if hits and (query in loaded or called.intersection(hits)):
            continue
        strange = [word for word in _words(query) if known and word not in known]
        yield Finding(
            "search-miss",
            _("A search led to nothing"),
            _("“%(query)s” loaded no tool.") % {"query": query[:200]}
            + (
                " "
                + _("No description holds: %(words)s.")
                % {"words": ", ".join(dict.fromkeys(strange))}
                if strange
                else ""
            ),
            _("Add these words to the hints or the description of the tool meant."),
            one.seq,
        )


def _look_alikes(events: Sequence[Event]) -> Iterable[Finding]:
    """A hit was called that fits its search hardly better, or worse, than another."""
    for place, one in enumerate(events):
        hits = _hits(one) if one.kind == "tool.searched" else []
        used = _first_called(events[place + 1 :], {name for name, _score in hits})
        if used is None or len(hits) < 2:
            continue
        scores = dict(hits)
        other = max((name for name in scores if name != used), key=scores.__getitem__)
        if scores[other] <= 0 or scores[other] < scores[used] * NEAR:
            continue
        yield Finding(
            "look-alike",
            _("Two tools look alike"),
            _("%(used)s was called; %(other)s fits “%(query)s” as well or better.")
            % {
                "used": used,
                "other": other,
                "query": str(one.data.get("query", ""))[:200],
            },
            _("Tell them apart: let each description say when to use the other."),
            one.seq,
        )


def _first_called(events: Iterable[Event], names: set[str]) -> str | None:
    """Which of the names was called first, before the next search."""
    for one in events:
        if one.kind == "tool.searched":
            return None
        name = one.data.get("tool")
        if one.kind == "tool.called" and isinstance(name, str) and name in names:
            return name
    return None


def _texts(events: Iterable[Event], kind: str, name: str) -> set[str]:
    """What records of a kind say under that name, where it is a text."""
    values = [one.data.get(name) for one in events if one.kind == kind]
    return {value for value in values if isinstance(value, str)}


def _hits(one: Event) -> list[tuple[str, float]]:
    """Names with scores; what was erased or cut is left out."""
    hits = one.data.get("hits")
    return [
        (str(hit[0]), float(hit[1]))
        for hit in (hits if isinstance(hits, list) else ())
        if isinstance(hit, list) and len(hit) == 2 and isinstance(hit[1], int | float)
    ]


def _words(text: str) -> list[str]:
    return [word.casefold() for word in WORD.findall(text)]


def _loops(events: Sequence[Event]) -> Iterable[Finding]:
    for one in events:
        if one.kind == "loop.suspected":
            yield Finding(
                "loop",
                _("It went in circles"),
                _("%(tool)s was called %(count)s times with the same arguments.")
                % {
                    "tool": one.data.get("tool", "?"),
                    "count": one.data.get("count", "?"),
                },
                _("Read what the tool answered: an error it cannot act upon is usual."),
                one.seq,
            )


def _breaks(broken: Sequence[Broken]) -> Iterable[Finding]:
    for one in sorted(broken, key=lambda one: -one.lost):
        yield Finding(
            "cache",
            _("The cache broke"),
            _("Round %(round)s lost %(lost)s cached tokens: %(cause)s (%(segment)s).")
            % {
                "round": one.round,
                "lost": one.lost,
                "cause": title_of(one.cause),
                "segment": one.segment,
            },
            _("Change such things between conversations, not within one."),
        )


def _budget(events: Sequence[Event]) -> Iterable[Finding]:
    for one in events:
        if one.kind in ("budget.warned", "budget.exceeded"):
            yield Finding(
                "budget",
                _("The budget ran short"),
                _("A limit of the run or workspace was nearly or wholly used up."),
                _("Raise the limit, or see above what used it up."),
                one.seq,
            )


def diagnosis_of(run: Run) -> list[Finding]:
    """The findings of one run, from its records. A handful of indexed queries."""
    rows = Record.objects.filter(run_id=run.pk, kind__in=KINDS).order_by("seq")
    events = [
        Event(seq, kind, data if isinstance(data, dict) else {})
        for seq, kind, data in rows.values_list("seq", "kind", "data")[:MOST_RECORDS]
    ]
    searched = any(one.kind == "tool.searched" for one in events)
    return diagnose(
        events,
        answer=_answer(run),
        could_search=_could_search(run),
        descriptions=_descriptions(run) if searched else {},
        broken=_broken(run),
    )


def _answer(run: Run) -> str:
    """The last thing that the agent said in the turn; "" when it said nothing."""
    said = Entry.objects.filter(
        turn=run.turn_id, kind=Entry.Kind.ASSISTANT, seq__gt=run.since_seq
    )
    last = said.order_by("-seq").select_related("stored").first()
    if last is None:
        return ""
    return str(transcript.bodies([last])[0].get("text", ""))


def _could_search(run: Run) -> bool:
    """Whether the run's requests declared the search for tools."""
    calls = ModelCall.objects.filter(run=run).order_by("pk")
    rows = calls.values_list("segments", flat=True).first() or []
    return any(row[1] == f"tool:{SEARCH}" for row in rows)


def _descriptions(run: Run) -> dict[str, str]:
    return {tool.name: tool.description for tool in catalogue(run.workspace_id).tools}


def _broken(run: Run) -> list[Broken]:
    calls = ModelCall.objects.filter(run=run, cache_break__isnull=False)
    rows = calls.order_by("pk").values_list("round", "cache_break")[:MOST_OF_A_KIND]
    return [
        Broken(
            number,
            str(verdict.get("cause", "")),
            str(verdict.get("segment", "")),
            lost,
        )
        for number, verdict in rows
        if isinstance(verdict, dict)
        and isinstance(lost := verdict.get("lost_tokens"), int)
    ]
