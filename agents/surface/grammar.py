"""What a query of `tool_search` may say: names, a group, or words.

`select:read_page,Click`   these tools, in this order
`group:mcp:github`         the tools of a group
`+slack send message`      words, best match first; `+` asks for a word of the name
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agents.errors import ToolError

if TYPE_CHECKING:
    from agents.surface.search.index import Hit, Index

DEFAULT_RESULTS = 5
MOST_RESULTS = 20
_NEAREST = 3  # names offered for one that is unknown
_SHORTEST_PIECE = 3  # letters; fewer lie in half of all names by chance
_QUOTES = "\"'`"


@dataclass(frozen=True, slots=True)
class Select:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    label: str


@dataclass(frozen=True, slots=True)
class Keywords:
    text: str
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What a query came to; every name that was asked for is in one of these.

    `unknown` maps a name that no tool has to the nearest ones, `ambiguous` one that
    several tools have but for its case to those. `truncated` did not fit in the limit.
    `declared` are exact hits that every request declares already.
    """

    hits: tuple[Hit, ...] = ()
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    truncated: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()


def clamp(max_results: float | None) -> int:
    """A limit from 1 to 20 for whatever number a model gave; 5 for none."""
    if max_results is None or max_results != max_results:
        return DEFAULT_RESULTS
    return int(min(max(max_results, 1), MOST_RESULTS))


def parse(query: str) -> Select | Group | Keywords:
    """Raises `ToolError` for a query that asks for nothing."""
    text = query.strip()
    kind, colon, rest = text.partition(":")
    rest = rest.strip()
    if colon and kind.strip().casefold() == "select":
        names = tuple(name for each in rest.split(",") if (name := _unquoted(each)))
        return Select(names) if names else _nothing_asked()
    if colon and kind.strip().casefold() == "group":
        return Group(label) if (label := _unquoted(rest)) else _nothing_asked()
    return _keywords(text) if text else _nothing_asked()


def _nothing_asked() -> Select:
    raise ToolError(
        "tool_search needs a query: a few words for what the tool should do, "
        "`select:NAME,NAME` for tools whose names you know, or `group:LABEL`.",
        code="empty_query",
    )


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES:
        text = text[1:-1].strip()
    return text


def _keywords(text: str) -> Keywords:
    """A `+` asks for a word only before a letter: `5 +3` is a sum."""
    words = text.split()
    required = [
        word[1:]
        for word in words
        if word[0] == "+" and any(letter.isalpha() for letter in word[1:])
    ]
    plain = [word[1:] if word[1:] in required else word for word in words]
    return Keywords(" ".join(plain), tuple(dict.fromkeys(required)))


def find(
    query: str,
    index: Index,
    *,
    max_results: float | None = None,
    declared: Collection[str] = (),
) -> Found:
    """Answer a query from the deferred tools of `index`; `declared` names the others.

    The same query on the same tools always gives the same answer.
    """
    limit = clamp(max_results)
    asked = parse(query)
    if isinstance(asked, Select):
        return _select(asked, index, limit, declared)
    if isinstance(asked, Group):
        return _group(asked, index, limit)
    return Found(
        hits=tuple(_matching(asked, index, limit)),
        declared=_same_name(asked.text, declared),
    )


def _select(
    asked: Select, index: Index, limit: int, declared: Collection[str]
) -> Found:
    from agents.surface.search.index import Hit

    names = _once(asked.names, index)
    hits: dict[str, Hit] = {}
    unknown: dict[str, tuple[str, ...]] = {}
    ambiguous: dict[str, tuple[str, ...]] = {}
    already: list[str] = []
    for name in names[:limit]:
        alike = index.spelled(name)
        if len(alike) == 1:
            hits[alike[0]] = Hit(alike[0], 1.0)
        elif alike:
            ambiguous[name] = alike
        elif same := _same_name(name, declared):
            already += same
        else:
            unknown[name] = tuple(hit.name for hit in index.rank(name, _NEAREST))
    return Found(
        tuple(hits.values()), unknown, ambiguous, tuple(names[limit:]), tuple(already)
    )


def _once(names: Sequence[str], index: Index) -> list[str]:
    """Without those that name the same tool again, in whatever case."""
    kept: dict[tuple[str, ...], str] = {}
    for name in names:
        kept.setdefault(index.spelled(name) or (name.casefold(),), name)
    return list(kept.values())


def _group(asked: Group, index: Index, limit: int) -> Found:
    from agents.surface.search.index import Hit

    label = asked.label.casefold()
    names = [
        each.name
        for each in index.documents
        if label in (each.group.casefold(), each.server.casefold())
    ]
    if not names:
        groups = {each.group for each in index.documents if each.group}
        return Found(unknown={asked.label: _nearest_groups(label, groups)})
    return Found(
        hits=tuple(Hit(name, 1.0) for name in names[:limit]),
        truncated=tuple(names[limit:]),
    )


def _nearest_groups(label: str, groups: Collection[str]) -> tuple[str, ...]:
    from difflib import get_close_matches

    spelled = {group.casefold(): group for group in sorted(groups)}
    near = get_close_matches(label, sorted(spelled), n=_NEAREST, cutoff=0.5)
    return tuple(spelled[group] for group in near)


def _matching(asked: Keywords, index: Index, limit: int) -> Sequence[Hit]:
    """Tools that have all required words in their names, those that say more first."""
    if not asked.required:
        return index.rank(asked.text, limit)
    from agents.surface.search.index import Hit

    ranked = index.rank(asked.text, len(index.documents))
    ranked_names = {hit.name for hit in ranked}
    others = [
        Hit(each.name, 0.0) for each in index.documents if each.name not in ranked_names
    ]
    return [hit for hit in [*ranked, *others] if _named(hit.name, asked.required)][
        :limit
    ]


def _named(name: str, required: Sequence[str]) -> bool:
    from agents.surface.search.words import plain, terms

    words, whole = set(terms(name)), plain(name)
    for each in required:
        asked, piece = terms(each), plain(each)
        in_words = bool(asked) and words.issuperset(asked)
        if not in_words and (len(piece) < _SHORTEST_PIECE or piece not in whole):
            return False
    return True


def _same_name(text: str, names: Collection[str]) -> tuple[str, ...]:
    """The exact spelling alone if there is one, else those that differ by case."""
    if text in names:
        return (text,)
    return tuple(sorted(name for name in names if name.casefold() == text.casefold()))
