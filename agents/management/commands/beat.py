"""The beat on its own, for an installation of many machines."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from agents.supervisor.beat import beat


class Command(BaseCommand):
    help = "Sweep lost runs and sign transcripts, until stopped. `up` includes it."

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        name = settings.WORKER_NAME or f"{os.uname().nodename}:beat:{os.getpid()}"
        beat(name, stop)
