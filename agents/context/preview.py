"""What the next model call of a conversation would send. Looks only; never sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.children.family import effort_in
from agents.context.assemble import Assembled, items_of
from agents.context.governance import Maker, foreseen, renewed
from agents.context.reaching import Reach
from agents.context.renewing import renewal_for
from agents.context.report import Counted, Report, make_report
from agents.context.startup import canonical, declaration
from agents.context.tokens import count
from agents.endpoints import choose
from agents.models import Agent, LanguageModel, ModelCall, Run
from agents.surface.index import group_of
from workspace.models import Conversation


@dataclass(frozen=True, slots=True)
class OnDemand:
    """A deferred tool: tokens of its share of the index now, and of its schema if loaded."""

    name: str
    group: str
    description: str
    schema: str
    index_tokens: float
    load_tokens: int
    loaded: bool


@dataclass(frozen=True, slots=True)
class Preview:
    """The next request, accounted for; `last` is what the last one really used."""

    assembled: Assembled
    next: Report
    last: Report | None
    on_demand: tuple[OnDemand, ...]
    language_model: LanguageModel


def preview(conversation: Conversation, agent: Agent) -> Preview:
    """Build the very request that the loop would send next, by the same functions.

    When a summary must come first, that is the request for it.
    """
    choice = choose(conversation, agent)
    model = choice.language_model
    renew = renewal_for(conversation, agent, lambda: not _is_mid_turn(conversation))
    maker = Maker.of(conversation, choice, effort_in(conversation, agent), renew=renew)
    items = renewed(items_of(conversation), maker)
    assembled = foreseen(items, maker)
    return Preview(
        assembled,
        report_of(assembled),
        last_report(conversation, assembled),
        on_demand(conversation, maker.reach(items), assembled),
        model,
    )


def _is_mid_turn(conversation: Conversation) -> bool:
    """Whether a run has made requests and will make more. One query."""
    runs = Run.objects.filter(conversation=conversation, state__in=Run.OPEN)
    return runs.filter(round__gt=0).exists()


def report_of(
    assembled: Assembled, reported: int | None = None, cached: int = 0
) -> Report:
    parts = [
        Counted(one.kind, one.id, one.title, one.tokens) for one in assembled.segments
    ]
    return make_report(
        parts,
        cap=assembled.cap,
        reserved=assembled.reserved,
        reported=reported,
        cached=cached,
        factor=assembled.factor,
    )


def last_report(conversation: Conversation, assembled: Assembled) -> Report | None:
    """The account of the last answered call, of the window of now. One query.

    None before the first.
    """
    calls = ModelCall.objects.filter(
        run__conversation=conversation, state=ModelCall.State.COMPLETED, round__gt=0
    )
    call = calls.order_by("-id").first()
    if call is None:
        return None
    reported = None
    if call.input is not None:
        reported = call.input + (call.cache_read or 0) + (call.cache_write or 0)
    parts = [
        Counted(kind, key, key.partition(":")[2] or key, size)
        for kind, key, _digest, size in call.segments
    ]
    return make_report(
        parts,
        cap=assembled.cap,
        reserved=assembled.reserved,
        reported=reported,
        cached=call.cache_read or 0,
        factor=assembled.factor,
    )


def on_demand(
    conversation: Conversation, reach: Reach, assembled: Assembled
) -> tuple[OnDemand, ...]:
    """Every deferred tool with what it costs now and would cost if loaded."""
    declared = {one.id for one in assembled.segments if one.kind == "tools"}
    hidden = [
        tool for tool in reach.hidden.values() if f"tool:{tool.name}" not in declared
    ]
    index = sum(one.tokens for one in assembled.segments if one.id == "index")
    loaded = set(conversation.loaded_tools.values_list("tool", flat=True))
    return tuple(
        OnDemand(
            tool.name,
            group_of(tool),
            tool.description,
            tool.schema,
            round(index / len(hidden), 1),
            count(canonical(declaration(tool))),
            tool.name in loaded,
        )
        for tool in hidden
    )


def as_json(found: Preview) -> dict[str, Any]:
    """What the command prints and the explorer's address with `.json` answers."""
    return {
        "model": found.language_model.name,
        "digest": found.assembled.digest,
        "bytes": len(found.assembled.body),
        "next": found.next.as_json(),
        "last": found.last.as_json() if found.last else None,
        "on_demand": [
            {
                "name": tool.name,
                "group": tool.group,
                "index_tokens": tool.index_tokens,
                "load_tokens": tool.load_tokens,
                "loaded": tool.loaded,
            }
            for tool in found.on_demand
        ],
    }
