from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db import connections
from django.db.models.signals import post_migrate, pre_migrate


class WorkspaceConfig(AppConfig):
    name = "workspace"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from workspace import (
            catalogues,
            checks,  # noqa: F401 - registers itself
        )

        catalogues.compile_missing(settings.LOCALE_PATHS)
        pre_migrate.connect(lift_protection, sender=self)
        post_migrate.connect(protect_transcripts, sender=self)


def lift_protection(*, using: str, plan: list[Any], **kwargs: Any) -> None:
    """SQLite cannot rename a table into a place that another table's trigger names."""
    from workspace import triggers

    connection = connections[using]
    rebuilds = any(migration.app_label == "workspace" for migration, _ in plan)
    if connection.vendor == "sqlite" and rebuilds:
        triggers.drop(connection)


def protect_transcripts(*, using: str, **kwargs: Any) -> None:
    from workspace import search, triggers

    triggers.install(connections[using])
    search.install(connections[using])
