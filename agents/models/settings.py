"""Settings by layer, and which tools requests declare."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from agents.models.agents import Agent
from workspace.models import Conversation, Workspace


class Setting(models.Model):
    """What one layer says about one setting. No row: the layer leaves it unset."""

    class Layer(models.TextChoices):
        SERVER = "server", "Server"
        WORKSPACE = "workspace", "Workspace"
        AGENT = "agent", "Agent"
        CONVERSATION = "conversation", "Conversation"

    layer = models.CharField(max_length=12, choices=Layer.choices)
    workspace = models.ForeignKey(
        Workspace, null=True, on_delete=models.CASCADE, related_name="settings"
    )
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.CASCADE, related_name="settings"
    )
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.CASCADE, related_name="settings"
    )
    key = models.CharField(max_length=100)
    value = models.JSONField()
    written_against = models.TextField(
        blank=True, help_text="The built-in text that the value was made to replace."
    )
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="a_setting_belongs_to_its_layer",
                condition=Q(
                    layer="server", workspace=None, agent=None, conversation=None
                )
                | Q(layer="workspace", workspace__isnull=False)
                & Q(agent=None, conversation=None)
                | Q(layer="agent", agent__isnull=False)
                & Q(workspace=None, conversation=None)
                | Q(layer="conversation", conversation__isnull=False)
                & Q(workspace=None, agent=None),
            ),
            models.UniqueConstraint(
                fields=["key"],
                condition=Q(layer="server"),
                name="a_setting_once_per_server",
            ),
            models.UniqueConstraint(
                fields=["workspace", "key"], name="a_setting_once_per_workspace"
            ),
            models.UniqueConstraint(
                fields=["agent", "key"], name="a_setting_once_per_agent"
            ),
            models.UniqueConstraint(
                fields=["conversation", "key"], name="a_setting_once_per_conversation"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.key} ({self.layer})"


class ModeToolPolicy(models.Model):
    """One block of tools that every request declares: in all modes, or in one.

    A workspace's row replaces the server's for its block. `version` grows with every
    change, so that of two people who edit at once the second is told.
    """

    class Block(models.TextChoices):
        BUILTINS = "resident_builtins", "Built-in tools"
        DISCOVERY = "resident_discovery", "Finding tools"
        MCP = "resident_mcp", "Tools of MCP servers"

    workspace = models.ForeignKey(
        Workspace, null=True, on_delete=models.PROTECT, related_name="tool_policies"
    )
    block = models.CharField(
        max_length=60, help_text="resident_builtins, …_discovery, …_mcp or mode:NAME."
    )
    names = models.JSONField(default=list)
    ceiling = models.CharField(
        max_length=10, blank=True, help_text="Of a mode; empty: what it brings along."
    )
    allowed = models.JSONField(
        null=True, help_text="A mode's allow-list of tools; null: none."
    )
    version = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "mode tool policies"
        constraints = [
            models.UniqueConstraint(
                fields=["block"],
                condition=Q(workspace=None),
                name="a_block_once_on_the_server",
            ),
            models.UniqueConstraint(
                fields=["workspace", "block"], name="a_block_once_per_workspace"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.block} of {self.workspace or 'the server'}"
