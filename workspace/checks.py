"""What `manage.py check --database` and `up` ask before they trust the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections

from workspace import triggers


@register(Tags.database)
def transcripts_are_protected(
    *, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    return [
        Error(
            f"The database does not protect transcripts: {', '.join(names)} "
            f"{'is' if len(names) == 1 else 'are'} missing or changed.",
            hint="Find out who removed it. `manage.py transcript verify --all` shows "
            "whether a transcript was changed; `manage.py transcript protect` puts "
            "the triggers back.",
            id="workspace.E001",
        )
        for alias in databases or ()
        if (names := triggers.missing(connections[alias]))
    ]
