"""What a server says it offers, bounded and cleaned before anything else sees it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.mcp.schemas import usable
from agents.providers.wire import clean, clean_values

MOST_TOOLS = 1_000
LONGEST_NAME = 200  # characters of a tool's own name
LONGEST_DESCRIPTION = 8_000  # characters
LONGEST_INSTRUCTIONS = 8_000  # characters


@dataclass(frozen=True, slots=True)
class Listing:
    """A server's instructions and tools. `refused` says which were left out, and why.

    `tools` are rows `{name, description, schema, read_only, idempotent}`, by name.
    """

    instructions: str
    tools: tuple[Mapping[str, Any], ...]
    refused: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        text = json.dumps([self.instructions, self.tools], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def listing(instructions: str, tools: Iterable[Mapping[str, Any]]) -> Listing:
    """Clean what a server said. Equal tools in any order give equal listings."""
    rows = sorted((_row(tool) for tool in tools), key=_order)
    kept: dict[str, dict[str, Any]] = {}
    refused: list[str] = []
    for row in rows:
        if reason := _reason(row, kept):
            refused.append(f"{row['name'][:60]!r}: {reason}")
        else:
            kept[row["name"]] = row
    text = clean(instructions or "").strip()[:LONGEST_INSTRUCTIONS]
    return Listing(text, tuple(kept.values()), tuple(refused))


def _order(row: Mapping[str, Any]) -> str:
    return json.dumps([row["name"], row], sort_keys=True, default=str)


def _row(tool: Mapping[str, Any]) -> dict[str, Any]:
    hints = tool.get("hints") or {}
    return {
        "name": clean(str(tool.get("name") or "")),
        "description": clean(str(tool.get("description") or "")).strip()[
            :LONGEST_DESCRIPTION
        ],
        "schema": tool.get("schema"),
        "read_only": hints.get("readOnlyHint") is True,
        "idempotent": hints.get("idempotentHint") is True,
    }


def _reason(row: dict[str, Any], kept: Mapping[str, Any]) -> str:
    """Why a tool cannot be offered. Cleans its schema on the way."""
    name = row["name"]
    if not name or len(name) > LONGEST_NAME:
        return f"a name has 1 to {LONGEST_NAME} characters"
    if name in kept:
        return "the server lists two tools of this name"
    if len(kept) >= MOST_TOOLS:
        return f"a server may offer {MOST_TOOLS} tools"
    if reason := usable(row["schema"]):
        return reason
    row["schema"] = {"type": "object", **clean_values(row["schema"])}
    return ""
