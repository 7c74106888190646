"""What the next model call of a conversation would send, in tokens."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.actions import agent_of
from agents.context.preview import Preview, as_json, preview
from agents.context.report import Report
from agents.errors import ProviderError
from workspace.errors import ActionError
from workspace.models import Conversation


class Command(BaseCommand):
    help = "Show what the next model call of a conversation would send, in tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("conversation", help="its id, as in the page's address")
        parser.add_argument("--detail", action="store_true", help="a row per part")
        parser.add_argument("--json", action="store_true", help="as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        conversation = self._conversation(options["conversation"])
        try:
            found = preview(conversation, agent_of(conversation))
        except (ActionError, ProviderError) as error:
            raise CommandError(error.message) from None
        if options["json"]:
            self.stdout.write(json.dumps(as_json(found), indent=2, ensure_ascii=False))
            return
        self._write(found.next, "Next request", detail=options["detail"])
        if found.last:
            self._write(found.last, "Last request", detail=False)
        self._write_on_demand(found)

    def _conversation(self, text: str) -> Conversation:
        try:
            return Conversation.objects.select_related("workspace").get(pk=UUID(text))
        except ValueError:
            raise CommandError(
                f"{text!r} is not the id of a conversation; copy it from the page's "
                "address."
            ) from None
        except Conversation.DoesNotExist:
            raise CommandError(f"There is no conversation {text}.") from None

    def _write(self, report: Report, title: str, *, detail: bool) -> None:
        kind = "estimated" if report.estimated else f"{report.cached} cached"
        self.stdout.write(
            f"{title}: {report.total} of {report.cap} tokens ({kind}); "
            f"{report.reserved} reserved, {report.available} available"
        )
        for row in report.rows:
            self.stdout.write(f"  {row.tokens:>9}  {row.title}")
            for part in row.details if detail else ():
                self.stdout.write(f"  {part.tokens:>9}    {part.title}")

    def _write_on_demand(self, found: Preview) -> None:
        if not found.on_demand:
            self.stdout.write("On demand: nothing is deferred.")
            return
        self.stdout.write("On demand (index now / if loaded):")
        for tool in found.on_demand:
            mark = " loaded" if tool.loaded else ""
            self.stdout.write(
                f"  {tool.index_tokens:>7} / {tool.load_tokens:>5}  {tool.name}{mark}"
            )
