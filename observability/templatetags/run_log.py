"""How the run log writes figures and text."""

from __future__ import annotations

from decimal import Decimal

from django import template
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from observability import text
from workspace.sentences import in_ones_language

register = template.Library()
DASH = "–"


def number(value: float | Decimal, places: int) -> str:
    """Rounded; `number_format` alone would cut digits off."""
    return number_format(f"{value:.{places}f}", decimal_pos=places)


@register.filter
def visible(value: object) -> str:
    """Untrusted text with its hidden characters shown; Django escapes the result."""
    return text.visible(str(value))


@register.filter
def trigger(value: str) -> str:
    """What set a run going."""
    return {
        "message": _("Message"),
        "retry": _("Retry"),
        "queue": _("Queued message"),
        "compact": _("Compaction"),
        "delegation": _("Delegated task"),
    }.get(value, text.visible(value))


register.filter("in_ones_language", in_ones_language)


@register.filter
def tokens(value: int | None) -> str:
    """12,431 as 12.4k; a dash for nothing known."""
    if value is None:
        return DASH
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{number(value / size, 1)}{unit}"
    return str(value)


@register.filter
def percent(value: float | None) -> str:
    return DASH if value is None else f"{number(value * 100, 0)} %"


@register.filter
def money(value: Decimal | None) -> str:
    """US dollars, with as many digits as a small amount needs."""
    if value is None:
        return DASH
    return f"${number(value, 2 if value >= 1 else 4)}"


@register.filter
def seconds(value: float | None) -> str:
    """0.42 s, 12.3 s, 4 min 05 s, 2 h 03 min."""
    if value is None:
        return DASH
    if value < 10:
        return _("%(seconds)s s") % {"seconds": number(value, 2)}
    if value < 60:
        return _("%(seconds)s s") % {"seconds": number(value, 1)}
    minutes, rest = divmod(int(value), 60)
    if minutes < 60:
        return _("%(minutes)d min %(seconds)02d s") % {
            "minutes": minutes,
            "seconds": rest,
        }
    hours, minutes = divmod(minutes, 60)
    return _("%(hours)d h %(minutes)02d min") % {"hours": hours, "minutes": minutes}
