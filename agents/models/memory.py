"""Facts for later conversations, and the runs that keep them."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents.models.agents import Agent
from workspace.models import Conversation, Turn, User, Workspace


class Memory(models.Model):
    """One note that agents keep for later conversations, and where it came from.

    A person's notes are theirs within the workspace. `private`: learned in a private
    conversation, so never told in a shared one.
    """

    class Scope(models.TextChoices):
        USER = "user", _("Person")
        WORKSPACE = "workspace", _("Workspace")
        AGENT = "agent", _("Agent")

    class Source(models.TextChoices):
        PERSON = "person", _("written by hand")
        TOOL = "tool", _("saved by an agent")
        EXTRACTION = "extraction", _("found after a conversation")
        CONSOLIDATION = "consolidation", _("put together at night")

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="memories"
    )
    scope = models.CharField(max_length=9, choices=Scope.choices)
    user = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="memories"
    )
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.PROTECT, related_name="memories"
    )
    text = models.TextField()
    pinned = models.BooleanField(default=False)
    private = models.BooleanField(default=False)
    source = models.CharField(max_length=13, choices=Source.choices)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.PROTECT, related_name="memories"
    )
    turn = models.ForeignKey(
        Turn, null=True, on_delete=models.PROTECT, related_name="memories"
    )
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="a_memory_belongs_to_its_scope",
                condition=Q(scope="user", user__isnull=False, agent=None)
                | Q(scope="agent", agent__isnull=False, user=None)
                | Q(scope="workspace", user=None, agent=None),
            )
        ]
        indexes = [models.Index(fields=["workspace", "scope"])]

    def __str__(self) -> str:
        return f"Memory {self.pk} ({self.scope})"


class MemoryRun(models.Model):
    """One pass of a memory agent: what it was for, what it cost, what came of it.

    Nothing it does has an effect before its end, so a lost one is simply done again.
    """

    class Kind(models.TextChoices):
        EXTRACTION = "extraction", _("after a conversation")
        CONSOLIDATION = "consolidation", _("at night")

    class State(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        FINISHED = "finished", _("finished")
        FAILED = "failed", _("failed")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="memory_runs"
    )
    kind = models.CharField(max_length=13, choices=Kind.choices)
    user = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.PROTECT, related_name="memory_runs"
    )
    upto_seq = models.PositiveBigIntegerField(
        default=0, help_text="The last entry of the conversation that it looks at."
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    tries = models.PositiveIntegerField(default=0)
    claimed_until = models.DateTimeField(null=True)
    missing = models.JSONField(
        default=dict, help_text="Tools that it had to do without, and why."
    )
    message = models.TextField(blank=True)
    changes = models.PositiveIntegerField(default=0)
    model_name = models.CharField(max_length=160, blank=True)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "upto_seq"],
                condition=Q(kind="extraction"),
                name="an_extraction_once_per_head",
            )
        ]
        indexes = [models.Index(fields=["workspace", "-created_at"])]

    def __str__(self) -> str:
        return f"Memory run {self.pk} ({self.kind}, {self.state})"

    @property
    def is_degraded(self) -> bool:
        return bool(self.missing)
