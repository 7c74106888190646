"""After a compaction: the schemas that the model was shown and has lost.

Those of the tools called last are stated again, as far as `tools.reloadBudget` goes, and
the others are named. Only what is stated counts as reviewed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.context.folding import fold
from agents.context.view import Item, rounds_of, standing
from agents.errors import ToolError
from agents.surface.bridge import envelope, schema_digest, schemas
from agents.tools.base import Tool

_AGAIN = "Schemas of tools that you loaded before the compaction, for tool_call:"
_LOST = (
    "Loaded before the compaction and no longer shown: {}. Call tool_search with "
    "select:{} before you use one of them."
)


def reviewed(items: Sequence[Item]) -> dict[str, str]:
    """Schema digests that the model was shown and that are still in its view."""
    shown: dict[str, str] = {}
    for item in fold(items).rows:
        if item.kind == "tool_result":
            meta: Mapping[str, Mapping[str, str]] = item.body.get("meta") or {}
            shown |= meta.get("loaded") or {}
        elif item.body.get("type") == "schemas":
            shown |= item.body["loaded"]
    return shown


def forgotten(items: Sequence[Item]) -> Sequence[Item]:
    """The entries before the newest summary, if schemas are still due behind it.

    Empty when there is no summary, when they were stated, or when there were none.
    """
    rows = standing(items)
    places = [index for index, row in enumerate(rows) if row.kind == "summary"]
    if not places or any(
        row.body.get("type") == "schemas" for row in rows[places[-1] :]
    ):
        return ()
    before = rows[: places[-1]]
    return before if any(map(_brings_schemas, before)) else ()


def _brings_schemas(row: Item) -> bool:
    meta = row.body.get("meta") or {} if row.kind == "tool_result" else {}
    return bool(meta.get("loaded") or row.body.get("type") == "schemas")


def restated(
    before: Sequence[Item],
    after: Sequence[Item],
    hidden: Mapping[str, Tool],
    budget: int,
    count: Callable[[str], int],
) -> dict[str, Any] | None:
    """The notice that follows a compaction; None when no schema was lost.

    `before` and `after` are the entries without and with it; `hidden` the tools that can
    be called and are not declared; `budget` is in tokens.
    """
    kept = reviewed(after)
    lost = [name for name in _by_last_use(before, hidden) if name not in kept]
    if not lost:
        return None
    again: list[Tool] = []
    for name in lost:
        if count(schemas([*again, hidden[name]])) <= budget:
            again.append(hidden[name])
    stated = {tool.name for tool in again}
    others = [name for name in lost if name not in stated]
    return {
        "type": "schemas",
        "to_model": True,
        "loaded": {tool.name: schema_digest(tool) for tool in again},
        "others": others,
        "text": _text(again, others),
    }


def _text(again: Sequence[Tool], others: Sequence[str]) -> str:
    parts = [f"{_AGAIN}\n{schemas(again)}"] if again else []
    if others:
        parts.append(_LOST.format(", ".join(others), ",".join(others)))
    return "\n\n".join(parts)


def _by_last_use(items: Sequence[Item], hidden: Mapping[str, Tool]) -> list[str]:
    """Loaded tools that can still be called: those called last first, then the others."""
    rows = fold(items).rows
    called = [
        real_name(call["name"], call["arguments"])
        for one in rounds_of(rows)
        for call in one.answer.body.get("tool_calls") or ()
        if (row := one.results.get(call["call_id"])) and row.body.get("ok")
    ]
    loaded = list(reviewed(items))
    order = dict.fromkeys([*reversed(called), *reversed(loaded)])
    return [name for name in order if name in hidden]


def real_name(name: str, arguments: str) -> str:
    """The tool that a call means, also through the bridge."""
    if name != "tool_call":
        return name
    try:
        return envelope(arguments)[0]
    except ToolError:
        return name
