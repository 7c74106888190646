"""Numbers as people read them."""

from __future__ import annotations

from decimal import Decimal

from django import template
from django.utils.formats import number_format

from agents import gauge

register = template.Library()


@register.filter
def grouped(value: int | None) -> str:
    """With the language's thousands separators: 270,000. A dash for none."""
    return "–" if value is None else number_format(value, force_grouping=True)


@register.filter
def short(value: int) -> str:
    """Tokens in few characters: 840, 12.4k."""
    return gauge.short(value)


@register.filter
def money(value: Decimal | None) -> str:
    """US dollars."""
    return gauge.money(value)
