"""What pages of people ask: who may sign up, what a role may do."""

from __future__ import annotations

from django import template
from django.conf import settings

from workspace import browsers
from workspace.access import ABILITIES, at_least, membership
from workspace.models import Membership, User, Workspace

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


@register.simple_tag
def may_here(user: User, workspace: Workspace, ability: str) -> bool:
    """Whether the person's role in the workspace has the ability. One query."""
    return may(membership(user, workspace), ability)


@register.filter
def changeable_by(one: Membership, changer: Membership) -> bool:
    """Whether the changer may give this member another role, or remove them."""
    return may(changer, "manage_members") and at_least(changer.role, one.role)


@register.filter
def browser(user_agent: str) -> str:
    """A session's browser in words; one that is unknown says it itself, in short."""
    return browsers.in_words(user_agent) or user_agent[:60]


@register.simple_tag
def mail_is_set_up() -> bool:
    return bool(settings.EMAIL_HOST)
