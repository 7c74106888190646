"""What the chat page shows of runs: the context gauge, a turn's figures, open waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.db.models import Q, Sum
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents import endpoints
from agents.context.governance import Governance
from agents.errors import ProviderError
from agents.models import Agent, Endpoint, ModelCall, Run, Wait
from agents.queries import TurnFigures
from workspace.access import ABILITIES, at_least
from workspace.diffs import Row, rows_of
from workspace.models import Conversation, Membership, User
from workspace.thread import main_argument, pretty


@dataclass(frozen=True)
class Header:
    """The line above the messages. Tokens are those of the last request."""

    agent_title: str
    model_name: str
    endpoint_name: str
    simulated: bool
    tokens: int
    window: int
    cost: Decimal | None
    problem: str = ""

    @property
    def percent(self) -> int:
        return min(100, round(100 * self.tokens / self.window)) if self.window else 0

    @property
    def tokens_short(self) -> str:
        return short(self.tokens)

    @property
    def window_short(self) -> str:
        return short(self.window)

    @property
    def cost_text(self) -> str:
        return "" if self.cost is None else money(self.cost)

    @property
    def explained(self) -> str:
        return _(
            "Context: the last request had %(tokens)s tokens, %(percent)d %% of the "
            "%(window)s that this model takes."
        ) % {
            "tokens": number_format(self.tokens, force_grouping=True),
            "percent": self.percent,
            "window": number_format(self.window, force_grouping=True),
        }

    @property
    def step(self) -> int:
        """The percentage in steps of five, for a style without inline widths."""
        return 5 * round(self.percent / 5)


def header_of(conversation: Conversation) -> Header:
    """Who answers with what, and how full its context is."""
    agent = Agent.objects.filter(
        workspace=conversation.workspace_id, name=conversation.agent_name
    ).first()
    title = agent.title if agent else conversation.agent_name
    runs = Run.objects.filter(
        Q(conversation=conversation) | Q(conversation__top=conversation)
    )
    cost = runs.aggregate(total=Sum("cost"))["total"]
    tokens = _last_request(conversation)
    try:
        if agent is None:
            raise ProviderError(_("This conversation's agent is gone."))
        chosen = endpoints.choose(conversation, agent)
    except ProviderError as error:
        return Header(title, "", "", False, tokens, 0, cost, error.message)
    return Header(
        agent_title=title,
        model_name=chosen.language_model.name,
        endpoint_name=chosen.endpoint.name,
        simulated=chosen.endpoint.kind == Endpoint.Kind.SIMULATOR,
        tokens=tokens,
        window=Governance.now(conversation).cap_of(chosen.language_model),
        cost=cost,
    )


def _last_request(conversation: Conversation) -> int:
    """Input tokens of the newest request that was answered, as the service counted."""
    call = (
        ModelCall.objects.filter(run__conversation=conversation)
        .exclude(input=None)
        .order_by("-id")
        .first()
    )
    if call is None:
        return 0
    return (call.input or 0) + (call.cache_read or 0) + (call.cache_write or 0)


def short(count: int) -> str:
    """A count of tokens in few characters: 840, 12.4k, 1.2M."""
    if count < 1000:
        return number_format(count)
    if count < 1_000_000:
        return f"{number_format(count / 1000, 1 if count < 100_000 else 0)}k"
    return f"{number_format(count / 1_000_000, 1)}M"


def money(cost: Decimal | None) -> str:
    """US dollars; says so when the price is not known."""
    if cost is None:
        return _("price unknown")
    places = 2 if cost >= 1 else 4
    return f"${number_format(cost, places)}"


def turn_line(shown: TurnFigures) -> dict[str, str]:
    """A turn's figures as one line, and as the sentence that explains it."""
    share = round(100 * shown.tokens_cached / shown.tokens_in) if shown.tokens_in else 0
    rounds = ngettext("%(n)d round", "%(n)d rounds", shown.rounds) % {"n": shown.rounds}
    tokens = _("%(tokens)s in (%(share)d %% cached)") % {
        "tokens": short(shown.tokens_in),
        "share": share,
    }
    line = f"{rounds} · {tokens} · {money(shown.cost)}"
    title = _(
        "%(tokens)s input tokens, %(cached)s of them from the provider’s cache; "
        "%(output)s output tokens; %(seconds)s s"
    ) % {
        "tokens": number_format(shown.tokens_in, force_grouping=True),
        "cached": number_format(shown.tokens_cached, force_grouping=True),
        "output": number_format(shown.tokens_out, force_grouping=True),
        "seconds": number_format((shown.duration_ms or 0) / 1000, 1),
    }
    return {"line": line, "title": title}


@dataclass(frozen=True)
class WaitCard:
    """An open wait as its card shows it to one person."""

    wait: Wait
    may_answer: bool
    child: Conversation | None = None
    may_last: bool = False
    may_always: bool = False
    tool: str = ""
    argument: str = ""
    arguments: str = ""
    diff: list[Row] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, wait: Wait, user: User, member: Membership | None) -> WaitCard:
        payload, asking = wait.payload, wait.run.conversation
        lasts = _would_last(payload)
        return cls(
            wait=wait,
            may_answer=_may_answer(wait, user, member),
            child=asking if asking.parent_id else None,
            may_last=lasts,
            may_always=lasts and _manages_rules(member),
            tool=str(payload.get("tool", "")),
            argument=main_argument(payload.get("arguments")),
            arguments=pretty(payload.get("arguments") or ""),
            diff=rows_of(str(payload.get("diff") or "")),
            questions=list(payload.get("questions") or []),
        )


def _would_last(payload: dict[str, Any]) -> bool:
    """Whether allowing more than once has an effect: an ask rule beats every allow."""
    return str(payload.get("rule", "")).startswith("level ")


def _manages_rules(member: Membership | None) -> bool:
    return member is not None and at_least(member.role, ABILITIES["manage_permissions"])


def _may_answer(wait: Wait, user: User, member: Membership | None) -> bool:
    """Own turns for whoever may post; those of others for whoever manages."""
    if member is None:
        return False
    own = wait.run.turn.author_id == user.pk
    return at_least(member.role, ABILITIES["answer" if own else "approve_any"])
