"""What a conversation finds around it when it begins: rules, skills, memory.

Reading happens here, outside of transactions; what is made of it is pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents import memories
from agents.config.layers import effective
from agents.config.schema import Settings
from agents.context import rules
from agents.context.rules import Caps, Snapshot
from agents.context.rules_files import discover
from agents.context.skills import Listing, listing
from agents.context.skills_files import library_of
from agents.endpoints import choose
from agents.errors import ProviderError
from agents.models import Agent
from workspace.models import Conversation


@dataclass(frozen=True, slots=True)
class Surroundings:
    rules: Snapshot
    skills: Listing = Listing()
    memory: str = ""


def look_around(
    conversation: Conversation, chosen: Settings | None = None, *, lean: bool = False
) -> Surroundings:
    """Read what the conversation begins with. Two or three queries, and the disk.

    `lean` is what a child is given: the root's rules file alone, no list of skills and
    no memory.
    """
    chosen = chosen or effective(conversation).settings
    set_to = chosen.agent
    caps = Caps.of(
        window_of(conversation, chosen),
        set_to.context_file_max_chars,
        set_to.context_files_max_chars,
    )
    skills = Listing()
    if not lean:
        skills = listing(library_of(conversation.workspace_id, conversation.root))
    memory = "" if lean else memories.digest_of(conversation, chosen)
    if set_to.ignore_context_files:
        nothing = rules.snapshot(rules.Found(), caps, off=True)
        return Surroundings(nothing, skills, memory)
    found = discover(conversation.root, conversation.mode)
    kept = rules.root_only(found) if lean else found
    return Surroundings(rules.snapshot(kept, caps), skills, memory)


def window_of(conversation: Conversation, chosen: Settings) -> int | None:
    """Tokens of the window that the conversation has; None when no model answers."""
    agent = Agent.objects.filter(
        workspace=conversation.workspace_id,
        name=conversation.agent_name,
        deleted_at=None,
    ).first()
    try:
        window = choose(conversation, agent or Agent()).language_model.window
    except ProviderError:
        return chosen.context.cap
    return min(window, chosen.context.cap or window)
