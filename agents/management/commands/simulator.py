"""`manage.py simulator`: the model simulator alone."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents.simulator.serving import serve


class Command(BaseCommand):
    help = "Serve the model simulator alone, for tests and benches. Needs no database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8001, help="0: any free one")

    def handle(self, *args: Any, **options: Any) -> None:
        serve(options["host"], options["port"], self._announce)

    def _announce(self, url: str) -> None:
        self.stdout.write(f"Simulator ready at {url}")
        self.stdout.flush()
