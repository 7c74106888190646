"""What happened, as stored events. Deletable without changing any run."""

from __future__ import annotations

from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils import timezone

from agents.models import Agent, Run
from workspace.models import Conversation, User, Workspace


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
            models.Index(fields=["kind", "at"], name="record_by_kind_and_time"),
            models.Index(
                fields=["run", "seq"],
                condition=models.Q(failed=True),
                name="failed_record_by_run",
            ),
        ]

    def __str__(self) -> str:
        return f"Record {self.seq} ({self.kind})"


def loosely(to: type[models.Model], **options: Any) -> Any:
    """A key that the database does not check: figures never hold up what they tell of."""
    return models.ForeignKey(
        to,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
        **options,
    )


class Role(models.TextChoices):
    """For whom a model call was made."""

    MAIN = "main", "Main"
    CHILD = "child", "Child"
    BACKGROUND = "background", "Background"


class Sums(models.Model):
    """What the model calls of an hour add up to. Tokens by five disjoint axes."""

    hour = models.DateTimeField(help_text="Its begin, UTC.")
    workspace = loosely(Workspace)
    agent = loosely(Agent)
    model_name = models.CharField(max_length=160)
    mode = models.CharField(max_length=40)
    role = models.CharField(max_length=10, choices=Role.choices)
    calls = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    turns = models.PositiveIntegerField(default=0, help_text="Runs that began.")
    unreported = models.PositiveIntegerField(
        default=0, help_text="Calls that were answered without usage."
    )
    input = models.PositiveBigIntegerField(default=0)
    cache_read = models.PositiveBigIntegerField(default=0)
    cache_write = models.PositiveBigIntegerField(default=0)
    output = models.PositiveBigIntegerField(default=0)
    reasoning = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(
        max_digits=18, decimal_places=6, default=0, help_text="US dollars."
    )
    unpriced = models.PositiveIntegerField(
        default=0, help_text="Calls with usage whose model has no price."
    )
    generated = models.PositiveBigIntegerField(
        default=0, help_text="Output tokens of calls whose times are known."
    )
    generation_ms = models.PositiveBigIntegerField(
        default=0, help_text="Their time after the first token."
    )
    # Calls by time to the first token; bounds in `figures.FIRST_TOKEN_BOUNDS`.
    first_0 = models.PositiveIntegerField(default=0)
    first_1 = models.PositiveIntegerField(default=0)
    first_2 = models.PositiveIntegerField(default=0)
    first_3 = models.PositiveIntegerField(default=0)
    first_4 = models.PositiveIntegerField(default=0)
    first_5 = models.PositiveIntegerField(default=0)
    first_6 = models.PositiveIntegerField(default=0)
    first_7 = models.PositiveIntegerField(default=0)
    first_8 = models.PositiveIntegerField(default=0)
    first_9 = models.PositiveIntegerField(default=0)

    class Meta:
        abstract = True


class HourSums(Sums):
    """The roll-up that Insights reads: small however many conversations there are."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "hour", "agent", "model_name", "mode", "role"],
                name="one_sum_per_hour_and_kind",
            )
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}h: {self.calls} calls"


class ConversationSums(Sums):
    """The same by conversation and by the person whose turn it was."""

    conversation = loosely(Conversation)
    user = loosely(User, null=True)

    class Meta:
        indexes = [models.Index(fields=["workspace", "hour"], name="talk_sum_by_hour")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}h: {self.calls} calls"


class ToolSums(models.Model):
    """What the tools of an hour did: calls, errors, loads of deferred ones."""

    hour = models.DateTimeField(help_text="Its begin, UTC.")
    workspace = loosely(Workspace)
    agent = loosely(Agent)
    model_name = models.CharField(max_length=160)
    mode = models.CharField(max_length=40)
    role = models.CharField(max_length=10, choices=Role.choices)
    tool = models.CharField(max_length=200)
    calls = models.PositiveIntegerField(default=0)
    errors = models.PositiveIntegerField(default=0)
    loads = models.PositiveIntegerField(default=0)
    searched = models.PositiveIntegerField(
        default=0, help_text="Loads that a search led to."
    )
    milliseconds = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "workspace",
                    "hour",
                    "tool",
                    "agent",
                    "model_name",
                    "mode",
                    "role",
                ],
                name="one_tool_sum_per_hour_and_kind",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool}: {self.calls} calls"


class IdleCost(models.Model):
    """What a new conversation carried before anybody worked in it, in tokens.

    `configuration` is a digest of all that decides it: declared tools, system prompt,
    rules, skills and index. It differs when something of that was changed.
    """

    conversation = models.OneToOneField(
        Conversation,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        related_name="+",
    )
    workspace = loosely(Workspace)
    agent = loosely(Agent)
    model_name = models.CharField(max_length=160)
    mode = models.CharField(max_length=40)
    at = models.DateTimeField()
    configuration = models.CharField(max_length=16)
    tokens = models.PositiveIntegerField(help_text="Our count of the prefix.")
    reported = models.PositiveIntegerField(
        null=True, help_text="Input of the first request, question included."
    )
    parts = models.JSONField(default=dict, help_text="The prefix by category.")

    class Meta:
        indexes = [models.Index(fields=["workspace", "at"], name="idle_cost_by_time")]

    def __str__(self) -> str:
        return f"{self.tokens} tokens ({self.configuration})"


class CacheBreak(models.Model):
    """A model call that found less in the service's cache than it should have."""

    call = models.PositiveBigIntegerField(
        unique=True, help_text="Key of the model call."
    )
    at = models.DateTimeField()
    workspace = loosely(Workspace)
    agent = loosely(Agent)
    run = loosely(Run)
    conversation = loosely(Conversation)
    user = loosely(User, null=True)
    model_name = models.CharField(max_length=160)
    mode = models.CharField(max_length=40)
    role = models.CharField(max_length=10, choices=Role.choices)
    round = models.PositiveIntegerField()
    segment = models.CharField(max_length=200)
    cause = models.CharField(max_length=40)
    lost_tokens = models.PositiveIntegerField()
    at_byte = models.PositiveBigIntegerField(null=True)
    cost = models.DecimalField(
        max_digits=14, decimal_places=6, null=True, help_text="US dollars too many."
    )

    class Meta:
        indexes = [models.Index(fields=["workspace", "at"], name="break_by_time")]

    def __str__(self) -> str:
        return f"{self.cause} in {self.segment}: {self.lost_tokens} tokens"


class Watermark(models.Model):
    """How far a roll-up has come: hours before `until` are read from it."""

    name = models.CharField(max_length=40, primary_key=True)
    until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} until {self.until}"
