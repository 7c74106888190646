"""Prints a new link that makes the first administrator."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from workspace.accounts import make_setup_link
from workspace.errors import ActionError


class Command(BaseCommand):
    help = "Print a single-use link that makes the first administrator."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--base-url",
            default=settings.PUBLIC_URL or "http://127.0.0.1:8000",
            help="The address at which browsers reach this server.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(make_setup_link(options["base_url"]))
        except ActionError as error:
            raise CommandError(error.message) from None
