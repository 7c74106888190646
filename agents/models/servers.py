"""Tool servers of a workspace."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from workspace.models import User, Workspace


class McpServer(models.Model):
    """A server of tools that a workspace uses, with what it last said it offers.

    What is stored here is enough to make a surface: nothing has to be connected.
    """

    class State(models.TextChoices):
        CONNECTING = "connecting", _("Connecting")
        READY = "ready", _("Ready")
        FAILED = "failed", _("Failed")
        LEFT = "left", _("Disconnected")

    class Transport(models.TextChoices):
        STDIO = "stdio", _("Program in the sandbox")
        HTTP = "http", "Streamable HTTP"
        SSE = "sse", _("HTTP with server-sent events")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="mcp_servers"
    )
    name = models.CharField(max_length=30)
    transport = models.CharField(
        max_length=5, choices=Transport.choices, default=Transport.STDIO
    )
    command = models.JSONField(default=list, help_text="Program and arguments.")
    url = models.CharField(max_length=500, blank=True)
    secret = models.TextField(
        blank=True,
        help_text="Environment or headers as JSON, encrypted. Write-only after saving.",
    )
    include_tools = models.JSONField(default=list, help_text="None: all of them.")
    exclude_tools = models.JSONField(default=list)
    connect_seconds = models.PositiveIntegerField(default=20)
    call_seconds = models.PositiveIntegerField(default=120)
    network = models.BooleanField(
        default=False, help_text="Whether its program reaches the network."
    )
    tried_at = models.DateTimeField(null=True)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    trusted = models.BooleanField(
        default=False, help_text="Tools that it calls read-only run without a question."
    )
    state = models.CharField(
        max_length=10, choices=State.choices, default=State.CONNECTING
    )
    reason = models.CharField(max_length=500, blank=True)
    instructions = models.TextField(blank=True)
    tools = models.JSONField(
        default=list, help_text="[{name, description, schema, read_only, idempotent}]"
    )
    digest = models.CharField(
        max_length=64, blank=True, help_text="Of instructions and tools together."
    )
    listed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                condition=Q(deleted_at=None),
                name="a_server_once_per_workspace",
            )
        ]

    def __str__(self) -> str:
        return self.name
