"""Model calls as rows, for figures: what a provider reported, and when."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils import timezone

from agents.models import ModelCall, Run
from observability.models import Record

USED = {
    "input": 200,
    "cache_read": 800,
    "cache_write": 0,
    "output": 50,
    "reasoning": 0,
    "cost": Decimal("0.002"),
    "first_token_ms": 400,
    "duration_ms": 1400,
}


def a_call(run: Run, at: datetime | None = None, **fields: Any) -> ModelCall:
    """A completed call with usage, unless the fields say otherwise."""
    fields = {
        "round": 1,
        "state": ModelCall.State.COMPLETED,
        "endpoint_name": "Sim",
        "model_name": "sim-1",
        "mode": "chat",
        **USED,
        **fields,
    }
    return ModelCall.objects.create(run=run, at=at or timezone.now(), **fields)


def a_record(run: Run, kind: str, at: datetime, **data: Any) -> Record:
    seq = Record.objects.filter(run=run).count() + 1
    return Record.objects.create(
        run=run,
        conversation=run.conversation,
        seq=seq,
        kind=kind,
        text=kind,
        data=data,
        at=at,
    )
