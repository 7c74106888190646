"""Bring the sums that Insights reads up to date, or make them anew."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from observability import rollups
from observability.idle import record_idle_costs


class Command(BaseCommand):
    help = "Sum model calls and tools by hour for Insights. The beat does it by itself."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--rebuild", action="store_true", help="forget the sums and make them anew"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["rebuild"]:
            hours = rollups.rebuild()
        else:
            record_idle_costs()
            hours = rollups.roll_up()
        self.stdout.write(f"{hours} hours summed, until {rollups.rolled_until()}.")
