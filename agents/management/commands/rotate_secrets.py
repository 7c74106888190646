"""`manage.py rotate_secrets`: move every stored key under the server's first one."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.models import Endpoint
from agents.secrets import SecretUnreadable, reencrypt


class Command(BaseCommand):
    """Safe to repeat; a key that was changed meanwhile is left as it is."""

    help = (
        "Encrypt all stored secrets anew with the first of FERNET_KEYS. Afterwards the "
        "other keys can be taken away."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        unreadable = []
        moved = 0
        for endpoint in Endpoint.objects.exclude(secret="").order_by("created_at"):
            try:
                secret = reencrypt(endpoint.secret)
            except SecretUnreadable:
                unreadable.append(f"{endpoint.name} ({endpoint.pk})")
                continue
            same = Endpoint.objects.filter(pk=endpoint.pk, secret=endpoint.secret)
            moved += same.update(secret=secret)
        self.stdout.write(f"{moved} stored keys are under the server's first key now.")
        if unreadable:
            raise CommandError(
                f"None of the server's keys fits these: {', '.join(unreadable)}. Put "
                "the key that they were saved with back, or enter them again."
            )
