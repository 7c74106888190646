"""Every write to settings, and what a change would do."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.config.layers import Effective, Origin, Scope, effective
from agents.config.reading import checked, read
from agents.config.schema import Settings, keys, nested
from agents.context.idle import prefix_of
from agents.context.startup import BASE, preload_budget, preload_pool, surface_of
from agents.context.surroundings import window_of
from agents.models import Agent, Setting
from agents.policies import policy_of
from agents.seeding import DEFAULT_AGENT
from agents.surface.policy import DISCOVERY, Policy
from agents.tools.registry import Catalogue, catalogue, resolve
from workspace import audit
from workspace.access import require
from workspace.errors import BadInput, Conflict, NotVisible
from workspace.models import Conversation, User, Workspace

logger = logging.getLogger(__name__)

#: Lists of tools' names.
TOOL_LISTS = ("tools.eager", "tools.visible", "tools.disabled")


@dataclass(frozen=True, slots=True)
class Changed:
    """What a write did: names of the settings, and what a person should know."""

    names: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """What a change makes of a new conversation. Tokens are of its prefix."""

    on_demand: tuple[str, ...]
    declared: tuple[str, ...]
    gone: tuple[str, ...]
    tokens: int


def layer_of(scope: Scope) -> Setting.Layer:
    if isinstance(scope, Conversation):
        return Setting.Layer.CONVERSATION
    if isinstance(scope, Agent):
        return Setting.Layer.AGENT
    return Setting.Layer.WORKSPACE if scope else Setting.Layer.SERVER


def _workspace_of(scope: Scope) -> Workspace | None:
    if scope is None or isinstance(scope, Workspace):
        return scope
    return scope.workspace


def _origin(scope: Scope) -> Origin:
    origins: dict[Setting.Layer, Origin] = {
        Setting.Layer.SERVER: "server",
        Setting.Layer.WORKSPACE: "workspace",
        Setting.Layer.AGENT: "agent",
        Setting.Layer.CONVERSATION: "conversation",
    }
    return origins[layer_of(scope)]


def own_values(scope: Scope) -> dict[str, Any]:
    """What the scope's own layer sets. One query."""
    return dict(_own(scope).values_list("key", "value"))


def save_settings(
    *,
    by: User | None,
    scope: Scope,
    values: Mapping[str, Any],
    seen: Mapping[str, Any] | None = None,
) -> Changed:
    """Set values in the scope's layer; None takes one back to the layer below.

    Without a person it is the operator, by a command. `seen` are the layer's values
    that the person decided upon: Conflict when one has changed since.
    """
    _require(by, scope)
    warnings: list[str] = []
    values = {name: checked(name, value, warnings) for name, value in values.items()}
    try:
        with transaction.atomic():
            changed = _save(by, scope, values, seen or {})
    except IntegrityError:  # two people set the same one for the first time
        raise _somebody_else(", ".join(values)) from None
    warnings += _unknown_tools(values, scope)
    logger.info("Settings %s changed in %s", changed, layer_of(scope))
    return Changed(tuple(changed), tuple(warnings))


def _save(
    by: User | None, scope: Scope, values: Mapping[str, Any], seen: Mapping[str, Any]
) -> list[str]:
    """Inside a transaction: look, check, store. Returns what really changed."""
    own = {row.key: row for row in _own(scope).select_for_update()}
    for name, value in seen.items():
        if (own[name].value if name in own else None) != value:
            raise _somebody_else(name)
    after = effective(scope).changed(_origin(scope), values)
    _refuse_empty_allow_list(after, values)
    return [name for name in values if _store(by, scope, own, name, values)]


def _somebody_else(name: str) -> Conflict:
    return Conflict(
        _(
            "Somebody else has changed %(name)s in the meantime. The page shows the value "
            "of now; decide again."
        )
        % {"name": name}
    )


def import_settings(*, by: User | None, scope: Scope, text: str) -> Changed:
    """Set what a JSON text names; all of it or, if any of it is wrong, nothing."""
    found = read(text)
    done = save_settings(by=by, scope=scope, values=found.values)
    return Changed(done.names, (*found.warnings, *done.warnings))


def exported(values: Mapping[str, Any]) -> str:
    """Values as nested JSON, in the order of the schema; `import` reads it back."""
    ordered = {name: values[name] for name in keys() if name in values}
    return json.dumps(nested(ordered), indent=2, ensure_ascii=False) + "\n"


def difference(scope: Workspace | Agent, values: Mapping[str, Any]) -> Difference:
    """What new conversations in the mode chat would declare, against now."""
    warnings: list[str] = []
    values = {name: checked(name, value, warnings) for name, value in values.items()}
    before = effective(scope)
    after = before.changed(_origin(scope), values)
    _refuse_empty_allow_list(after, values)
    workspace = scope.workspace if isinstance(scope, Agent) else scope
    policy = policy_of(workspace.pk)
    old = prefix_of(workspace, before.settings, policy)
    new = prefix_of(workspace, after.settings, policy)
    return Difference(
        on_demand=tuple(sorted(old.declared - new.declared - new.gone)),
        declared=tuple(sorted(new.declared - old.declared)),
        gone=tuple(sorted(new.gone - old.gone)),
        tokens=new.tokens - old.tokens,
    )


def preload(scope: Workspace | Agent, chosen: Settings) -> tuple[int, int]:
    """Tokens of the pool that `tools.toolSearch.threshold` speaks of, and its budget."""
    begun = _begun(scope)
    known = catalogue(begun.workspace_id)
    pool = preload_pool(surface_of(begun, known, chosen), known.tools)
    return pool.tokens, preload_budget(chosen, window_of(begun, chosen) or 0)


def _begun(scope: Workspace | Agent) -> Conversation:
    """A conversation that would begin now, in the mode chat. It is never stored."""
    workspace = scope.workspace if isinstance(scope, Agent) else scope
    name = scope.name if isinstance(scope, Agent) else DEFAULT_AGENT
    return Conversation(workspace=workspace, agent_name=name)


def _own(scope: Scope) -> QuerySet[Setting]:
    """The stored rows of the scope's own layer."""
    return Setting.objects.filter(layer=layer_of(scope), **_place(scope))


def _place(scope: Scope) -> dict[str, Any]:
    layer = layer_of(scope)
    return {} if scope is None else {layer.value: scope}


def _require(by: User | None, scope: Scope) -> None:
    """The operator may all; a person what their role in the workspace lets them."""
    if by is None:
        return
    if scope is None:
        raise NotVisible
    workspace = scope if isinstance(scope, Workspace) else scope.workspace
    if not isinstance(scope, Workspace) and scope.deleted_at:
        raise NotVisible
    require(by, workspace, "manage_workspace")


def _store(
    by: User | None,
    scope: Scope,
    own: dict[str, Setting],
    name: str,
    values: Mapping[str, Any],
) -> bool:
    """Store one value and its change; returns whether it differs from what was."""
    row, new = own.get(name), values[name]
    old = row.value if row else None
    place, against = _place(scope), BASE if name == "agent.systemPrompt" else ""
    if type(old) is type(new) and old == new:
        _own(scope).filter(key=name).update(written_against=against)
        return False
    if new is None:
        assert row is not None  # old differs from None
        row.delete()
    else:
        row = row or Setting(layer=layer_of(scope), key=name, **place)
        row.value, row.changed_at = new, timezone.now()
        row.written_against = against
        row.save()
    audit.record(
        "setting.changed",
        by=by,
        workspace=_workspace_of(scope),
        conversation=scope if isinstance(scope, Conversation) else None,
        subject=f"{name} · {scope.name}" if isinstance(scope, Agent) else name,
        old=old,
        new=new,
    )
    return True


def _refuse_empty_allow_list(after: Effective, values: Mapping[str, Any]) -> None:
    """An allow list that names only what it cannot keep would hold back everything."""
    tools = after.settings.tools
    if not values.keys() & {"tools.eager", "tools.eagerPolicy"}:
        return
    if not tools.eager or tools.eager_policy != "allowlist":
        return
    core = {*Policy().builtins, *DISCOVERY}
    own_names = [found.name if (found := resolve(one)) else one for one in tools.eager]
    if any(name in core for name in own_names):
        return
    raise BadInput(
        _(
            "tools.eager names only tools that are on demand anyway (%(names)s), so every "
            "other tool would be held back. Did you mean tools.visible, or tools.eagerPolicy "
            "“additive”?"
        )
        % {"names": ", ".join(tools.eager[:5])}
    )


def _unknown_tools(values: Mapping[str, Any], scope: Scope) -> list[str]:
    """A sentence for each name that no tool of now has."""
    named = [
        (key, name) for key in TOOL_LISTS for name in values.get(key) or () if name
    ]
    if not named:
        return []
    workspace_id = scope.pk if isinstance(scope, Workspace) else None
    if isinstance(scope, Agent | Conversation):
        workspace_id = scope.workspace_id
    known = catalogue(workspace_id)
    return [
        _("%(key)s: no tool is called %(name)s now.%(hint)s")
        % {"key": key, "name": name, "hint": _hint(name, known)}
        for key, name in named
        if not _is_known(name, known, is_pattern=key == "tools.disabled")
    ]


def _is_known(name: str, known: Catalogue, *, is_pattern: bool) -> bool:
    """Patterns and groups may wait for tools to come; plain names are looked up."""
    groups = {f"group:{tool.group}" for tool in known.tools}
    if is_pattern and ("*" in name or "?" in name or name in groups):
        return True
    blocks = [one for block in Policy().modes.values() for one in block]
    is_core = name in {*Policy().builtins, *blocks}
    return known.resolve(name) is not None or is_core


def _hint(name: str, known: Catalogue) -> str:
    names: Iterable[str] = (
        *(tool.name for tool in known.tools),
        *(f"group:{tool.group}" for tool in known.tools),
    )
    near = difflib.get_close_matches(name, sorted(set(names)), 2)
    return " " + _("Nearest: %(names)s.") % {"names": ", ".join(near)} if near else ""
