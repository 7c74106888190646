"""The database as the processes expect it: reachable, migrated, guarded, seeded."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from agents.seeding import seed_workspace
from agents.supervisor.folder import CannotStart
from workspace import checks
from workspace.actions.people import seed


def prepare_database() -> None:
    """Migrate and seed. Raises CannotStart when the transcripts are unprotected."""
    reach()
    # Before migrating: that would put a missing trigger back without a word.
    if problems := checks.transcripts_are_protected(databases=["default"]):
        raise CannotStart(f"{problems[0].msg} {problems[0].hint}")
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", verbosity=0, interactive=False)
    seed_workspace(seed())
    connection.close()


def reach() -> None:
    """Open it once; PostgreSQL without the pool, which would retry for long."""
    backend: Any = connection
    driver = backend.Database
    try:
        if connection.vendor == "postgresql":
            driver.connect(**backend.get_connection_params()).close()
        connection.ensure_connection()
    except (DatabaseError, driver.Error) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else error
        raise CannotStart(
            f"The database {described()} cannot be opened: {reason}. Check "
            "DATABASE_URL and that its server runs."
        ) from None


def described() -> str:
    """Which one it is, without its password."""
    database = settings.DATABASES["default"]
    host = database.get("HOST")
    return f"{str(database['NAME'])!r}" + (f" on {host!r}" if host else "")
