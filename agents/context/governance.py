"""How a conversation's context is kept in bounds: the settings, and the next step.

What must happen before a request is a function of the entries, so that a preview shows
what the loop will do; the loop alone stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from django.utils import timezone

from agents.context import pruning
from agents.context.assemble import Assembled, assemble
from agents.context.cadence import Prices
from agents.context.folding import fold
from agents.context.view import Item
from agents.endpoints import Choice
from agents.models import ModelCall
from workspace.models import Conversation

#: How long a service's prompt cache is taken to last after a request.
CACHE_LASTS = timedelta(minutes=10)

#: Appends an entry of this kind and body to the items at hand.
Record = Callable[[Literal["notice", "summary"], dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Governance:
    """`tools.repeatGuard`, `agent.pruneToolOutputs`, `agent.keepToolRounds`,
    `agent.pruneBatchRounds`, and `context.compactAt` (tokens; None: from the window).
    """

    repeat_guard: bool = True
    prune_tool_outputs: bool = True
    keep_tool_rounds: int = 6
    prune_batch_rounds: int | Literal["auto"] = "auto"
    compact_at: int | None = None


DEFAULTS = Governance()


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the requests of a conversation: all that they follow from but its entries."""

    conversation_id: UUID
    mode: str
    choice: Choice
    effort: str
    governance: Governance = DEFAULTS

    @classmethod
    def of(cls, conversation: Conversation, choice: Choice, effort: str) -> Maker:
        return cls(conversation.pk, conversation.mode, choice, effort)

    def assemble(self, items: Sequence[Item]) -> Assembled:
        return assemble(
            items,
            provider=self.choice.provider,
            language_model=self.choice.language_model,
            effort=self.effort,
        )

    def pruning_step(self, items: Sequence[Item]) -> pruning.Step | None:
        """The stubs to record now. One query, once rounds are old enough for them."""
        rows, set_to = fold(items).rows, self.governance
        settings = pruning.Settings(
            set_to.prune_tool_outputs,
            set_to.keep_tool_rounds,
            set_to.prune_batch_rounds,
        )
        prices = self.prices
        is_due = len(pruning.tool_rounds(rows)) > settings.keep
        cold = is_due and prices.caching and self.is_cold(items)
        return pruning.decide(rows, settings, prices, cold=cold)

    @property
    def prices(self) -> Prices:
        model = self.choice.language_model
        return Prices.of(
            model.price_input,
            model.price_cache_read,
            model.price_cache_write,
            caches=self.choice.endpoint.caches_prompts,
        )

    def is_cold(self, items: Sequence[Item]) -> bool:
        """Whether the service holds nothing of this conversation in its cache."""
        spoken = (row.kind for row in reversed(items))
        if next((kind for kind in spoken if kind in ("assistant", "summary")), "") == (
            "summary"
        ):
            return True
        calls = ModelCall.objects.filter(
            run__conversation=self.conversation_id, state=ModelCall.State.COMPLETED
        )
        last = calls.order_by("-id").first()
        return last is None or (
            (last.endpoint_name, last.model_name, last.mode)
            != (
                self.choice.endpoint.name,
                self.choice.language_model.name,
                self.mode,
            )
            or timezone.now() - last.at > CACHE_LASTS
        )


def governed(items: Sequence[Item], maker: Maker, record: Record) -> Assembled:
    """Record what must come before the next request; returns the request.

    `record` appends to `items`.
    """
    if step := maker.pruning_step(items):
        record("notice", step.body())
    return maker.assemble(items)


def foreseen(items: Sequence[Item], maker: Maker) -> Assembled:
    """The request that the loop would send next, with nothing stored."""
    ahead = list(items)

    def record(kind: str, body: dict[str, Any]) -> None:
        ahead.append(Item(ahead[-1].seq + 1, kind, body))

    return governed(ahead, maker, record)
