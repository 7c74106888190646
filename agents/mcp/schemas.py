"""JSON schemas that nobody vouches for: may they be used, and do arguments fit?

A schema comes from a server, so it can be made to hang whoever follows it. Regular
expressions are left to the server, nothing outside the schema is ever fetched, and
references are followed a bounded number of times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, SchemaError, validators
from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

LARGEST = 64 * 1024  # bytes of one schema
DEEPEST = 40  # levels of one schema
MOST_REFERENCES = 5_000  # followed in one check
_SHOWN = 5  # problems told of one call
_MAPS = frozenset(("properties", "$defs", "definitions", "dependentSchemas"))
_PATTERNS = frozenset(("pattern", "patternProperties", "format", "propertyNames"))


class TooMuch(Exception):
    """A check that would never end."""


_left: ContextVar[int] = ContextVar("references left", default=0)


def usable(schema: Any) -> str:
    """Why a schema cannot be that of a tool; "" when it can."""
    if not isinstance(schema, dict):
        return "its schema is not an object"
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return "its schema is nested too deeply, or holds what JSON cannot"
    if len(text.encode("utf-8", "replace")) > LARGEST:
        return f"its schema is larger than {LARGEST // 1024} KiB"
    if _depth(schema) > DEEPEST:
        return "its schema is nested too deeply"
    if schema.get("type", "object") != "object":
        return "its schema does not describe an object"
    try:
        Draft202012Validator.check_schema(_plain(schema))
    except (SchemaError, Unresolvable, RecursionError):
        return "its schema is not a JSON schema"
    return ""


def problems(schema: str, values: Mapping[str, Any]) -> list[str]:
    """What is wrong with arguments, at most five sentences; [] when they fit.

    An empty `schema` is that of a tool whose arguments were checked otherwise.

    Keys that the schema does not know are the server's to judge, and so is null for a
    key that may be left out.
    """
    if not schema:
        return []
    validator = _validator(schema)
    required = set(validator.schema.get("required") or ())
    given = {
        key: value
        for key, value in values.items()
        if value is not None or key in required
    }
    try:
        with _bounded():
            found = sorted(validator.iter_errors(given), key=_place)
    except (TooMuch, RecursionError):
        return ["the schema of this tool cannot be followed to its end"]
    except Unresolvable as error:
        return [f"the schema of this tool refers to what it does not have: {error}"]
    return [f"{_place(one) or 'arguments'}: {one.message[:300]}" for one in found][
        :_SHOWN
    ]


def _place(error: ValidationError) -> str:
    return ".".join(map(str, error.absolute_path))


@lru_cache(maxsize=512)
def _validator(schema: str) -> Any:
    return _CLASS(_plain(json.loads(schema)), registry=Registry())


def _plain(schema: Any, *, is_map: bool = False) -> Any:
    """The schema without regular expressions, and open to other keys."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _plain(value, is_map=key in _MAPS and not is_map)
        for key, value in schema.items()
        if is_map or (key not in _PATTERNS and not _closes(key))
    }


def _closes(key: str) -> bool:
    return key in ("additionalProperties", "unevaluatedProperties")


def _depth(value: Any) -> int:
    """Levels of nesting; `json.dumps` has shown that they are not endless."""
    deepest, todo = 0, [(value, 1)]
    while todo:
        one, depth = todo.pop()
        deepest = max(deepest, depth)
        inner = one.values() if isinstance(one, dict) else one
        if isinstance(one, (dict, list)):
            todo += [(part, depth + 1) for part in inner]
    return deepest


@contextmanager
def _bounded() -> Iterator[None]:
    token = _left.set(MOST_REFERENCES)
    try:
        yield
    finally:
        _left.reset(token)


def _follow(validator: Any, reference: Any, instance: Any, schema: Any) -> Any:
    if _left.get() <= 0:
        raise TooMuch
    _left.set(_left.get() - 1)
    return Draft202012Validator.VALIDATORS["$ref"](
        validator, reference, instance, schema
    )


_CLASS: Any = validators.extend(  # type: ignore[no-untyped-call]  # its stub has no types
    Draft202012Validator, {"$ref": _follow}
)
