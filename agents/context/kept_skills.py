"""Skills through a compaction: whole, or as a line that says how to get them again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents.context.view import Item, Round, rounds_of

#: Characters up to which a skill's body survives whatever its age.
SMALL_SKILL = 5_000


def kept_skills(
    rows: Sequence[Item], known: Iterable[Mapping[str, Any]], recent_from: int
) -> tuple[tuple[str, str], ...]:
    """Name and text of the skills in entries that will be summed up.

    `known` are those of the summary before; bodies shown from `recent_from` (a seq) on
    stay whole, and small ones always. What people called by name counts like a view.
    """
    skills = {one["name"]: one["text"] for one in known}
    called = [
        (row.body["skill"]["name"], row)
        for row in rows
        if row.kind == "user" and row.body.get("skill")
    ]
    viewed = skill_views(rounds_of(rows))
    for name, row in sorted((*called, *viewed), key=lambda pair: pair[1].seq):
        body = (row.body.get("skill") or {}).get("text") or row.body.get("output", "")
        is_whole = row.seq >= recent_from or len(body) < SMALL_SKILL
        skills[name] = body if is_whole else pruned(name)
    return tuple(sorted(skills.items()))


def pruned(name: str) -> str:
    """What stands for the body of a skill that is not kept."""
    return (
        "[SKILL_PRUNED: content lost in compaction; reload with "
        f'skill_view(name="{name}")]'
    )


def skill_views(rounds: Sequence[Round]) -> list[tuple[str, Item]]:
    """Skills that were shown, with the result that shows each."""
    found = []
    for one in rounds:
        for call in one.answer.body.get("tool_calls", ()):
            row = one.results.get(call["call_id"])
            meta = (row.body.get("meta") or {}) if row else {}
            guarded = meta.get("again") or (meta.get("guard") or {}).get("of")
            if call["name"] == "skill_view" and row and row.body.get("ok"):
                name = _skill_name(call["arguments"])
                if name and not guarded:
                    found.append((name, row))
    return found


def _skill_name(arguments: str) -> str:
    try:
        values = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return ""
    return str(values.get("name", "")) if isinstance(values, dict) else ""
