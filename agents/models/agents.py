"""Who answers, and the instructions that people write for them."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone

from agents.models.endpoints import LanguageModel
from workspace.models import User, Workspace


class Agent(models.Model):
    """A definition of who answers: persona, model, effort, limits."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="agents"
    )
    name = models.SlugField(max_length=60)
    title = models.CharField(max_length=80)
    description = models.CharField(max_length=300, blank=True)
    persona = models.TextField(blank=True)
    language_model = models.ForeignKey(
        LanguageModel,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        help_text="Empty: the workspace's or the server's default model.",
    )
    effort = models.CharField(max_length=10, blank=True)
    max_rounds = models.PositiveIntegerField(default=500)
    max_seconds = models.PositiveIntegerField(default=6 * 3600)
    max_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    read_only = models.BooleanField(
        default=False, help_text="As a child it reads: it changes nothing."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="an_agent_once_per_workspace"
            )
        ]

    def __str__(self) -> str:
        return self.title


class WorkspaceSkill(models.Model):
    """A skill that an admin wrote in the settings. `paths` and tools are lists of text."""

    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="skills"
    )
    name = models.CharField(max_length=64)
    description = models.CharField(max_length=1000)
    when_to_use = models.CharField(max_length=500, blank=True)
    paths = models.JSONField(default=list, blank=True)
    allowed_tools = models.JSONField(default=list, blank=True)
    body = models.TextField()
    updated_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="a_skill_once_per_workspace"
            )
        ]

    def __str__(self) -> str:
        return self.name


class SeenInstruction(models.Model):
    """A rules file or SKILL.md as a member last looked at it.

    A file whose digest is another one now was changed by a tool, or from outside. The
    row without a path says that the workspace was looked through for the first time:
    what there was then counts as known.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="seen_instructions"
    )
    path = models.CharField(max_length=1000, blank=True)
    digest = models.CharField(max_length=64)
    text = models.TextField(blank=True)
    seen_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "path"], name="an_instruction_seen_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.path} as of {self.seen_at}"
