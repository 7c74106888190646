"""The database itself refuses to change a transcript."""

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError
from django.db import (
    DatabaseError,
    connection,
    migrations,
    models,
    transaction,
)
from django.db.migrations.executor import MigrationExecutor
from django.db.models.signals import post_migrate, pre_migrate

from tests.workspace.transcripts import conversation_of, execute, note
from workspace import triggers
from workspace.checks import transcripts_are_protected
from workspace.models import Entry, HeadSignature
from workspace.transcript import append
from workspace.verification import sign_heads, verify


@pytest.fixture
def conversation(workspace, owner):
    made = conversation_of(workspace, owner, "one", "two")
    sign_heads([made])
    return made


CHANGES = [
    "UPDATE workspace_entry SET kind = 'user'",
    "UPDATE workspace_entry SET digest = 'f'",
    "DELETE FROM workspace_entry",
    "UPDATE workspace_entrybody SET text = '{}'",
    "UPDATE workspace_entrybody SET text = NULL, nonce = NULL",
    "UPDATE workspace_entrybody SET text = NULL",
    "UPDATE workspace_entrybody SET entry_id = entry_id + 1000",
    "DELETE FROM workspace_entrybody",
    "UPDATE workspace_headsignature SET digest = 'f'",
    "DELETE FROM workspace_headsignature",
]
REPLACEMENTS = [
    f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}" for table in triggers.TABLES
]


def refused(sql):
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        execute(sql)


@pytest.mark.parametrize("sql", CHANGES)
def test_sql_that_changes_a_transcript_fails(conversation, sql):
    refused(sql)
    assert verify(conversation) == 2
    assert HeadSignature.objects.count() == 1


def test_rows_cannot_be_replaced_either(conversation):
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite replaces rows without deleting them")
    for sql in REPLACEMENTS:
        refused(sql)
    assert verify(conversation) == 2


def test_tables_cannot_be_truncated(conversation):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no TRUNCATE")
    connection.check_constraints()  # or it refuses for another reason
    for table in triggers.TABLES:
        refused(f"TRUNCATE {table} CASCADE")
    assert verify(conversation) == 2


def test_a_replica_session_does_not_switch_the_triggers_off(conversation):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no replica sessions")
    execute("SET LOCAL session_replication_role = replica")
    refused("DELETE FROM workspace_entry")


def test_a_dropped_trigger_is_missed_and_put_back(conversation):
    assert triggers.missing(connection) == []
    triggers.drop(connection)
    dropped = triggers.missing(connection)
    assert "workspace_entry_refuses_update" in dropped
    assert triggers.install(connection) == dropped
    assert triggers.install(connection) == []
    assert triggers.missing(connection) == []


def test_a_trigger_that_was_replaced_by_a_harmless_one_is_missed(conversation):
    name = "workspace_entry_refuses_update"
    if connection.vendor == "sqlite":
        execute(f"DROP TRIGGER {name}")
        execute(
            f"CREATE TRIGGER {name} BEFORE UPDATE ON workspace_entry BEGIN SELECT 1; END"
        )
    else:
        connection.check_constraints()  # it alters no table before that
        execute(f"ALTER TABLE workspace_entry DISABLE TRIGGER {name}")
    assert triggers.missing(connection) == [name]
    triggers.install(connection)
    refused("UPDATE workspace_entry SET kind = 'user'")


def test_a_trigger_function_that_was_emptied_is_missed(conversation):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite keeps the code in the trigger")
    execute(
        "CREATE OR REPLACE FUNCTION transcript_refuses() RETURNS trigger"
        " LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
    )
    assert "workspace_entry_refuses_delete" in triggers.missing(connection)
    triggers.install(connection)
    refused("DELETE FROM workspace_entry")


def test_the_check_and_the_command_fail_while_a_trigger_is_missing(
    conversation, capsys
):
    assert transcripts_are_protected(databases=["default"]) == []
    triggers.drop(connection)
    with pytest.raises(SystemCheckError, match="does not protect transcripts"):
        call_command("check", databases=["default"])
    with pytest.raises(CommandError, match="workspace_entry_refuses_update is missing"):
        call_command("transcript", "verify", str(conversation.pk))
    call_command("transcript", "protect")
    call_command("transcript", "verify", str(conversation.pk))
    assert "2 entries verify" in capsys.readouterr().out


def test_a_plain_check_asks_no_database(conversation):
    triggers.drop(connection)
    assert transcripts_are_protected(databases=None) == []


def rebuild(model_name):
    """A migration that alters a column: SQLite copies the table and drops the old."""
    field = models.CharField(max_length=13 if model_name == "entry" else 33, null=True)
    name = "kind" if model_name == "entry" else "nonce"
    if model_name == "entry":
        field = models.CharField(max_length=13, choices=Entry.Kind.choices)

    class Migration(migrations.Migration):
        dependencies = [("workspace", "0001_initial")]  # noqa: RUF012
        operations = [migrations.AlterField(model_name, name, field)]  # noqa: RUF012

    return Migration(f"9999_rebuild_{model_name}", "workspace")


@pytest.mark.parametrize("model_name", ["entry", "entrybody"])
def test_a_migration_that_rebuilds_the_table_leaves_the_triggers_in_place(
    real_transactions, workspace, owner, model_name
):
    conversation = conversation_of(workspace, owner, "one")
    migration = rebuild(model_name)
    executor = MigrationExecutor(connection)
    state = executor.loader.project_state()
    send(pre_migrate, migration)
    with connection.schema_editor(atomic=migration.atomic) as editor:
        migration.apply(state, editor)
    lacking = triggers.missing(connection)
    send(post_migrate, migration)
    if connection.vendor == "sqlite":
        assert lacking, "the rebuild dropped nothing, so this test proves nothing"
    assert triggers.missing(connection) == []
    refused("DELETE FROM workspace_entry")
    append(conversation.pk, note("two"))
    assert verify(conversation) == 2


def send(signal, migration):
    """What `migrate` sends around its plan."""
    from django.apps import apps

    signal.send(
        sender=apps.get_app_config("workspace"),
        using="default",
        plan=[(migration, False)],
        verbosity=0,
        interactive=False,
        apps=apps,
        app_config=apps.get_app_config("workspace"),
    )


def test_migrating_again_puts_nothing_in_the_way(real_transactions, workspace, owner):
    conversation = conversation_of(workspace, owner, "one")
    call_command("migrate", verbosity=0)
    assert triggers.missing(connection) == []
    assert verify(conversation) == 1


def test_the_fixture_with_real_transactions_starts_with_empty_tables(
    real_transactions, db
):
    assert not Entry.objects.exists()
    assert triggers.missing(connection) == []
