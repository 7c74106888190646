"""What is known of a tool when it is looked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_DEEPEST = 8  # levels of a schema; what lies below describes details of details
_COMBINED = ("anyOf", "oneOf", "allOf", "prefixItems")


@dataclass(frozen=True, slots=True)
class Document:
    """A tool as text: its words are found by these fields, its name is the answer.

    `arguments` maps the name of each argument, nested ones too, to its description.
    """

    name: str
    server: str = ""
    description: str = ""
    hints: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The label of its group in the index: `mcp:github`, `browser`."""
        return f"mcp:{self.server}" if self.name.startswith("mcp__") else self.server

    @property
    def own_name(self) -> str:
        """The name without the prefix that a server's tools carry: `mcp__server__`."""
        if not self.name.startswith("mcp__"):
            return self.name
        return self.name.split("__", 2)[-1]


def document_of(tool: Mapping[str, Any]) -> Document:
    """A document from `{name, server, description, input_schema, hints}`."""
    return Document(
        name=str(tool["name"]),
        server=str(tool.get("server") or ""),
        description=str(tool.get("description") or ""),
        hints=tuple(str(hint) for hint in tool.get("hints") or ()),
        arguments=arguments_of(tool.get("input_schema") or {}),
    )


def arguments_of(schema: Any) -> dict[str, str]:
    """Each argument's name and all text that a JSON schema says about it."""
    found: dict[str, list[str]] = {}
    for name, text in _described(schema, "", _DEEPEST):
        found.setdefault(name, []).append(text)
    return {name: " ".join(filter(None, texts)) for name, texts in found.items()}


def _described(schema: Any, name: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth == 0 or not isinstance(schema, dict):
        return
    if name:
        yield name, _text(schema)
    for key in ("properties", "$defs", "definitions"):
        named = schema.get(key)
        for child, body in named.items() if isinstance(named, dict) else ():
            yield from _described(body, str(child), depth - 1)
    yield from _described(schema.get("items"), name, depth - 1)
    for key in _COMBINED:
        variants = schema.get(key)
        for variant in variants if isinstance(variants, list) else ():
            yield from _described(variant, name, depth - 1)


def _text(schema: Mapping[str, Any]) -> str:
    said = [schema.get("description")]
    choices = schema.get("enum")
    said += choices if isinstance(choices, list) else []
    return " ".join(part for part in said if isinstance(part, str))


def digest(documents: Iterable[Document]) -> str:
    """The same for the same tools in any order; changes with any word of any of them."""
    rows = sorted(
        json.dumps(
            [each.name, each.server, each.description, each.hints]
            + [sorted(each.arguments.items())],
        )
        for each in documents
    )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()
