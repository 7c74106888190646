"""Model services and what they offer."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone

from workspace.models import User, Workspace


class Endpoint(models.Model):
    """A configured model API; without a workspace it serves the whole server."""

    class Kind(models.TextChoices):
        CHAT_COMPLETIONS = "chat_completions", "OpenAI-compatible (Chat Completions)"
        ANTHROPIC = "anthropic", "Anthropic (Messages)"
        SIMULATOR = "simulator", "Built-in simulator"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, null=True, on_delete=models.PROTECT, related_name="endpoints"
    )
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    base_url = models.CharField(max_length=300, blank=True)
    secret = models.TextField(
        blank=True, help_text="The API key, encrypted. Write-only after saving."
    )
    allow_private = models.BooleanField(
        default=False, help_text="Server staff vouch for this private address."
    )
    caches_prompts = models.BooleanField(default=True)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class LanguageModel(models.Model):
    """A model that an endpoint offers, with its limits (tokens) and prices."""

    class Vision(models.TextChoices):
        YES = "yes", "Yes"
        NO = "no", "No"
        UNKNOWN = "unknown", "Unknown"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.CASCADE, related_name="language_models"
    )
    name = models.CharField(max_length=160)
    window = models.PositiveIntegerField(default=128_000)
    max_output = models.PositiveIntegerField(default=16_000)
    vision = models.CharField(
        max_length=7, choices=Vision.choices, default=Vision.UNKNOWN
    )
    encoding = models.CharField(max_length=20, default="o200k_base")
    price_input = models.DecimalField(
        max_digits=12, decimal_places=6, null=True, blank=True
    )
    price_cache_read = models.DecimalField(
        max_digits=12, decimal_places=6, null=True, blank=True
    )
    price_cache_write = models.DecimalField(
        max_digits=12, decimal_places=6, null=True, blank=True
    )
    price_output = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text="Prices are US dollars per million tokens; empty means unknown.",
    )
    is_default = models.BooleanField(default=False)
    calibration = models.FloatField(
        default=1.0,
        editable=False,
        help_text="Tokens that the service reports for each that we count.",
    )
    calibrated_calls = models.PositiveIntegerField(
        default=0, editable=False, help_text="Calls that it was learned from."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "name"], name="a_model_once_per_endpoint"
            )
        ]

    def __str__(self) -> str:
        return self.name
