"""A person calls a skill by writing `/name` at the beginning of a message."""

from __future__ import annotations

import re
from typing import Any

from agents.context.skills import Skill, invocation
from agents.context.skills_files import library_of
from workspace.models import Conversation

#: Words that the page itself understands: no skill goes before them.
COMMANDS = frozenset(
    (  # noqa: SIM905 - words are easier to read than a list of strings
        "attach clear compact context export goal mode model new plan tools"
    ).split()
)
_CALL = re.compile(r"\s*/(\w[\w.-]{0,63})(?=\s|\Z)")


def called_skill(conversation: Conversation, text: str) -> Skill | None:
    """The skill that a message calls, also one that is not listed for the model.

    One query and the disk when the message begins with a slash, so not in a transaction.
    """
    found = _CALL.match(text)
    if found is None or found[1] in COMMANDS:
        return None
    library = library_of(conversation.workspace_id, conversation.root)
    return library.skills.get(found[1])


def with_skill(conversation: Conversation, body: dict[str, Any]) -> dict[str, Any]:
    """The body of a message, with the text of the skill that it calls, if any."""
    skill = called_skill(conversation, str(body.get("text", "")))
    return {**body, "skill": invocation(skill)} if skill else body
