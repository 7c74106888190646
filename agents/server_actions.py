"""Every write to the servers of a workspace, by the people who manage it."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.mcp import health
from agents.mcp.names import LONGEST_SERVER, is_server_name
from agents.models import McpServer
from agents.providers.addresses import AddressRefused, parse_target
from agents.providers.wire import clean
from agents.secrets import encrypt
from workspace import audit
from workspace.access import require
from workspace.errors import BadInput, NotVisible
from workspace.models import User, Workspace

logger = logging.getLogger(__name__)

MOST_SERVERS = 50  # of one workspace
LONGEST_URL = 500  # characters
LONGEST_WAIT = {"connect_seconds": 120, "call_seconds": 3600}
STDIO = McpServer.Transport.STDIO


@dataclass(frozen=True)
class ServerValues:
    """What people say of a server. `secrets` are its environment, or its headers."""

    name: str
    transport: str = STDIO
    command: tuple[str, ...] = ()
    url: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    include_tools: tuple[str, ...] = ()
    exclude_tools: tuple[str, ...] = ()
    connect_seconds: int = 20
    call_seconds: int = 120
    network: bool = False
    trusted: bool = False


def add_server(*, by: User, workspace: Workspace, values: ServerValues) -> McpServer:
    """Store a server; a worker connects to it soon. Its secrets are never read back."""
    require(by, workspace, "manage_workspace")
    values = _checked(values)
    server = McpServer(
        workspace=workspace,
        created_by=by,
        secret=encrypt(json.dumps(dict(values.secrets)) if values.secrets else ""),
        **{name: _stored(getattr(values, name)) for name in _COLUMNS},
    )
    try:
        with transaction.atomic():
            if workspace.mcp_servers.filter(deleted_at=None).count() >= MOST_SERVERS:
                raise BadInput(
                    _("A workspace has at most %(n)d servers. Remove one first.")
                    % {"n": MOST_SERVERS}
                )
            server.save(force_insert=True)
            _note("made", by, server, new=_told(server))
    except IntegrityError:
        raise BadInput(
            _("There is a server named %(name)s here already.") % {"name": values.name}
        ) from None
    return server


_COLUMNS = (
    *("name", "transport", "command", "url", "include_tools", "exclude_tools"),
    *("connect_seconds", "call_seconds", "network", "trusted"),
)


def _stored(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _checked(values: ServerValues) -> ServerValues:
    """Raises BadInput with the first thing that is wrong."""
    if not is_server_name(values.name):
        raise BadInput(
            _(
                "A server's name has 1 to %(n)d letters and digits, with single - or _ "
                "between them: it becomes a part of its tools' names."
            )
            % {"n": LONGEST_SERVER}
        )
    told = (*values.command, values.url, *values.include_tools, *values.exclude_tools)
    if any(clean(text) != text for text in told) or len(values.url) > LONGEST_URL:
        raise BadInput(
            _(
                "The command, address or tools of %(name)s hold characters that cannot "
                "be stored, or the address has more than %(n)d."
            )
            % {"name": values.name, "n": LONGEST_URL}
        )
    if values.transport not in McpServer.Transport.values:
        raise BadInput(_("A server is reached by stdio, http or sse."))
    if values.transport == STDIO and not values.command:
        raise BadInput(_("Name the program that the server is."))
    if values.transport != STDIO:
        try:
            parse_target(values.url)
        except AddressRefused as error:
            raise BadInput(str(error)) from None
    for name, most in LONGEST_WAIT.items():
        if not 1 <= getattr(values, name) <= most:
            raise BadInput(
                _("%(name)s is from 1 to %(most)d.") % {"name": name, "most": most}
            )
    return values


def try_server(*, by: User, server: McpServer) -> bool:
    """Connect now and store what it lists, or why it cannot be reached."""
    from agents.mcp.connections import Unreachable, shared

    _require(by, server)
    health.connecting(server.pk)
    try:
        found = shared().look(server)
    except Unreachable as error:
        health.failed(server.pk, str(error))
        return False
    health.listed(server.pk, found)
    return True


def disconnect_server(*, by: User, server: McpServer) -> None:
    """Take its tools away until somebody connects it again."""
    _require(by, server)
    with transaction.atomic():
        health.left(server.pk, _("%(name)s disconnected it") % {"name": by})
        _note("disconnected", by, server)


def remove_server(*, by: User, server: McpServer) -> None:
    """Forget a server and its secrets; transcripts keep what it answered."""
    _require(by, server)
    with transaction.atomic():
        McpServer.objects.filter(pk=server.pk).update(
            deleted_at=timezone.now(), secret=""
        )
        _note("deleted", by, server, old=_told(server))


def import_servers(*, by: User, workspace: Workspace, text: str) -> list[McpServer]:
    """Add what a `.mcp.json` names; all of it or, if any of it is wrong, nothing."""
    require(by, workspace, "manage_workspace")
    wanted = [_imported(name, row) for name, row in _read(text).items()]
    with transaction.atomic():
        return [
            add_server(by=by, workspace=workspace, values=values) for values in wanted
        ]


def _read(text: str) -> dict[str, Any]:
    try:
        rows = json.loads(text)["mcpServers"]
    except (ValueError, TypeError, KeyError, RecursionError):
        rows = None
    if not isinstance(rows, dict) or not rows:
        raise BadInput(
            _('This is no .mcp.json: it needs {"mcpServers": {"name": {…}}}.')
        )
    return rows


def _imported(name: str, row: Any) -> ServerValues:
    if not isinstance(row, dict):
        raise BadInput(_("The server %(name)s is not described.") % {"name": name})
    url, kind = str(row.get("url") or ""), str(row.get("type") or "")
    secrets = row.get("headers" if url else "env") or {}
    if not isinstance(secrets, dict):
        raise BadInput(_("The server %(name)s is not described.") % {"name": name})
    command = [str(row.get("command") or ""), *_words(name, row, "args")]
    return ServerValues(
        name=name,
        transport=("sse" if kind == "sse" else "http") if url else STDIO,
        command=tuple(command) if command[0] and not url else (),
        url=url,
        secrets={str(key): str(value) for key, value in secrets.items()},
        include_tools=_words(name, row, "includeTools"),
        exclude_tools=_words(name, row, "excludeTools"),
    )


def _words(name: str, row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of words in a described server. Raises BadInput for anything else."""
    words = row.get(key) or []
    if not isinstance(words, list):
        raise BadInput(
            _("The server %(name)s: %(key)s is a list of texts.")
            % {"name": name, "key": key}
        )
    return tuple(map(str, words))


def _require(by: User, server: McpServer) -> None:
    require(by, server.workspace, "manage_workspace")
    if server.deleted_at:
        raise NotVisible


def _told(server: McpServer) -> dict[str, Any]:
    """What the audit log has of it: no secret."""
    told = {name: getattr(server, name) for name in _COLUMNS}
    return told | {"secrets": bool(server.secret)}


def _note(
    verb: str, by: User, server: McpServer, old: Any = None, new: Any = None
) -> None:
    audit.record(
        f"server.{verb}",
        by=by,
        workspace=server.workspace,
        subject=server.name,
        old=old,
        new=new,
    )
    logger.info("Server %s %s by user %s", server.pk, verb, by.pk)


def words_of(text: str) -> tuple[str, ...]:
    """A command as people type it. Raises BadInput for a quote that is never closed."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise BadInput(_("The command has a quote that is never closed.")) from None


def pairs_of(text: str) -> dict[str, str]:
    """`NAME=value`, one a line. Raises BadInput for a line that is none."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise BadInput(_("Write NAME=value, one on each line."))
        found[name.strip()] = value.strip()
    return found
