"""What pages of people ask: who may sign up, what a role may do."""

from __future__ import annotations

from django import template
from django.conf import settings

from workspace.access import ABILITIES, at_least
from workspace.models import Membership

register = template.Library()


@register.simple_tag
def sign_up_is_open() -> bool:
    return bool(settings.SIGN_UP == "open")


@register.filter
def may(member: Membership | None, ability: str) -> bool:
    """Whether the role of this membership has the ability."""
    return member is not None and any(
        name == ability and at_least(member.role, role)
        for name, role in ABILITIES.items()
    )
