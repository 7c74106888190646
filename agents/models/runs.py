"""Attempts at a turn: their model calls, tool calls, tasks and waits."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone

from agents.models.agents import Agent
from workspace.models import Conversation, Entry, Turn, User, Workspace


class Run(models.Model):
    """One attempt at a turn; what the log viewer lists.

    `fence` grows with every claim and every change of hands: a worker whose fence is
    old can no longer write. The lease only decides who may claim.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        WAITING = "waiting", "Waiting"
        FINISHED = "finished", "Finished"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"

    OPEN = (State.QUEUED, State.RUNNING, State.WAITING)
    ENDED = (State.FINISHED, State.FAILED, State.STOPPED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    turn = models.ForeignKey(Turn, on_delete=models.PROTECT, related_name="runs")
    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="runs"
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="runs"
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs")
    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    trigger = models.CharField(max_length=20, default="message")
    started_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    since_seq = models.PositiveBigIntegerField(
        default=0, help_text="The transcript's head when it began: later ones are its."
    )
    fence = models.PositiveIntegerField(default=0)
    worker = models.CharField(max_length=100, blank=True)
    lease_until = models.DateTimeField(null=True)
    rung_at = models.DateTimeField(null=True)
    rings = models.PositiveIntegerField(default=0)
    round = models.PositiveIntegerField(default=0)
    restarts = models.PositiveIntegerField(
        default=0, help_text="Times that a worker was lost in the present round."
    )
    stop_requested_at = models.DateTimeField(null=True)
    stop_requested_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    message = models.TextField(blank=True)
    model_name = models.CharField(max_length=160, blank=True)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_cached = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation"],
                condition=Q(state__in=["running", "waiting"]),
                name="one_run_at_work_per_conversation",
            )
        ]
        indexes = [
            models.Index(fields=["state", "lease_until"]),
            models.Index(fields=["agent", "-created_at"]),
            models.Index(fields=["conversation", "created_at"]),
        ]

    def __str__(self) -> str:
        return f"Run {self.pk} ({self.state})"


class ModelCall(models.Model):
    """One request to a model service: written before it is sent, settled after."""

    class State(models.TextChoices):
        SENT = "sent", "Sent"
        COMPLETED = "completed", "Completed"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"
        LOST = "lost", "Lost"

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="model_calls")
    round = models.PositiveIntegerField()
    state = models.CharField(max_length=9, choices=State.choices, default=State.SENT)
    endpoint_name = models.CharField(max_length=80)
    model_name = models.CharField(max_length=160)
    mode = models.CharField(max_length=40)
    effort = models.CharField(max_length=10, blank=True)
    at = models.DateTimeField(default=timezone.now)
    estimated_tokens = models.PositiveIntegerField(default=0)
    segments = models.JSONField(
        default=list,
        help_text="[kind, id, digest, tokens] of each, in wire order; old messages and "
        "the envelope as one row for many.",
    )
    seen_seq = models.PositiveBigIntegerField(
        default=0, help_text="The transcript's head when the request was made."
    )
    prefix_tokens_expected = models.PositiveIntegerField(
        null=True, help_text="Tokens that the service's cache should have held."
    )
    cache_break = models.JSONField(
        null=True, help_text="segment, cause, lost_tokens, at_byte; null: no break."
    )
    input = models.PositiveIntegerField(null=True)
    cache_read = models.PositiveIntegerField(null=True)
    cache_write = models.PositiveIntegerField(null=True)
    output = models.PositiveIntegerField(null=True)
    reasoning = models.PositiveIntegerField(null=True)
    first_token_ms = models.PositiveIntegerField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    stop_reason = models.CharField(max_length=12, blank=True)
    retries = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    error = models.TextField(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["run", "round"]),
            models.Index(fields=["at"], name="model_call_by_time"),
        ]

    def __str__(self) -> str:
        return f"Model call {self.pk} ({self.model_name})"


class ToolCall(models.Model):
    """One call of an assistant message; its outcome is stored once and never repeated."""

    class State(models.TextChoices):
        ASKED = "asked", "Asked"
        STARTED = "started", "Started"
        ENDED = "ended", "Ended"

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="tool_calls")
    entry = models.ForeignKey(
        Entry,
        on_delete=models.PROTECT,
        related_name="tool_calls",
        help_text="The assistant message that asks for it.",
    )
    round = models.PositiveIntegerField()
    index = models.PositiveIntegerField(help_text="Its place in the message, from 0.")
    call_id = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    arguments = models.TextField()
    argument_hash = models.CharField(max_length=64)
    state = models.CharField(max_length=7, choices=State.choices, default=State.ASKED)
    decision = models.JSONField(
        null=True, help_text="The permission's answer and the rule that gave it."
    )
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    ok = models.BooleanField(null=True)
    outcome = models.JSONField(
        null=True, help_text="output (capped view), output_sha256, error, meta."
    )
    result_entry = models.OneToOneField(
        Entry, null=True, on_delete=models.PROTECT, related_name="answered_call"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["entry", "index"], name="one_call_per_place"
            )
        ]
        indexes = [models.Index(fields=["run", "state"])]

    def __str__(self) -> str:
        return f"Call of {self.name} ({self.state})"


class Delegation(models.Model):
    """A task that a call handed to another agent, and the child that does it.

    Its `run` begins when it has a place among its siblings. Tokens and cost stay the
    child's own; `turn` is the turn of people to which they add up.
    """

    class Context(models.TextChoices):
        LEAN = "lean", "Lean"
        FULL = "full", "Full"

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.PROTECT, related_name="delegation"
    )
    conversation = models.OneToOneField(
        Conversation, on_delete=models.PROTECT, related_name="delegation"
    )
    parent_run = models.ForeignKey(
        Run, on_delete=models.PROTECT, related_name="delegations"
    )
    turn = models.ForeignKey(Turn, on_delete=models.PROTECT, related_name="delegations")
    run = models.OneToOneField(
        Run, null=True, on_delete=models.PROTECT, related_name="delegation"
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    title = models.CharField(max_length=200)
    rounds = models.PositiveIntegerField(help_text="Tool rounds that it may take.")
    effort = models.CharField(max_length=10, blank=True)
    context = models.CharField(max_length=4, choices=Context.choices)
    limits = models.JSONField(help_text="agents.surface.limits.Limits as JSON.")
    warnings = models.JSONField(default=list)
    prefix_digest = models.CharField(
        max_length=64, help_text="Of what its requests begin with, and their model."
    )
    background = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    warmed_at = models.DateTimeField(
        null=True, help_text="When the first byte of its first answer came."
    )

    def __str__(self) -> str:
        return f"Delegation of {self.title!r}"


class Wait(models.Model):
    """What a run waits for; answered once, by whoever comes first."""

    class Kind(models.TextChoices):
        QUESTION = "question", "Question"
        APPROVAL = "approval", "Approval"
        PLAN = "plan", "Plan"
        CHILDREN = "children", "Children"
        RETRY = "retry", "Retry"

    class Outcome(models.TextChoices):
        ANSWERED = "answered", "Answered"
        EXPIRED = "expired", "Expired"
        CANCELLED = "cancelled", "Cancelled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="waits")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    tool_call = models.ForeignKey(
        ToolCall, null=True, on_delete=models.PROTECT, related_name="waits"
    )
    argument_hash = models.CharField(max_length=64, blank=True)
    payload = models.JSONField(default=dict)
    opened_at = models.DateTimeField(default=timezone.now)
    deadline = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=9, choices=Outcome.choices, blank=True)
    answered_at = models.DateTimeField(null=True)
    answered_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    answer = models.JSONField(null=True)

    class Meta:
        indexes = [models.Index(fields=["outcome", "deadline"])]
        constraints = [
            models.UniqueConstraint(
                fields=["tool_call", "kind", "argument_hash"],
                name="one_wait_per_call_and_arguments",
            )
        ]

    def __str__(self) -> str:
        return f"Wait {self.pk} ({self.kind})"


class Lease(models.Model):
    """Work that one process at a time does for all of them, such as the beat's."""

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=100)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} by {self.holder}"


class LoadedTool(models.Model):
    """A deferred tool whose schema a conversation has received, and why."""

    class Cause(models.TextChoices):
        DIRECT = "direct", "Called by its name"
        SEARCH = "search", "Found by a search"
        PRELOAD = "preload", "Preloaded"
        RESUME = "resume", "Called earlier"
        DELEGATION = "delegation", "Given by the parent"

    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="loaded_tools"
    )
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="loaded_tools")
    tool = models.CharField(max_length=200)
    schema_digest = models.CharField(max_length=64)
    cause = models.CharField(max_length=10, choices=Cause.choices)
    query = models.CharField(max_length=500, blank=True)
    round = models.PositiveIntegerField()
    tokens = models.PositiveIntegerField(help_text="What its declaration costs.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "tool"], name="a_tool_is_loaded_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool}, loaded by {self.cause}"
