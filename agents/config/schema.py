"""Every setting: one tree of values, and what people are told of each.

The dotted name of a setting is its place in the tree, written as in JSON
(`tools.toolSearch.enabled`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from annotated_types import Ge
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

Kind = Literal["flag", "number", "choice", "names", "text", "number or word"]
Effect = Literal["next call", "next conversation"]
LONGEST_PROMPT = 200_000  # characters

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)
]
Names = list[Name]


@dataclass(frozen=True, slots=True)
class About:
    """What a person must know of a setting.

    `merge`: whether a higher layer's value replaces the lower ones or joins them.
    """

    title: str | Promise
    what: str | Promise
    when: str | Promise
    effect: Effect = "next conversation"
    merge: Literal["replace", "union"] = "replace"


class Group(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        strict=True,
        frozen=True,
    )


class ToolSearch(Group):
    enabled: Annotated[
        bool,
        About(
            _("Search for tools"),
            _("Lets agents find tools on demand with tool_search and tool_call."),
            _(
                "Off for models that never search: ordinary tools on demand are then "
                "declared in every request; those held back by tools.eager stay hidden."
            ),
        ),
    ] = True
    threshold: Annotated[
        float,
        About(
            _("Preload on-demand tools"),
            _(
                "Percent of the model's window. If all ordinary on-demand tools fit into "
                "it, a new conversation declares them all; otherwise none."
            ),
            _("Above 0 where nearly every conversation needs them. 0 is off."),
        ),
    ] = 0.0


class Tools(Group):
    eager: Annotated[
        Names | None,
        About(
            _("Tools kept in every request"),
            _(
                "Of the built-in tools only these stay declared; the others become "
                "on demand. An empty list holds back all of them; unset holds back none."
            ),
            _(
                "To lower the idle cost of agents that use few tools. With the policy "
                "“additive” it adds to the default set instead."
            ),
        ),
    ] = None
    eager_policy: Annotated[
        Literal["allowlist", "additive"],
        About(
            _("How the list above is read"),
            _(
                "“allowlist” keeps only the tools named; “additive” declares them on top "
                "of the default set, MCP tools too."
            ),
            _("“additive” when you come from a product whose list adds."),
        ),
    ] = "allowlist"
    visible: Annotated[
        Names,
        About(
            _("On-demand tools declared from the start"),
            _("These are declared in every request although they are on demand."),
            _("For the one tool that most conversations of yours need."),
            merge="union",
        ),
    ] = Field(default_factory=list)
    disabled: Annotated[
        Names,
        About(
            _("Tools switched off"),
            _(
                "Not offered, not found, not callable, for children neither. Names, "
                "groups (group:git) and patterns (mcp__github__*)."
            ),
            _("For features that nobody here uses, or that nobody here may use."),
            merge="union",
        ),
    ] = Field(default_factory=list)
    tool_search: ToolSearch = ToolSearch()
    deferred: Annotated[
        bool,
        About(
            _("Tools on demand"),
            _("Off declares every tool in every request, without search and index."),
            _(
                "Off for small models that do not manage to search, or to compare "
                "behaviour with and without."
            ),
        ),
    ] = True
    index_budget: Annotated[
        int,
        Ge(0),
        About(
            _("Tokens for the index of tools on demand"),
            _(
                "The line of groups always stands; names and first lines of descriptions "
                "follow while they fit."
            ),
            _("More when agents overlook tools; less when every token counts."),
        ),
    ] = 250
    load_mode: Annotated[
        Literal["bridge", "declare"],
        About(
            _("How a loaded tool is called"),
            _(
                "“bridge” leaves the declared list as it is; “declare” adds the schema to "
                "the declared list of later rounds."
            ),
            _("“declare” for models that are too weak for the bridge."),
        ),
    ] = "bridge"
    reload_budget: Annotated[
        int,
        Ge(0),
        About(
            _("Tokens for schemas repeated after compaction"),
            _("The schemas of the loaded tools called last are stated again."),
            _("0 repeats none; the tools are then searched again."),
            effect="next call",
        ),
    ] = 1_000
    repeat_guard: Annotated[
        bool,
        About(
            _("Repeat guard"),
            _("Answers repeated reads with one line and stops identical calls."),
            _("Off for scripts that must make the same call again and again."),
            effect="next call",
        ),
    ] = True


class Mcp(Group):
    wait_at_start: Annotated[
        int,
        Ge(0),
        About(
            _("Seconds to wait for MCP servers"),
            _("The first turn waits so long for servers that are still connecting."),
            _("Above 0 when the first turn needs their tools in the index."),
        ),
    ] = 0


class AgentGroup(Group):
    system_prompt: Annotated[
        Annotated[str, StringConstraints(max_length=LONGEST_PROMPT, min_length=1)]
        | None,
        About(
            _("Base instructions"),
            _(
                "Replaces the base instructions that every conversation begins with. The "
                "safety and permission part stays, unless this text contains it word for "
                "word."
            ),
            _("Last of all: it is the smallest part and the riskiest to change."),
        ),
    ] = None
    prune_tool_outputs: Annotated[
        bool,
        About(
            _("Prune old tool output"),
            _("Requests carry one line in place of old results; nothing is deleted."),
            _("Off when early output must stay in view word for word."),
            effect="next call",
        ),
    ] = True
    keep_tool_rounds: Annotated[
        int,
        Ge(0),
        About(
            _("Tool rounds kept whole"),
            _("Results of so many recent rounds are sent whole, at least of one."),
            _("More for long debugging."),
            effect="next call",
        ),
    ] = 6
    prune_batch_rounds: Annotated[
        Literal["auto"] | Annotated[int, Ge(1)],
        About(
            _("How often pruning moves on"),
            _("In rounds; “auto” weighs the saving against the cache that it breaks."),
            _("1 for services without a prompt cache."),
            effect="next call",
        ),
    ] = "auto"
    context_file_max_chars: Annotated[
        Annotated[int, Ge(1)] | None,
        About(
            _("Characters of one rules file"),
            _("Longer files are cut in the middle. Unset: by the model's window."),
            _("More when a long file must not be cut."),
        ),
    ] = None
    context_files_max_chars: Annotated[
        Annotated[int, Ge(1)] | None,
        About(
            _("Characters of all rules files"),
            _("The deepest files are cut first. Unset: by the model's window."),
            _("More for large repositories whose nested rules must stay whole."),
        ),
    ] = None
    ignore_context_files: Annotated[
        bool,
        About(
            _("Ignore rules files"),
            _("Reads no AGENTS.md or other rules file at all."),
            _("To reproduce a problem without them."),
        ),
    ] = False


class Agents(Group):
    child_context: Annotated[
        Literal["lean", "full"],
        About(
            _("What children begin with"),
            _("“lean” leaves out memory, the skills index and nested rules."),
            _("“full” for research that needs all that the parent knows."),
            effect="next call",
        ),
    ] = "lean"


class Context(Group):
    cap: Annotated[
        Annotated[int, Ge(1_000)] | None,
        About(
            _("Largest context"),
            _(
                "Tokens of a request and its answer. Unset, or more: the model's window."
            ),
            _("Less to keep long conversations cheap."),
            effect="next call",
        ),
    ] = None
    compact_at: Annotated[
        Annotated[int, Ge(1_000)] | None,
        About(
            _("Compact at"),
            _("Tokens at which the conversation is summarised. Unset: about 70 %."),
            _("Rarely: frequent compaction costs more than it saves."),
            effect="next call",
        ),
    ] = None


class Skills(Group):
    protect_recent_views: Annotated[
        int,
        Ge(0),
        About(
            _("Skills kept through compaction"),
            _("Skill bodies read in so many recent turns survive word for word."),
            _("More when long work follows one skill."),
            effect="next call",
        ),
    ] = 2


class MemoryGroup(Group):
    enabled: Annotated[
        bool,
        About(
            _("Memory"),
            _(
                "Agents keep notes for later conversations and are told of them when one "
                "begins."
            ),
            _("Off where nothing may be kept beyond a conversation."),
        ),
    ] = True
    extraction: Annotated[
        bool,
        About(
            _("Notes after a conversation"),
            _(
                "Five minutes after the last answer an agent reads what was said and "
                "keeps what later conversations should know."
            ),
            _("Off to save its cost: agents then keep only what they are told to."),
            effect="next call",
        ),
    ] = True
    consolidation: Annotated[
        bool,
        About(
            _("Tidy notes at night"),
            _(
                "Once a night an agent joins notes that say the same and corrects others."
            ),
            _("Off where people keep the notes tidy themselves."),
            effect="next call",
        ),
    ] = True
    digest_entries: Annotated[
        int,
        Ge(0),
        About(
            _("Notes told at the start"),
            _("So many notes at most stand in what a conversation begins with."),
            _("Less to save tokens: agents find the others with memory_search."),
        ),
    ] = 30
    digest_chars: Annotated[
        int,
        Ge(0),
        About(
            _("Characters of notes told at the start"),
            _("The digest stops before it would become longer."),
            _("More when notes are long and always needed."),
        ),
    ] = 6_000


class Settings(Group):
    """All of them, with the values that hold when nobody sets any."""

    tools: Tools = Tools()
    mcp: Mcp = Mcp()
    agent: AgentGroup = AgentGroup()
    agents: Agents = Agents()
    context: Context = Context()
    skills: Skills = Skills()
    memory: MemoryGroup = MemoryGroup()


@dataclass(frozen=True, eq=False)
class Key:
    """One setting, by its dotted name. `default` is plain JSON; None is unset."""

    name: str
    about: About
    default: Any
    kind: Kind
    choices: tuple[str, ...]
    least: int | None
    adapter: TypeAdapter[Any]

    @property
    def expects(self) -> str:
        """What its values look like, for a sentence."""
        words = ", ".join(f"“{choice}”" for choice in self.choices)
        number = str(
            _("a whole number")
            if self.least is None
            else _("a whole number, at least %(least)s") % {"least": self.least}
        )
        told: dict[Kind, Any] = {
            "flag": _("true or false"),
            "number": _("a number") if self.least is None else number,
            "choice": _("one of %(words)s") % {"words": words},
            "number or word": _("%(number)s, or %(words)s")
            % {"number": number, "words": words},
            "names": _("a list of names"),
            "text": _("a text that is not empty and not too long"),
        }
        return str(told[self.kind])

    def accepts(self, value: Any) -> bool:
        """Whether a layer may hold it. None does not count: unset is no value."""
        try:
            self.adapter.validate_python(value, strict=True)
        except ValidationError:
            return False
        return value is not None


@cache
def keys() -> dict[str, Key]:
    """All settings by name, in the order of the tree."""
    return dict(_walk(Settings, ""))


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """The tree that dotted names describe."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *path, last = name.split(".")
        place = tree
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return tree


def _walk(group: type[BaseModel], prefix: str) -> Iterator[tuple[str, Key]]:
    for field in group.model_fields.values():
        name = f"{prefix}{field.alias}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _walk(inner, f"{name}.")
        else:
            yield name, _key(name, field)


def _key(name: str, field: FieldInfo) -> Key:
    [about] = [part for part in field.metadata if isinstance(part, About)]
    limits = tuple(part for part in field.metadata if isinstance(part, Ge))
    annotated: Any = field.annotation
    for limit in limits:
        annotated = Annotated[annotated, limit]
    adapter: TypeAdapter[Any] = TypeAdapter(annotated)
    kind, choices, least = _shape(adapter.json_schema())
    default = field.get_default(call_default_factory=True)
    return Key(name, about, default, kind, choices, least, adapter)


def _shape(schema: dict[str, Any]) -> tuple[Kind, tuple[str, ...], int | None]:
    """How people enter it: the kind, the words to choose from, the least number."""
    parts = [
        part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"
    ]
    words = [part.get("enum", [part.get("const")]) for part in parts]
    choices = tuple(word for found in words for word in found if word is not None)
    least = next((part["minimum"] for part in parts if "minimum" in part), None)
    types: set[str] = {part["type"] for part in parts}
    if choices:
        return ("number or word" if "integer" in types else "choice"), choices, least
    kinds: dict[str, Kind] = {
        "boolean": "flag",
        "integer": "number",
        "number": "number",
        "array": "names",
        "string": "text",
    }
    return kinds[types.pop()], (), least
