"""The triggers that keep transcripts append-only, with `search.py` the only SQL of one
database alone.

Entries, bodies and head signatures refuse UPDATE and DELETE (and TRUNCATE). One change
is let through: a body set to NULL once a `redaction` entry of its conversation names
it; redactions themselves stay.

`workspace.apps` calls `install` after every migrate, since Django's table rebuild on
SQLite drops triggers without a word. A changed definition counts as missing, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

ENTRY = "workspace_entry"
BODY = "workspace_entrybody"
HEAD = "workspace_headsignature"
TABLES = (ENTRY, BODY, HEAD)

REFUSAL = "Transcripts are append-only: this row cannot be changed or deleted."

#: True when a redaction names the body OLD; {names} yields rows with a column `value`.
NAMED = """EXISTS (
    SELECT 1 FROM workspace_entry named
    JOIN workspace_entry redaction ON redaction.conversation_id = named.conversation_id
    JOIN workspace_entrybody words ON words.entry_id = redaction.id
    WHERE named.id = OLD.entry_id
      AND named.kind <> 'redaction' AND redaction.kind = 'redaction'
      AND EXISTS (SELECT 1 FROM {names} WHERE value = {seq})
)"""
SHREDS = "NEW.entry_id = OLD.entry_id AND NEW.text IS NULL AND NEW.nonce IS NULL"


@dataclass(frozen=True)
class Trigger:
    """One trigger, with the statement that makes it."""

    name: str
    table: str
    sql: str


def install(connection: BaseDatabaseWrapper) -> list[str]:
    """Make what is missing; returns the names. Does nothing before the tables exist."""
    lacking = missing(connection)
    if not lacking:
        return []
    _settle(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for statement in POSTGRESQL_FUNCTIONS.values():
                cursor.execute(statement)
        for trigger in _triggers(connection):
            if trigger.name in lacking:
                _remove(connection, cursor, trigger)
                cursor.execute(trigger.sql)
                if connection.vendor == "postgresql":
                    # Also while a session replays as a replica.
                    cursor.execute(
                        f"ALTER TABLE {trigger.table} ENABLE ALWAYS TRIGGER {trigger.name}"
                    )
    return lacking


def drop(connection: BaseDatabaseWrapper) -> None:
    """Remove them all: for tests that flush, and while SQLite rebuilds a table."""
    tables = _tables(connection)
    _settle(connection)
    with connection.cursor() as cursor:
        for trigger in _triggers(connection):
            if trigger.table in tables:
                _remove(connection, cursor, trigger)


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Names of triggers that are absent, switched off or not as defined here.

    Tables that no migration has made yet lack nothing.
    """
    tables = _tables(connection)
    wanted = [item for item in _triggers(connection) if item.table in tables]
    if not wanted:
        return []
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            return _missing_on_postgresql(cursor, wanted)
        return _missing_on_sqlite(cursor, wanted)


def overwrite_deleted(connection: BaseDatabaseWrapper) -> None:
    """Have what this connection deletes next overwritten in the file, not just freed."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete = ON")


def damage(connection: BaseDatabaseWrapper) -> list[str]:
    """What the database itself finds wrong with its file; empty on PostgreSQL."""
    if connection.vendor != "sqlite":
        return []
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA integrity_check(10)")
        found = [line for (line,) in cursor.fetchall() if line != "ok"]
        cursor.execute("PRAGMA foreign_key_check")
        return found + [
            f"row {row} of {table} names a row of {parent} that is not there"
            for table, row, parent, _ in cursor.fetchmany(10)
        ]


def _settle(connection: BaseDatabaseWrapper) -> None:
    """PostgreSQL alters no table whose foreign keys are still to be checked."""
    if connection.vendor == "postgresql":
        connection.check_constraints()


def _tables(connection: BaseDatabaseWrapper) -> set[str]:
    return set(connection.introspection.table_names()) & set(TABLES)


def _triggers(connection: BaseDatabaseWrapper) -> list[Trigger]:
    if connection.vendor == "postgresql":
        return POSTGRESQL
    if connection.vendor == "sqlite":
        return SQLITE
    raise NotImplementedError(
        f"Transcripts cannot be protected on {connection.display_name}; "
        "use SQLite or PostgreSQL."
    )


def _remove(
    connection: BaseDatabaseWrapper, cursor: CursorWrapper, trigger: Trigger
) -> None:
    place = f" ON {trigger.table}" if connection.vendor == "postgresql" else ""
    cursor.execute(f"DROP TRIGGER IF EXISTS {trigger.name}{place}")


# SQLite


def _sqlite(table: str, action: str, condition: str = "") -> Trigger:
    name = f"{table}_refuses_{action.lower()}"
    when = f"WHEN {condition} " if condition else ""
    return Trigger(
        name,
        table,
        f"CREATE TRIGGER {name} BEFORE {action} ON {table} FOR EACH ROW {when}"
        f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END",
    )


def _sqlite_replace(table: str, *keys: str) -> Trigger:
    """INSERT OR REPLACE deletes the old row without calling its DELETE trigger."""
    clash = " OR ".join(f"({key})" for key in keys)
    there = f"EXISTS (SELECT 1 FROM {table} WHERE {clash})"  # noqa: S608 - constants
    return _sqlite(table, "INSERT", there)


SQLITE = [
    _sqlite(ENTRY, "UPDATE"),
    _sqlite(ENTRY, "DELETE"),
    _sqlite_replace(
        ENTRY,
        "id = NEW.id",
        "conversation_id = NEW.conversation_id AND seq = NEW.seq",
        "conversation_id = NEW.conversation_id AND client_id = NEW.client_id",
    ),
    _sqlite(
        BODY,
        "UPDATE",
        f"NOT ({SHREDS} AND "
        + NAMED.format(names="json_each(words.text, '$.entries')", seq="named.seq")
        + ")",
    ),
    _sqlite(BODY, "DELETE"),
    _sqlite_replace(BODY, "entry_id = NEW.entry_id"),
    _sqlite(HEAD, "UPDATE"),
    _sqlite(HEAD, "DELETE"),
    _sqlite_replace(
        HEAD, "id = NEW.id", "conversation_id = NEW.conversation_id AND seq = NEW.seq"
    ),
]


def _missing_on_sqlite(cursor: CursorWrapper, wanted: list[Trigger]) -> list[str]:
    cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    present = dict(cursor.fetchall())
    return [item.name for item in wanted if present.get(item.name) != item.sql]


# PostgreSQL


def _function(name: str, source: str) -> str:
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
        f" AS $code${source}$code$"
    )


RAISE = f"RAISE EXCEPTION USING ERRCODE = '23000', MESSAGE = '{REFUSAL}';"
REFUSE = "transcript_refuses"
REFUSE_UNLESS_REDACTED = "transcript_refuses_unless_redacted"
# PostgreSQL reads no JSON with an escaped NUL; an escaped backslash may stand before
# "u0000", so those go first. The seqs hold neither.
PLAIN = r"replace(replace(words.text, '\\', ''), '\u0000', '')"
SOURCES = {
    REFUSE: f" BEGIN {RAISE} END ",
    REFUSE_UNLESS_REDACTED: f" BEGIN IF {SHREDS} AND "
    + NAMED.format(
        names=f"json_array_elements_text({PLAIN}::json -> 'entries')",
        seq="named.seq::text",
    )
    + f" THEN RETURN NEW; END IF; {RAISE} END ",
}
POSTGRESQL_FUNCTIONS = {name: _function(name, text) for name, text in SOURCES.items()}


def _postgresql(table: str, action: str, function: str = REFUSE) -> Trigger:
    name = f"{table}_refuses_{action.lower()}"
    each = "STATEMENT" if action == "TRUNCATE" else "ROW"
    return Trigger(
        name,
        table,
        f"CREATE TRIGGER {name} BEFORE {action} ON {table}"
        f" FOR EACH {each} EXECUTE FUNCTION {function}()",
    )


POSTGRESQL = [
    _postgresql(
        table,
        action,
        REFUSE_UNLESS_REDACTED if (table, action) == (BODY, "UPDATE") else REFUSE,
    )
    for table in TABLES
    for action in ("UPDATE", "DELETE", "TRUNCATE")
]


def _missing_on_postgresql(cursor: CursorWrapper, wanted: list[Trigger]) -> list[str]:
    cursor.execute(
        "SELECT t.tgname, pg_get_triggerdef(t.oid), p.proname, p.prosrc"
        " FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
        " WHERE t.tgenabled = 'A' AND NOT t.tgisinternal"
        " AND t.tgrelid::regclass::text = ANY(%s)",
        [list(TABLES)],
    )
    sound = {
        name
        for name, definition, function, source in cursor.fetchall()
        if _same(definition) in {_same(item.sql) for item in wanted}
        and source == SOURCES.get(function)
    }
    return [item.name for item in wanted if item.name not in sound]


def _same(definition: str) -> str:
    """A definition without the schema that PostgreSQL may write out."""
    return definition.replace(" ON public.", " ON ").replace(" public.", " ")
