"""How a model counts, learned from what its service reports."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from django.db.models import F, Max

from agents.models import LanguageModel, ModelCall

#: The factor is kept within these: what lies beyond is a fault, not a tokenizer.
LEAST, MOST = 0.7, 1.5
#: Requests below this tell little: what the service adds to each weighs too much.
LEAST_TOKENS = 500
#: The newest calls of a model that count, and those among which they are looked for.
CALLS, SEARCHED = 50, 5_000


def factor_of(pairs: Sequence[tuple[int, int]]) -> float:
    """The calibration that follows from pairs of reported and counted tokens."""
    ratios = [reported / counted for reported, counted in pairs if counted > 0]
    if not ratios:
        return 1.0
    return round(min(max(median(ratios), LEAST), MOST), 3)


def calibrate() -> int:
    """Learn every model's factor from its newest calls; returns how many changed.

    Reported totals are never touched: the factor corrects estimates alone.
    """
    changed = 0
    newest = ModelCall.objects.aggregate(last=Max("pk"))["last"] or 0
    for model in LanguageModel.objects.select_related("endpoint"):
        pairs = _pairs(model, newest - SEARCHED)
        if not pairs:
            continue
        new = {"calibration": factor_of(pairs), "calibrated_calls": len(pairs)}
        rows = LanguageModel.objects.filter(pk=model.pk)
        changed += rows.exclude(**new).update(**new)
    return changed


def _pairs(model: LanguageModel, after: int) -> list[tuple[int, int]]:
    """Reported and counted tokens of the model's newest calls."""
    calls = ModelCall.objects.filter(
        pk__gt=after,
        endpoint_name=model.endpoint.name,
        model_name=model.name,
        state=ModelCall.State.COMPLETED,
        input__gt=0,
        estimated_tokens__gte=LEAST_TOKENS,
    )
    if model.endpoint.workspace_id:
        calls = calls.filter(run__workspace=model.endpoint.workspace_id)
    reported = F("input") + F("cache_read") + F("cache_write")
    found = calls.annotate(reported=reported).order_by("-pk")
    return list(found.values_list("reported", "estimated_tokens")[:CALLS])
