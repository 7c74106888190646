"""The worker process on its own, for an installation of many machines."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.supervisor import worker
from agents.supervisor.alone import keep_touching, require_keys
from agents.supervisor.folder import CannotStart


class Command(BaseCommand):
    help = "Play runs until stopped; SIGTERM hands them back. `up` includes it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "queues",
            nargs="*",
            metavar="QUEUE",
            help=f"Which queues to serve: {', '.join(worker.QUEUES)}. Default: all.",
        )
        parser.add_argument(
            "--alive",
            type=Path,
            metavar="FILE",
            help="Touch this file while the database answers, for probes.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        queues = options["queues"] or worker.QUEUES
        if unknown := sorted(set(queues) - set(worker.QUEUES)):
            raise CommandError(
                f"There is no queue {unknown[0]!r}; choose from "
                f"{', '.join(worker.QUEUES)}."
            )
        try:
            require_keys()
        except CannotStart as error:
            raise CommandError(str(error)) from None
        if options["alive"]:
            keep_touching(options["alive"], threading.Event())
        worker.work(queues)
