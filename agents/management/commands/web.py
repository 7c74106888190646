"""The web process on its own, for an installation of many machines."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.supervisor.alone import require_keys
from agents.supervisor.folder import CannotStart


class Command(BaseCommand):
    help = "Serve pages and sockets, until stopped. `up` includes it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Where to listen.")
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *args: Any, **options: Any) -> None:
        from daphne.endpoints import build_endpoint_description_strings

        from agents.supervisor.supervisor import listen
        from agents.supervisor.web import serve

        host, port = options["host"], options["port"]
        try:
            require_keys()
            # Twisted would tell of a taken port with a page of its own calls.
            listen(host, port, or_next=False).close()
        except CannotStart as error:
            raise CommandError(str(error)) from None
        serve(build_endpoint_description_strings(host=host, port=port))
