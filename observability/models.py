"""What happened, as stored events. Deletable without changing any run."""

from __future__ import annotations

from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils import timezone

from agents.models import Run
from workspace.models import Conversation


class PlainJSONEncoder(DjangoJSONEncoder):
    """Writes Korean as Korean, so that a search in the stored text finds it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "ensure_ascii": False})


class Record(models.Model):
    """One stored event; `seq` counts a run's records from 1 without a gap.

    The keys have no constraint in the database: a deferred one would fail the commit
    of the fact itself, and chat never depends on records.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        Run,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="records",
    )
    conversation = models.ForeignKey(
        Conversation,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    seq = models.PositiveBigIntegerField()
    round = models.PositiveIntegerField(
        default=0, help_text="The round it belongs to; 0 before the first."
    )
    kind = models.CharField(max_length=40)
    failed = models.BooleanField(default=False, help_text="Tells of something wrong.")
    text = models.TextField(help_text="The line that the log viewer shows.")
    data = models.JSONField(default=dict, encoder=PlainJSONEncoder)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "seq"], name="one_record_per_seq")
        ]
        indexes = [
            models.Index(fields=["run", "kind"], name="record_by_run_and_kind"),
            models.Index(
                fields=["run", "seq"],
                condition=models.Q(failed=True),
                name="failed_record_by_run",
            ),
        ]

    def __str__(self) -> str:
        return f"Record {self.seq} ({self.kind})"
