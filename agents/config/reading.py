"""Reads settings as people write them: JSON with comments and trailing commas.

Names may be nested, dotted, or both: `{"tools": {"eager": []}}` equals
`{"tools.eager": []}`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from django.utils.translation import gettext as _

from agents.config.schema import Key, keys
from workspace.errors import BadInput

LARGEST = 1024 * 1024  # characters of an imported text
#: Kept elsewhere, though other products call them settings.
PERMISSIONS = "permissions."
#: What is never closed runs to its end, so that each character is looked at once.
TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*+"?)
      | (?P<comment>//[^\n]*|/\*(?:.*?\*/|.*))
      | (?P<space>\s+)
      | (?P<other>[^"/\s,\[\]{}:]+|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Read:
    """What a text sets: values by name; None takes a setting back to unset."""

    values: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


def read(text: str) -> Read:
    """The settings of a text. Raises BadInput for anything that cannot be used."""
    found: dict[str, Any] = {}
    warnings: list[str] = []
    for name, value in _flat(parse(text), ""):
        if name in found:
            raise BadInput(
                _("%(name)s is set twice. Keep one of the two.") % {"name": name}
            )
        found[name] = checked(name, value, warnings)
    return Read(found, warnings)


def parse(text: str) -> dict[str, Any]:
    """The object that a tolerant JSON text stands for."""
    if len(text) > LARGEST:
        raise BadInput(_("Settings are at most a million characters long."))
    plain = "".join(_strict(text.removeprefix("\ufeff")))
    try:
        value = json.loads(
            plain, object_pairs_hook=_no_doubles, parse_constant=_no_constant
        )
    except json.JSONDecodeError as error:
        raise BadInput(
            _("This is not JSON: line %(line)s, column %(column)s cannot be read.")
            % {"line": error.lineno, "column": error.colno}
        ) from None
    except RecursionError:
        raise BadInput(_("This is nested too deeply for settings.")) from None
    if not isinstance(value, dict):
        raise BadInput(_('Settings are one JSON object: {"tools.eager": […]}.'))
    return value


def key_of(name: str) -> Key:
    """The setting of that name. Raises BadInput that names the nearest one."""
    if found := keys().get(name):
        return found
    if name.startswith(PERMISSIONS) or name == PERMISSIONS[:-1]:
        raise BadInput(
            _("%(name)s is not a setting: rules are kept on the page Permissions.")
            % {"name": name}
        )
    raise BadInput(
        _("There is no setting %(name)s. Did you mean %(nearest)s?")
        % {"name": name[:100] or "“”", "nearest": nearest(name)}
    )


def nearest(name: str) -> str:
    """The setting whose name is most like it: the whole name, or its last part."""
    wanted = name.lower()

    def likeness(known: str) -> float:
        own = known.lower()
        whole = difflib.SequenceMatcher(None, wanted, own).ratio()
        ends = difflib.SequenceMatcher(
            None, wanted.rpartition(".")[2], own.rpartition(".")[2]
        ).ratio()
        return max(whole, 0.95 * ends)

    return max(keys(), key=likeness)


def checked(name: str, value: Any, warnings: list[str]) -> Any:
    """The value as it is stored; None means unset."""
    key = key_of(name)
    if value is None:
        return None
    if key.kind == "names":
        value = _names(key, value, warnings)
    if not key.accepts(value):
        raise bad_value(key, value)
    return value


def bad_value(key: Key, value: Any) -> BadInput:
    shown = json.dumps(value, ensure_ascii=False)
    return BadInput(
        _("%(name)s cannot be %(value)s. It takes %(expects)s.")
        % {
            "name": key.name,
            "value": shown if len(shown) <= 80 else f"{shown[:79]}…",
            "expects": key.expects,
        }
    )


def _names(key: Key, value: Any, warnings: list[str]) -> Any:
    """Each name once. What is no name is left out with a warning, unless all are."""
    if not isinstance(value, list):
        return value
    good = [one.strip() for one in value if isinstance(one, str) and one.strip()]
    if len(good) < len(value):
        if not good:
            raise bad_value(key, value)
        warnings.append(
            _("%(name)s: %(count)s entries are no names and were left out.")
            % {"name": key.name, "count": len(value) - len(good)}
        )
    return list(dict.fromkeys(good))


def _strict(text: str) -> Iterator[str]:
    """The text as JSON; comments and spare commas become spaces, lines stay lines."""
    before, comma, gap = "{", False, ""  # `gap` follows a comma that may be spare
    for match in TOKEN.finditer(text):
        piece = match[0]
        if match.lastgroup in ("comment", "space"):
            gap += re.sub(r"[^\n]", " ", piece)
            continue
        if comma:
            yield " " if piece in "}]" else ","
        yield gap
        comma, gap = piece == "," and before not in "{[,:", ""
        if not comma:
            yield piece
        before = piece
    yield "," + gap if comma else gap


def _flat(value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        full = f"{prefix}{name}"
        if isinstance(inner, dict) and full not in keys():
            if not _is_group(full):
                key_of(full)  # raises: no setting and no group of settings
            yield from _flat(inner, f"{full}.")
        else:
            yield full, inner


def _is_group(name: str) -> bool:
    return any(known.startswith(f"{name}.") for known in keys())


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(
            _("%(name)s is set twice. Keep one of the two.") % {"name": twice}
        )
    return found


def _no_constant(word: str) -> NoReturn:
    raise BadInput(_("%(word)s is not a value of JSON.") % {"word": word})
