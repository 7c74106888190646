"""Another mode was chosen: the next turn begins with its tools, texts and rules.

Choosing writes no more than the choice. What requests begin with is made anew when the
next turn makes its first request, by the loop and by a preview alike; until then the
conversation stays in the mode that its latest surface was made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from agents.context.assemble import declaring
from agents.context.startup import mode_in, startup_body, surface_body
from agents.context.view import Item
from agents.models import Agent
from workspace.models import Conversation

Renewal = tuple[Literal["startup", "surface"], dict[str, Any]]
#: What must be recorded before a turn's first request, from the entries.
Renew = Callable[[Sequence[Item]], Iterator[Renewal]]


def nothing(items: Sequence[Item]) -> Iterator[Renewal]:
    """In the middle of a turn no byte that requests begin with is moved."""
    return iter(())


def renewal_for(
    conversation: Conversation, agent: Agent, starts: Callable[[], bool]
) -> Renew:
    """`starts` tells whether the next request is the first of its turn."""

    def renew(items: Sequence[Item]) -> Iterator[Renewal]:
        old = mode_in(conversation, declaring(items)[0])
        is_child = conversation.parent_id is not None
        if old != conversation.mode and not is_child and starts():
            yield from _made_anew(conversation, agent, items, old)

    return renew


def _made_anew(
    conversation: Conversation, agent: Agent, items: Sequence[Item], old: str
) -> Iterator[Renewal]:
    """Reads files. The surface comes last: until it is stored, all of it is due."""
    startup = startup_body(conversation)
    surface = surface_body(agent, conversation)
    switched = {"old": old, "by": chosen_by(items)}
    yield "startup", startup | {"cause": "mode"}
    yield "surface", surface | {"cause": "mode", "switched": switched}


def chosen_by(items: Sequence[Item]) -> str:
    """Who chose a mode last."""
    notices = (row.body for row in reversed(items) if row.kind == "notice")
    return str(next((one["by"] for one in notices if one.get("type") == "mode"), ""))
