"""`manage.py settings`: the server's layer of settings, and those of what stands on it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.config.layers import Effective, Scope, Value, effective
from agents.config.reading import key_of
from agents.config.schema import keys
from agents.config_actions import (
    Changed,
    exported,
    import_settings,
    own_values,
    save_settings,
)
from agents.models import Agent
from workspace.errors import ActionError
from workspace.models import Conversation, Workspace

BAD_USAGE = 2  # the exit status


class Command(BaseCommand):
    help = "Read and change settings: the server's, or those of a layer above."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        get = verbs.add_parser("get", help="Print one setting as it holds.")
        get.add_argument("key", help="Its dotted name, such as tools.eager.")
        put = verbs.add_parser("set", help="Set one; new values are JSON or a word.")
        put.add_argument("key", help="Its dotted name.")
        put.add_argument("value", help="JSON, or plain words for a text or a choice.")
        unset = verbs.add_parser("unset", help="Go back to the layer below.")
        unset.add_argument("key", help="Its dotted name.")
        listing = verbs.add_parser("list", help="Print all, each with its origin.")
        importing = verbs.add_parser("import", help="Set all that a JSON file names.")
        importing.add_argument("file", help="The file, or - for the standard input.")
        exporting = verbs.add_parser(
            "export", help="Print what the layer sets, as JSON."
        )
        for verb in (get, listing):
            verb.add_argument("--json", action="store_true", help="Print JSON.")
        for verb in (get, put, unset, listing, importing, exporting):
            verb.add_argument("--workspace", help="Of this workspace, by its address.")
            verb.add_argument("--agent", help="Of this agent: WORKSPACE/NAME.")
            verb.add_argument(
                "--conversation", help="Of the conversation with this id."
            )

    def handle(self, *args: Any, **options: Any) -> None:
        scope = scope_of(options)
        try:
            said = getattr(self, f"_{options['verb']}")(scope, options)
        except ActionError as error:
            raise _refused(error.message) from None
        self.stdout.write(said)

    def _get(self, scope: Scope, options: dict[str, Any]) -> str:
        value = effective(scope)[key_of(options["key"]).name]
        if options["json"]:
            return _json(as_json(value))
        return f"{_json(value.value)}  ({value.origin})"

    def _set(self, scope: Scope, options: dict[str, Any]) -> str:
        key = key_of(options["key"])
        try:
            value = json.loads(options["value"])
        except json.JSONDecodeError:
            value = options["value"]
        done = save_settings(by=None, scope=scope, values={key.name: value})
        return self._told(done)

    def _unset(self, scope: Scope, options: dict[str, Any]) -> str:
        key = key_of(options["key"])
        return self._told(save_settings(by=None, scope=scope, values={key.name: None}))

    def _list(self, scope: Scope, options: dict[str, Any]) -> str:
        found = effective(scope)
        if options["json"]:
            return _json([as_json(value) for value in found.values.values()], indent=2)
        return as_text(found)

    def _import(self, scope: Scope, options: dict[str, Any]) -> str:
        return self._told(
            import_settings(by=None, scope=scope, text=_read(options["file"]))
        )

    def _export(self, scope: Scope, options: dict[str, Any]) -> str:
        return exported(own_values(scope)).rstrip("\n")

    def _told(self, done: Changed) -> str:
        for warning in done.warnings:
            self.stderr.write(warning)
        if not done.names:
            return "Nothing changed."
        effects: set[str] = {keys()[name].about.effect for name in done.names}
        return f"Changed {', '.join(done.names)}; holds from the {_when(effects)} on."


def _when(effects: set[str]) -> str:
    return " or the ".join(sorted(effects))


def scope_of(options: dict[str, Any]) -> Scope:
    """Whose settings are meant; the server's when nothing is named."""
    given = [
        name for name in ("workspace", "agent", "conversation") if options.get(name)
    ]
    if len(given) > 1:
        raise _refused("Name one of --workspace, --agent and --conversation.")
    if not given:
        return None
    [name], text = given, options[given[0]]
    finders = {
        "workspace": _workspace,
        "agent": _agent,
        "conversation": _conversation,
    }
    found = finders[name](text)
    if found is None:
        raise _refused(f"There is no {name} {text!r}.")
    return found


def _workspace(text: str) -> Workspace | None:
    return Workspace.objects.filter(slug=text, deleted_at=None).first()


def _agent(text: str) -> Agent | None:
    slug, _slash, name = text.rpartition("/")
    if not slug:
        raise _refused(f"Write the agent as WORKSPACE/NAME, not {text!r}.")
    return Agent.objects.filter(
        workspace__slug=slug, workspace__deleted_at=None, name=name, deleted_at=None
    ).first()


def _conversation(text: str) -> Conversation | None:
    try:
        wanted = UUID(text)
    except ValueError:
        raise _refused(
            f"{text!r} is not a conversation's id. Copy it from the page's address."
        ) from None
    return Conversation.objects.filter(pk=wanted, deleted_at=None).first()


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except OSError as error:
        raise _refused(f"{name!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise _refused(f"{name!r} is not text in UTF-8.") from None


def _refused(message: str) -> CommandError:
    return CommandError(message, returncode=BAD_USAGE)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def as_json(value: Value) -> dict[str, Any]:
    about = keys()[value.name].about
    return {
        "name": value.name,
        "value": value.value,
        "origin": value.origin,
        "takesEffect": about.effect,
    }


def as_text(found: Effective) -> str:
    """Columns: name, origin, value."""
    lines = []
    for name, value in found.values.items():
        shown = _json(value.value)
        shown = shown if len(shown) <= 60 else f"{shown[:59]}…"
        lines.append(f"{name:<30} {value.origin:<13} {shown}")
    return "\n".join(lines)
