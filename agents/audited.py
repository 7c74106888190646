"""What this app's changes are called in the audit log."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

TITLES = {
    "agent.made": _("Agent made"),
    "agent.changed": _("Agent changed"),
    "agent.deleted": _("Agent deleted"),
    "call.allowed": _("Call allowed"),
    "call.denied": _("Call denied"),
    "conversation.erased": _("Content erased"),
    "conversation.level": _("Approval level changed"),
    "conversation.mode": _("Mode of a conversation changed"),
    "conversation.model": _("Model of a conversation changed"),
    "endpoint.made": _("Endpoint made"),
    "endpoint.changed": _("Endpoint changed"),
    "endpoint.deleted": _("Endpoint deleted"),
    "conversation.reload": _("Rules of a conversation read anew"),
    "instructions.seen": _("Rules or skill looked at"),
    "memory.added": _("Note added"),
    "memory.changed": _("Note changed"),
    "memory.forgotten": _("Note forgotten"),
    "model.made": _("Model added"),
    "model.changed": _("Model changed"),
    "model.deleted": _("Model removed"),
    "model.default": _("Default model changed"),
    "permission.rules": _("Permission rules changed"),
    "policy.tools": _("Tool policy changed"),
    "server.made": _("Tool server added"),
    "server.disconnected": _("Tool server disconnected"),
    "server.deleted": _("Tool server removed"),
    "setting.changed": _("Setting changed"),
    "skill.made": _("Skill made"),
    "skill.changed": _("Skill changed"),
    "skill.deleted": _("Skill deleted"),
}
