"""Verify, export and check transcripts; put their protection back."""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from workspace import exports, triggers
from workspace.errors import TranscriptError
from workspace.models import Conversation
from workspace.verification import verify


class Command(BaseCommand):
    help = "Verify, export and check transcripts."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as in BaseCommand
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        walk = actions.add_parser("verify", help="Walk chain, bodies and signatures.")
        walk.add_argument("conversations", nargs="*", metavar="CONVERSATION")
        walk.add_argument("--all", action="store_true", dest="every")
        write = actions.add_parser("export", help="Write a transcript as JSON Lines.")
        write.add_argument("conversation", metavar="CONVERSATION")
        write.add_argument("--out", type=Path, metavar="FILE")
        read = actions.add_parser(
            "import", help="Verify an export, without a database."
        )
        read.add_argument("--check", required=True, type=Path, metavar="FILE")
        read.add_argument(
            "--key", help="The public key (hexadecimal) that must have signed it."
        )
        actions.add_parser("protect", help="Put missing triggers back.")

    def handle(self, *, action: str, **options: Any) -> None:
        try:
            getattr(self, f"do_{action}")(**options)
        except (TranscriptError, DatabaseError) as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            name = f"{error.filename}: " if error.filename else ""
            raise CommandError(f"{name}{error.strerror or error}.") from error

    def do_verify(self, *, conversations: list[str], every: bool, **_: Any) -> None:
        """Everything is walked before the command fails, so that one run tells all."""
        if bool(conversations) == every:
            raise CommandError("Name the conversations to verify, or use --all.")
        faults = [
            f"The trigger {name} is missing or changed; see `transcript protect`."
            for name in triggers.missing(connection)
        ]
        faults += [f"The database file is damaged: {x}" for x in _damage(every)]
        chosen = map(_find, conversations) if not every else _all()
        try:
            for conversation in chosen:
                faults += self._walk(conversation)
        except (DatabaseError, ValueError) as error:
            faults.append(f"The list of conversations cannot be read: {error}.")
        if faults:
            raise CommandError("\n".join(faults))

    def _walk(self, conversation: Conversation) -> list[str]:
        try:
            count = verify(conversation)
        except (TranscriptError, DatabaseError) as error:
            return [f"Conversation {conversation.pk}: {error}"]
        entries = "entry verifies" if count == 1 else "entries verify"
        self.stdout.write(f"Conversation {conversation.pk}: {count} {entries}.")
        return []

    def do_export(self, *, conversation: str, out: Path | None, **_: Any) -> None:
        lines = exports.export(_find(conversation))
        if out is None:
            for line in lines:
                self.stdout.write(line, ending="")
            return
        _write(out, lines)
        self.stdout.write(f"Written to {out}.")

    def do_import(self, *, check: Path, key: str | None, **_: Any) -> None:
        with check.open("rb") as file:
            verdict = exports.check(file, key)
        self.stdout.write(
            f"Conversation {verdict.conversation}: {verdict.entries} entries verify, "
            f"{len(verdict.erased)} of them erased by a redaction."
        )
        if key is None:
            self.stdout.write(
                f"Signed with the key {verdict.public_key}: compare it with the "
                "server's, or give it with --key."
            )

    def do_protect(self, **_: Any) -> None:
        made = triggers.install(connection)
        self.stdout.write(
            f"Put back: {', '.join(made)}." if made else "Nothing was missing."
        )


def _all() -> Iterator[Conversation]:
    """With their ids alone: another column's damage must not end the walk."""
    return Conversation.objects.only("pk").order_by("created_at").iterator()


def _damage(every: bool) -> list[str]:
    """The database's own check reads the whole file, so only when all is asked for."""
    try:
        return triggers.damage(connection) if every else []
    except DatabaseError as error:
        return [str(error)]


def _find(name: str) -> Conversation:
    try:
        return Conversation.objects.get(pk=UUID(name))
    except ValueError:
        raise CommandError(f"{name!r} is not the id of a conversation.") from None
    except Conversation.DoesNotExist:
        raise CommandError(f"There is no conversation {name!r}.") from None


def _write(out: Path, lines: Iterator[str]) -> None:
    """Beside its place first: an export that fails leaves an older file alone."""
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.writelines(lines)
        Path(name).replace(out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
