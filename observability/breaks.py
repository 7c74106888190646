"""Cache breaks as rows: where a request lost its cached prefix, why, and for how much.

The verdict itself is the loop's, stored with the model call (`agents.context.breaks`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents.models import LanguageModel, ModelCall
from observability.measures import settled_calls
from observability.models import CacheBreak

#: What each cause means, for whoever has to pay for it.
CAUSES: dict[str, str | Promise] = {
    "mode": _("The mode was changed"),
    "model": _("The model was changed"),
    "effort": _("The effort was changed"),
    "endpoint": _("The endpoint was changed"),
    "rules reload": _("Rules were reloaded"),
    "policy change": _("The tool policy was changed"),
    "deferral switch": _("Deferral was switched"),
    "restart": _("The start was made anew"),
    "load": _("A tool’s schema was added to the declared ones"),
    "resume": _("The surface was restored"),
    "fallback": _("The surface fell back"),
    "compaction": _("The conversation was compacted"),
    "prune step": _("Old outputs were pruned"),
    "rewind": _("A message was edited or tried again"),
    "erased": _("Something was erased"),
    "images": _("Images were left out"),
    "expired": _("The service’s cache had expired"),
    "evicted": _("The service dropped it from its cache"),
    "nondeterminism": _("Bytes changed although nothing was done"),
}
#: Causes that nobody chose, and that should not happen.
FAULTS = frozenset({"nondeterminism", "unknown"})

Prices = dict[tuple[str, str, UUID | None], Decimal | None]


def title_of(cause: str) -> str:
    return str(CAUSES.get(cause, _("Unknown")))


def breaks_between(
    start: datetime, end: datetime, only: Q | None = None
) -> list[CacheBreak]:
    """The breaks of calls in that time, not saved. Two queries."""
    calls = settled_calls().filter(
        only or Q(), at__gte=start, at__lt=end, cache_break__isnull=False
    )
    found = list(calls.select_related("run").defer("segments").order_by("at", "pk"))
    prices = price_differences(call.model_name for call in found)
    return [_row(call, prices) for call in found if _is_whole(call.cache_break)]


def _is_whole(verdict: Any) -> bool:
    lost = verdict.get("lost_tokens") if isinstance(verdict, dict) else None
    return isinstance(lost, int) and lost > 0


def _row(call: ModelCall, prices: Prices) -> CacheBreak:
    verdict, run = call.cache_break or {}, call.run
    at_byte = verdict.get("at_byte")
    return CacheBreak(
        call=call.pk,
        at=call.at,
        workspace_id=run.workspace_id,
        agent_id=run.agent_id,
        run_id=run.pk,
        conversation_id=run.conversation_id,
        user_id=run.started_by_id,
        model_name=call.model_name,
        mode=call.mode,
        role=getattr(call, "dim_role"),  # noqa: B009 - an annotation
        round=call.round,
        segment=str(verdict.get("segment") or "")[:200],
        cause=str(verdict.get("cause") or "unknown")[:40],
        lost_tokens=verdict["lost_tokens"],
        at_byte=at_byte if isinstance(at_byte, int) else None,
        cost=_cost(call, run.workspace_id, prices),
    )


def price_differences(names: Iterable[str]) -> Prices:
    """What a token costs more when it is not cached, in dollars per million."""
    models = LanguageModel.objects.filter(name__in=set(names))
    rows = models.values_list(
        "endpoint__name",
        "name",
        "endpoint__workspace_id",
        "price_input",
        "price_cache_read",
    )
    return {
        (endpoint, name, workspace): (
            None if full is None or read is None else max(full - read, Decimal())
        )
        for endpoint, name, workspace, full, read in rows
    }


def _cost(call: ModelCall, workspace: UUID, prices: Prices) -> Decimal | None:
    """Dollars that the break cost; None where the model's prices are unknown."""
    for place in (workspace, None):
        price = prices.get((call.endpoint_name, call.model_name, place))
        if price is not None:
            lost: int = (call.cache_break or {})["lost_tokens"]
            return (lost * price / 1_000_000).quantize(Decimal("0.000001"))
    return None
