"""How Insights writes numbers that a machine reads."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _

from agents.context.report import CATEGORIES

register = template.Library()


@register.filter
def plain(value: float) -> str:
    """Without the language's separators: a coordinate."""
    return f"{value:g}"


@register.filter
def category(key: str) -> str:
    """The category of a request by its key; what changed without moving a token."""
    title = CATEGORIES.get(key)
    return _(title) if title else _("Same size, other words")
