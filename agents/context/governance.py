"""How a conversation's context is kept in bounds: the settings, and the next step.

What must happen before a request is a function of the entries, so that a preview shows
what the loop will do; the loop alone stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Literal
from uuid import UUID

from django.utils import timezone

from agents.config.layers import effective
from agents.config.schema import Settings
from agents.context import outgoing, pictures, pruning, tokens
from agents.context.assemble import Assembled, assemble, declaring
from agents.context.budget import Counts, Limits
from agents.context.cadence import Prices
from agents.context.compaction import RECENT_TURNS, Plan, plan
from agents.context.folding import fold
from agents.context.growing import Kept
from agents.context.reaching import Reach, reach_of, steps
from agents.context.renewing import Renew, nothing
from agents.context.restating import forgotten, restated
from agents.context.view import Item
from agents.endpoints import Choice
from agents.errors import ContextOverflow
from agents.models import LanguageModel, ModelCall
from agents.providers.base import Message
from workspace.models import Conversation

#: How long a service's prompt cache is taken to last after a request.
CACHE_LASTS = timedelta(minutes=10)

#: Steps of compaction before one request, at most.
MOST_STEPS = 4

#: Appends an entry of this kind and body to the items at hand.
Record = Callable[
    [Literal["notice", "summary", "startup", "surface"], dict[str, Any]], None
]
#: Sends the request for a summary; returns its text, "" if there is none.
Ask = Callable[[Assembled], str]


@dataclass(frozen=True, slots=True)
class Governance:
    """`tools.repeatGuard`, `tools.reloadBudget` (tokens), `agent.pruneToolOutputs`,
    `agent.keepToolRounds`, `agent.pruneBatchRounds`, `context.cap` and
    `context.compactAt` (tokens; None: from the model's window),
    `skills.protectRecentViews` (turns).
    """

    repeat_guard: bool = True
    reload_budget: int = 1_000
    prune_tool_outputs: bool = True
    keep_tool_rounds: int = 6
    prune_batch_rounds: int | Literal["auto"] = "auto"
    cap: int | None = None
    compact_at: int | None = None
    protect_recent_views: int = RECENT_TURNS

    @classmethod
    def of(cls, chosen: Settings) -> Governance:
        return cls(
            chosen.tools.repeat_guard,
            chosen.tools.reload_budget,
            chosen.agent.prune_tool_outputs,
            chosen.agent.keep_tool_rounds,
            chosen.agent.prune_batch_rounds,
            chosen.context.cap,
            chosen.context.compact_at,
            chosen.skills.protect_recent_views,
        )

    @classmethod
    def now(cls, conversation: Conversation) -> Governance:
        """As the layers say at this moment: it holds from the next call on. One query."""
        return cls.of(effective(conversation).settings)

    def cap_of(self, model: LanguageModel) -> int:
        """Tokens that a conversation may fill: never more than the model's window."""
        return min(self.cap or model.window, model.window)


DEFAULTS = Governance()


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the requests of a conversation: all that they follow from but its entries.

    `reach` tells what the conversation can reach as of now. One query. `renew` makes
    anew what requests begin with, when that is due.
    """

    conversation_id: UUID
    mode: str
    choice: Choice
    effort: str
    reach: Callable[[Sequence[Item]], Reach]
    governance: Governance = DEFAULTS
    load: pictures.Load = pictures.nothing
    kept: Kept = field(default_factory=Kept)
    renew: Renew = nothing

    @classmethod
    def of(
        cls,
        conversation: Conversation,
        choice: Choice,
        effort: str,
        kept: Kept | None = None,
        renew: Renew = nothing,
    ) -> Maker:
        """With the settings that hold now: one query."""
        return cls(
            conversation.pk,
            conversation.mode,
            choice,
            effort,
            partial(reach_of, conversation),
            Governance.now(conversation),
            pictures.loader(conversation.workspace_id),
            kept or Kept(),
            renew,
        )

    def assemble(self, items: Sequence[Item], plan: Plan | None = None) -> Assembled:
        """The next request; with a plan the one for its summary, which begins alike."""
        model = self.choice.language_model
        return assemble(
            items,
            provider=self.choice.provider,
            language_model=model,
            effort=self.effort,
            cap=self.governance.cap_of(model),
            messages=plan.asking(self.messages(items)) if plan else None,
            load=self.load,
            kept=self.kept,
        )

    def messages(self, items: Sequence[Item]) -> tuple[Message, ...]:
        return outgoing.messages(items, self.kept)

    def plan(
        self, items: Sequence[Item], assembled: Assembled, **options: Any
    ) -> Plan | None:
        """What must happen before this request can be sent; None when it can.

        Options as those of `compaction.plan`.
        """
        limits = Limits.of(
            assembled.cap, assembled.reserved, self.governance.compact_at
        )
        counts = Counts.of(assembled.segments, assembled.factor)
        return plan(
            items,
            counts,
            limits,
            count=self.count,
            restated=lambda: self._restated_tokens(items),
            recent_turns=self.governance.protect_recent_views,
            **options,
        )

    def _restated_tokens(self, items: Sequence[Item]) -> int:
        """What schemas would take, stated again because a summary took them away."""
        hidden, budget = self.reach(items).hidden, self.governance.reload_budget
        body = restated(items, (), hidden, budget, self.count)
        return self.count(body["text"]) if body else 0

    def schemas(self, items: Sequence[Item]) -> dict[str, Any] | None:
        """The notice that is due behind the newest summary; None when none is.

        Found from the entries, so a worker that goes on after a lost one makes it.
        """
        before = forgotten(items)
        if not before:
            return None
        hidden, budget = self.reach(items).hidden, self.governance.reload_budget
        return restated(before, items, hidden, budget, self.count)

    def wanted(self, items: Sequence[Item], focus: str = "") -> Plan:
        """What a person's wish to compact comes to, perhaps to a refusal."""
        found = self.plan(items, self.assemble(items), asked=True, focus=focus)
        assert found, "who asks is always answered"
        return found

    def count(self, text: str) -> int:
        return tokens.count(text, self.choice.language_model.encoding)

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
        kinds = (row.kind for row in reversed(items))
        newest = next((one for one in kinds if one in ("assistant", "summary")), "")
        if newest == "summary":
            return True
        last = (
            ModelCall.objects.filter(
                run__conversation=self.conversation_id, state=ModelCall.State.COMPLETED
            )
            .order_by("-id")
            .first()
        )
        if last is None or timezone.now() - last.at > CACHE_LASTS:
            return True
        endpoint, model = self.choice.endpoint, self.choice.language_model
        mode = declaring(items)[0].get("mode") or self.mode
        now = endpoint.name, model.name, mode
        return now != (last.endpoint_name, last.model_name, last.mode)


def governed(
    items: Sequence[Item],
    maker: Maker,
    record: Record,
    ask: Ask | None = None,
    *,
    overflow: bool = False,
) -> Assembled:
    """Record what must come before the next request; returns the request.

    `record` appends to `items`. `ask` gets a summary from the model; without it the
    request for the summary is the next one. `overflow`: the service refused the request
    as too large. Raises ContextOverflow when it cannot be made to fit, if it is to be
    sent.
    """
    for kind, body in maker.renew(items):
        record(kind, body)
    for body in steps(maker.reach(items), items):
        record("notice", body)
    if lost := maker.schemas(items):
        record("notice", lost)
    if step := maker.pruning_step(items):
        record("notice", step.body())
    for _ in range(MOST_STEPS):
        assembled = maker.assemble(items)
        plan = maker.plan(items, assembled, overflow=overflow)
        if plan is None:
            return assembled
        if plan.strategy in ("stop", "refuse"):
            return _unfit(plan, assembled, is_sent=ask is not None)
        if plan.by_model and ask is None:
            return maker.assemble(items, plan)
        text = ask(maker.assemble(items, plan)) if ask and plan.by_model else ""
        _take(plan, items, text, maker, record)
        overflow = False
    return maker.assemble(items)


def _unfit(plan: Plan, assembled: Assembled, *, is_sent: bool) -> Assembled:
    if is_sent:
        raise ContextOverflow(plan.sentence)
    return assembled


def _take(
    plan: Plan, items: Sequence[Item], text: str, maker: Maker, record: Record
) -> None:
    """Record one step of compaction."""
    if plan.step:
        record("notice", plan.step.body())
        return
    record("summary", plan.body(fold(items), text, maker.count))
    if lost := maker.schemas(items):
        record("notice", lost)


def compacted(
    items: Sequence[Item], maker: Maker, record: Record, ask: Ask, focus: str
) -> str:
    """Carry out a person's wish to compact; returns why it cannot be, or ""."""
    plan = maker.wanted(items, focus)
    if not plan.refusal:
        text = ask(maker.assemble(items, plan)) if plan.by_model else ""
        _take(plan, items, text, maker, record)
    return plan.refusal


def renewed(items: Sequence[Item], maker: Maker) -> list[Item]:
    """The entries with what the next request would begin with, with nothing stored."""
    ahead = list(items)
    for kind, body in maker.renew(items):
        ahead.append(Item(ahead[-1].seq + 1, kind, body))
    return ahead


def foreseen(items: Sequence[Item], maker: Maker) -> Assembled:
    """The request that the loop would send next, with nothing stored."""
    ahead = list(items)

    def record(kind: str, body: dict[str, Any]) -> None:
        ahead.append(Item(ahead[-1].seq + 1, kind, body))

    return governed(ahead, maker, record)
