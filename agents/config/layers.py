"""Which settings hold: the layers from the lowest to the highest, and their merge.

built-in < server < environment < workspace < agent < conversation. Above them all
stands the server's own switch `--tool-deferral=off`.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from django.conf import settings as server
from django.db.models import Q, QuerySet

from agents.config.reading import Read, read
from agents.config.schema import About, Settings, keys, nested
from agents.models import Agent, Setting
from workspace.models import Conversation, Workspace
from workspace.prepared import Select, given

logger = logging.getLogger(__name__)

Origin = Literal[
    "built-in",
    "server",
    "environment",
    "workspace",
    "agent",
    "conversation",
    "server switch",
]
Values = Mapping[str, Any]
#: From the lowest to the highest that can set anything.
ORDER: tuple[Origin, ...] = (
    "server",
    "environment",
    "workspace",
    "agent",
    "conversation",
    "server switch",
)
#: Whom the settings are for; None is the server itself.
Scope = Conversation | Agent | Workspace | None


@dataclass(frozen=True, slots=True)
class Value:
    """A setting as it holds. `set_by` are all layers that set it, lowest first.

    `origin` is the highest layer whose value counts; with a union every one does.
    """

    name: str
    value: Any
    origin: Origin
    set_by: Mapping[Origin, Any]

    @property
    def is_locked(self) -> bool:
        """Whether no layer can change it."""
        return self.origin == "server switch"


@dataclass(frozen=True, slots=True)
class Effective:
    """All settings as they hold: as one typed tree, and each with its origin."""

    settings: Settings
    values: Mapping[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def changed(self, origin: Origin, values: Values) -> Effective:
        """What would hold with these values in that layer; None unsets. Pure."""
        layers: dict[Origin, dict[str, Any]] = {one: {} for one in ORDER}
        for name, found in self.values.items():
            for setter, value in found.set_by.items():
                layers[setter][name] = value
        layers[origin] |= values
        return merge(list(layers.items()))

    def frozen(self) -> dict[str, Any]:
        """What a conversation keeps until it is started anew: of `tools.*` and `mcp.*`.

        Settings that hold from the next call on are not among them.
        """
        return {
            name: found.value
            for name, found in self.values.items()
            if name.startswith(("tools.", "mcp.")) and _is_kept(keys()[name].about)
        }


def _is_kept(about: About) -> bool:
    return about.effect == "next conversation"


def merge(layers: Sequence[tuple[Origin, Values]]) -> Effective:
    """What follows from the layers, lowest first. Pure; values must be valid ones."""
    values = {name: _merged(name, layers) for name in keys()}
    given = {name: found.value for name, found in values.items()}
    return Effective(Settings.model_validate(nested(given)), values)


def _merged(name: str, layers: Sequence[tuple[Origin, Values]]) -> Value:
    key = keys()[name]
    set_by = {
        origin: values[name]
        for origin, values in layers
        if values.get(name) is not None
    }
    if not set_by:
        return Value(name, key.default, "built-in", {})
    *_lower, highest = set_by
    value = set_by[highest]
    if key.about.merge == "union":
        value = list(dict.fromkeys(one for part in set_by.values() for one in part))
    return Value(name, value, highest, set_by)


def effective(scope: Scope = None) -> Effective:
    """The settings that hold for a conversation, an agent, a workspace, the server.

    One query. A stored value that this version cannot use is logged and left out.
    """
    rows = stored(scope)
    fixed: dict[Origin, Values] = {
        "environment": environment(),
        "server switch": switches(),
    }
    return _merged_once([(one, fixed.get(one) or _usable(rows, one)) for one in ORDER])


#: The last results of `merge`, which are values: most turns find theirs here.
_results: OrderedDict[str, Effective] = OrderedDict()
_MOST_RESULTS = 64


def _merged_once(layers: Sequence[tuple[Origin, Values]]) -> Effective:
    """`merge`, or what it gave for the same layers before."""
    key = json.dumps(layers, sort_keys=True)
    found = _results.get(key)
    if found is None:
        found = _results[key] = merge(layers)
        while len(_results) > _MOST_RESULTS:
            _results.popitem(last=False)
    return found


def of_server_alone() -> Effective:
    """What the environment says, without the database."""
    return merge([("environment", environment()), ("server switch", switches())])


def thawed(values: Values) -> Settings:
    """The settings that a conversation kept; of what it lacks, the built-in ones."""
    known = {
        name: value
        for name, value in values.items()
        if name in keys() and (value is None or keys()[name].accepts(value))
    }
    kept = {name: value for name, value in known.items() if value is not None}
    return Settings.model_validate(nested(kept))


def stored(scope: Scope) -> list[Setting]:
    """The stored values of every layer that the scope stands on."""
    if isinstance(scope, Conversation):
        return _OF_CONVERSATION.all(
            workspace=scope.workspace_id,
            agent=scope.agent_name,
            conversation=scope.pk,
            people=scope.people_id,
        )
    return list(Setting.objects.filter(_reach(scope)).order_by("key"))


def _of_conversation() -> QuerySet[Setting]:
    workspace = given("workspace", Conversation, "workspace")
    of_agent = Q(
        agent__workspace=workspace,
        agent__name=given("agent", Conversation, "agent_name"),
        agent__deleted_at__isnull=True,
    )
    return Setting.objects.filter(
        Q(layer=Setting.Layer.SERVER)
        | Q(workspace=workspace)
        | of_agent
        | Q(conversation=given("conversation", Conversation, "id"))
        | Q(conversation=given("people", Conversation, "id"))
    ).order_by("key")


_OF_CONVERSATION = Select[Setting](_of_conversation)


def _reach(scope: Agent | Workspace | None) -> Q:
    found = Q(layer=Setting.Layer.SERVER)
    if isinstance(scope, Workspace):
        return found | Q(workspace=scope)
    if isinstance(scope, Agent):
        return found | Q(workspace=scope.workspace_id) | Q(agent=scope)
    return found


def _usable(rows: Iterable[Setting], layer: str) -> dict[str, Any]:
    found = {}
    for row in rows:
        if row.layer != layer:
            continue
        key = keys().get(row.key)
        if key and key.accepts(row.value):
            found[row.key] = row.value
        else:
            logger.warning("The stored setting %s cannot be used", row.key)
    return found


def environment() -> dict[str, Any]:
    """What the server's environment sets. Raises BadInput for what cannot be used."""
    found = dict(_read_once(server.SERVER_SETTINGS).values)
    if server.SYSTEM_PROMPT_FILE:
        text = Path(server.SYSTEM_PROMPT_FILE).read_text(encoding="utf-8")
        found["agent.systemPrompt"] = text.strip()
    return found


@lru_cache(maxsize=4)
def _read_once(text: str) -> Read:
    return read(text) if text else Read({})


def switches() -> dict[str, Any]:
    """What the server decides for all: it may turn deferral off, never on."""
    return {} if server.TOOL_DEFERRAL else {"tools.deferred": False}
