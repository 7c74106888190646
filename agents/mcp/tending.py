"""A worker's care for servers: those that are new or failed are tried again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from django.db import connections as databases
from django.db.models import Q
from django.utils import timezone

from agents.mcp import health
from agents.models import McpServer

RETRY = timedelta(seconds=60)
_AT_ONCE = 8  # servers that are tried side by side


def tend() -> None:
    """Connect to each server that is due; one process does it, the others go on."""
    now = timezone.now()
    waiting = McpServer.objects.filter(
        Q(tried_at=None) | Q(tried_at__lt=now - RETRY),
        state__in=(McpServer.State.CONNECTING, McpServer.State.FAILED),
        deleted_at=None,
        workspace__deleted_at=None,
    ).select_related("workspace")
    due = [
        server
        for server in waiting
        if McpServer.objects.filter(pk=server.pk, tried_at=server.tried_at).update(
            tried_at=now
        )
    ]
    if due:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(_try, due))


def _try(server: McpServer) -> None:
    from agents.mcp.connections import Unreachable, shared

    try:
        found = shared().look(server)
    except Unreachable as error:
        health.failed(server.pk, str(error))
    else:
        health.listed(server.pk, found)
    finally:
        databases.close_all()
