"""Makes everything ready for processes that run without `up`."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agents.supervisor.database import prepare_database
from agents.supervisor.folder import CannotStart, prepare


class Command(BaseCommand):
    help = (
        "Make the folder, its keys and the database ready, then end. Safe to repeat. "
        "`up` includes it."
    )
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            lock = prepare(settings.VAR_DIR)
            try:
                prepare_database()
            finally:
                os.close(lock)
        except CannotStart as error:
            raise CommandError(str(error)) from None
        self.stdout.write("Ready.")
