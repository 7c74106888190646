"""What `manage.py check` says of settings: wrong ones end the start."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Warning, register
from django.db import DatabaseError

from agents.config.layers import environment
from agents.context.startup import BASE
from agents.models import Setting
from agents.policy_actions import removed_names
from workspace.errors import BadInput


@register()
def check_environment(**_kwargs: Any) -> list[CheckMessage]:
    try:
        environment()
    except BadInput as refusal:
        hint = "Correct SERVER_SETTINGS, or the file SERVER_SETTINGS_FILE names."
        return [Error(refusal.message, hint=hint, id="agents.E001")]
    except (OSError, UnicodeDecodeError):
        hint = "Check SYSTEM_PROMPT_FILE, or --system-prompt."
        return [Error("The system prompt cannot be read.", hint=hint, id="agents.E002")]
    return []


@register()
def check_policy(**_kwargs: Any) -> list[CheckMessage]:
    """Names in the tool policy that no tool has: a release removed it."""
    try:
        removed = [(str(row), name) for row, name in removed_names()]
    except DatabaseError:
        return []  # before the first migration
    return [
        Warning(
            f"{place} names {name}, which is no tool any more.",
            hint="Agents go on without it; take it out on the page Tool policy.",
            id="agents.W002",
        )
        for place, name in removed
    ]


@register()
def check_overrides(**_kwargs: Any) -> list[CheckMessage]:
    """Overrides of the base instructions that were written against other ones."""
    rows = Setting.objects.filter(key="agent.systemPrompt").exclude(
        written_against=BASE
    )
    try:
        places = sorted(str(row) for row in rows)
    except DatabaseError:
        return []  # before the first migration
    return [
        Warning(
            f"The base instructions have changed since {place} was written.",
            hint="All settings shows the difference; saving it again settles this.",
            id="agents.W001",
        )
        for place in places
    ]
