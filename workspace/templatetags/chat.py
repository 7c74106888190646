"""What the chat page's templates ask: icons, Markdown, sizes and times in words."""

from __future__ import annotations

import zlib

from django import template
from django.templatetags.static import static
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from workspace import attachments
from workspace import markdown as md
from workspace.models import ApprovalLevel, Attachment, Turn, Workspace
from workspace.sentences import in_ones_language, is_stop
from workspace.thread import Card

register = template.Library()

#: The icon of a tool by the first part of its name that is known.
TOOL_ICONS = {
    "shell": "terminal",
    "execute_code": "code",
    "read_file": "file",
    "view_image": "image",
    "write_file": "edit",
    "edit_file": "edit",
    "list_dir": "files",
    "glob": "search",
    "grep": "search",
    "tool_search": "search",
    "ask_user": "question",
    "todo_write": "list",
    "git": "branch",
    "web": "globe",
    "delegate": "spark",
}


@register.simple_tag
def icon(name: str) -> SafeString:
    """A drawing beside a text or a label, which says what it means."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false">'
        '<use href="{}#{}"></use></svg>',
        static("img/icons.svg"),
        name,
    )


@register.filter
def about_file(row: Attachment) -> str:
    """What a line says of an attached file: its size in pixels or characters."""
    return attachments.about(row)


@register.filter
def in_characters(count: int) -> str:
    """How long an attached text is."""
    return attachments.in_characters(count)


@register.filter
def tool_icon(name: str) -> str:
    return next(
        (found for start, found in TOOL_ICONS.items() if name.startswith(start)),
        "settings",
    )


@register.filter
def markdown(text: str) -> SafeString:
    """Sanitised HTML."""
    return mark_safe(md.render(text))  # noqa: S308 - cleaned by nh3


@register.filter
def initials(name: str) -> str:
    """One or two letters that stand for a name."""
    words = name.split()
    if len(words) > 1 and words[0].isascii():
        return (words[0][:1] + words[1][:1]).upper()
    return name[:1].upper() or "?"


@register.filter
def hue(name: object) -> int:
    """One of eight colours, always the same for the same name."""
    return zlib.crc32(str(name).encode()) % 8


@register.filter
def duration(milliseconds: int | None) -> str:
    """0.2 s, 12 s, 3 min."""
    if milliseconds is None:
        return ""
    seconds = milliseconds / 1000
    if seconds < 10:
        return _("%(n)s s") % {"n": number_format(seconds, 1)}
    if seconds < 120:
        return _("%(n)s s") % {"n": number_format(seconds, 0)}
    return _("%(n)s min") % {"n": number_format(seconds / 60, 0)}


@register.filter
def result_size(card: Card) -> str:
    """How much came back, in the unit that fits."""
    if card.state in ("running", "waiting", "lost") or not card.output:
        return ""
    lines = card.meta.get("lines")
    count = lines if isinstance(lines, int) else card.lines - (card.exit is not None)
    if not count:
        return ""
    return ngettext("%(n)s line", "%(n)s lines", count) % {
        "n": number_format(count, force_grouping=True)
    }


@register.filter
def ending(turn: Turn) -> str:
    """In a few words, how a turn ended that did not end well."""
    if turn.state == Turn.State.FAILED:
        return _("This did not succeed.")
    if is_stop(turn.message):
        return in_ones_language(turn.message)
    return _("Stopped.")


@register.filter
def reason(turn: Turn) -> str:
    """What the turn's end adds to these words; empty if it is all said."""
    return "" if is_stop(turn.message) else in_ones_language(turn.message)


register.filter("in_ones_language", in_ones_language)


@register.filter
def is_pruned_skill(text: str) -> bool:
    """Whether a summary holds a pointer in place of a skill's body."""
    return text.startswith("[SKILL_PRUNED")


@register.filter
def outcome(card: Card) -> str:
    """What became of a call that somebody, or nobody, decided about."""
    return {
        "interrupted": _("stopped"),
        "not_run": _("not run"),
        "denied": _("not allowed"),
        "approval_expired": _("not approved in time"),
        "not_answered": _("not answered"),
    }.get(card.code, _("failed"))


@register.filter
def mode_label(value: str) -> str:
    """The name of a mode for people; a mode that is not known stands as it is."""
    return {
        "chat": _("Agent"),
        "plan": _("Plan"),
        "review": _("Review"),
        "orchestrate": _("Orchestrate"),
    }.get(value, value)


@register.filter
def level_label(value: str) -> str:
    """The name of an approval level, as the page's head shows it."""
    return {
        ApprovalLevel.PLAN.value: _("Plan only"),
        ApprovalLevel.ACCEPT.value: _("Accept edits"),
        ApprovalLevel.AUTO.value: _("Auto"),
    }.get(value, value)


@register.filter
def level_short(value: str) -> str:
    """The same where there is little room."""
    return {
        ApprovalLevel.PLAN.value: _("Plan"),
        ApprovalLevel.ACCEPT.value: _("Accept"),
        ApprovalLevel.AUTO.value: _("Auto"),
    }.get(value, value)


@register.filter
def level_help(value: str) -> str:
    """What an approval level lets happen without asking."""
    return {
        ApprovalLevel.PLAN.value: _("Plan only: the agent reads and changes nothing."),
        ApprovalLevel.ACCEPT.value: _(
            "Accept edits: it changes files and runs commands in the sandbox; it asks for "
            "the rest."
        ),
        ApprovalLevel.AUTO.value: _("Auto: it asks only before it changes settings."),
    }.get(value, value)


@register.simple_tag(takes_context=True)
def current_workspace(context: template.Context) -> Workspace | None:
    """The workspace of this page, or the person's first one."""
    found = context.get("workspace")
    if isinstance(found, Workspace):
        return found
    rail = context.get("rail") or []
    return rail[0] if rail else None


@register.filter
def marked(line: str) -> SafeString:
    """A line that `markdown.highlighted` made, and escaped."""
    return mark_safe(line)  # noqa: S308
