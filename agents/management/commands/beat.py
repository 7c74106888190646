"""The beat on its own, for an installation of many machines."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from agents.supervisor.alone import keep_touching
from agents.supervisor.beat import beat


class Command(BaseCommand):
    help = "Sweep lost runs and sign transcripts, until stopped. `up` includes it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--alive",
            type=Path,
            metavar="FILE",
            help="Touch this file while the database answers, for probes.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        if options["alive"]:
            keep_touching(options["alive"], stop)
        name = settings.WORKER_NAME or f"{os.uname().nodename}:beat:{os.getpid()}"
        beat(name, stop)
