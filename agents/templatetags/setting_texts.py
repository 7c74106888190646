"""Values of settings as people read them."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.formats import number_format
from django.utils.text import Truncator
from django.utils.translation import gettext as _

register = template.Library()
LONGEST = 300  # characters of a value that a page shows


@register.filter
def as_value(value: Any) -> str:
    """Plain JSON in words: On, unset, an empty list, names with commas."""
    if value is None:
        return _("unset")
    if isinstance(value, bool):
        return _("On") if value else _("Off")
    if isinstance(value, list):
        text = ", ".join(value) or _("an empty list")
    elif isinstance(value, int):
        text = number_format(value, force_grouping=True)
    else:
        text = str(value)
    return str(Truncator(text).chars(LONGEST))


@register.filter
def signed(value: int) -> str:
    """With the language's separators and always with a sign: +1,200, −85, ±0."""
    sign = "+" if value > 0 else "−" if value < 0 else "±"
    return sign + str(number_format(abs(value), force_grouping=True))
