"""Texts that scripts show: they travel with the page, in its language."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from workspace.models import Workspace


def filters() -> list[tuple[str, str]]:
    """The list's filters, by value."""
    return [
        ("all", _("All")),
        ("mine", _("Mine")),
        ("unread", _("New")),
        ("running", _("Running")),
    ]


def pages(workspace: Workspace) -> list[tuple[str, str, list[Any]]]:
    """Label, URL name and arguments of the pages that the palette offers."""
    here = [workspace.slug]
    return [
        (_("Conversations"), "workspace:conversations", here),
        (_("Files"), "workspace:files", here),
        (_("Members"), "workspace:members", here),
        (_("Agents"), "agents:agents", here),
        (_("Endpoints"), "agents:endpoints", here),
        (_("Permissions"), "agents:permissions", here),
        (_("Workspace settings"), "workspace:settings", here),
        (_("Runs"), "observability:home", []),
        (_("Your account"), "workspace:account", []),
    ]


def chat() -> dict[str, str]:
    """What the chat page's script says."""
    return {
        "sending": _("Sending…"),
        "retrying": _("No connection. Trying again…"),
        "refused": _("Not sent: {reason}"),
        "tryAgain": _("Try again"),
        "discard": _("Discard"),
        "offline": _("Not connected. Trying again; nothing is lost."),
        "revoked": _("You can no longer see this conversation."),
        "jumpOne": _("1 new message"),
        "jumpMany": _("{count} new messages"),
        "jump": _("Jump to latest"),
        "typingOne": _("{name} is typing…"),
        "typingMany": _("{count} people are typing…"),
        "here": _("Here: {names}"),
        "working": _("Working… {time}"),
        "seconds": _("{n} s"),
        "thinking": _("Thinking"),
        "writing": _("The agent is writing"),
        "answered": _("The agent has answered."),
        "superseded": _(
            "The connection to the model broke off; it starts this part again."
        ),
        "copy": _("Copy"),
        "copied": _("Copied"),
        "linkCopied": _("Link copied"),
        "you": _("You"),
        "omitted": _("… earlier output left out …"),
        "running": _("running"),
        "waiting": _("waiting"),
        "needsYou": _("The agent needs your answer"),
        "failed": _("That did not work: {reason}"),
        "unreachable": _("The server does not answer."),
        "edit": _("Edit and send again"),
        "cancel": _("Cancel"),
        "send": _("Send"),
        "steer": _("Steer"),
        "queue": _("Queue"),
        "uploading": _("Uploading…"),
        "stillUploading": _("Wait until the files are uploaded, then send."),
        "pasted": _("Pasted text"),
        "asText": _("Put back as text"),
        "removeFile": _("Remove the file"),
        "loading": _("Loading earlier messages…"),
    }
