"""Numbers as people read them."""

from __future__ import annotations

from django import template
from django.utils.formats import number_format

register = template.Library()


@register.filter
def grouped(value: int | None) -> str:
    """With the language's thousands separators: 270,000. A dash for none."""
    return "–" if value is None else number_format(value, force_grouping=True)
