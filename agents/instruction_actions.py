"""Every write that concerns rules and skills: seen marks, skills, reading anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents import runs
from agents.actions import agent_of
from agents.context.frontmatter import gate_of, line_of
from agents.context.rules import digest_of
from agents.context.skills import (
    LARGEST_BODY,
    LONGEST_DESCRIPTION,
    LONGEST_WHEN,
    NAME,
)
from agents.context.startup import startup_body, surface_body
from agents.context.surroundings import look_around
from agents.instructions import LONGEST_KEPT, texts_now
from agents.invoking import COMMANDS
from agents.models import Run, SeenInstruction, WorkspaceSkill
from agents.providers.wire import clean
from workspace import audit, transcript
from workspace.access import require
from workspace.actions import conversations
from workspace.errors import BadInput, Conflict, NotVisible
from workspace.models import Conversation, Entry, User, Workspace
from workspace.transcript import Draft

MOST_SKILLS = 500  # of one workspace


def mark_seen(*, by: User, workspace: Workspace, path: str, digest: str) -> None:
    """A member has looked at a rules file or skill; `digest` says as which text.

    Raises Conflict when it has changed again since.
    """
    require(by, workspace, "post")
    text = texts_now(workspace).get(path)
    if (digest_of(text) if text is not None else "") != digest:
        raise Conflict(
            _("%(path)s has changed again. Look at it anew.") % {"path": path[:300]}
        )
    with transaction.atomic():
        rows = SeenInstruction.objects.filter(workspace=workspace).exclude(path="")
        if text is None:
            rows.filter(path=path).delete()
        else:
            SeenInstruction.objects.update_or_create(
                workspace=workspace,
                path=path,
                defaults={
                    "digest": digest,
                    "text": text[:LONGEST_KEPT],
                    "seen_by": by,
                    "seen_at": timezone.now(),
                },
            )
        audit.record("instructions.seen", by=by, workspace=workspace, subject=path)


@dataclass(frozen=True, kw_only=True)
class SkillValues:
    """What a person enters about a skill; globs and tools one a line."""

    name: str
    description: str
    body: str
    when_to_use: str = ""
    paths: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()


def save_skill(
    *,
    by: User,
    workspace: Workspace,
    values: SkillValues,
    skill: WorkspaceSkill | None = None,
    version: str = "",
) -> WorkspaceSkill:
    """Store a new skill of the workspace, or change one.

    `version` is what the person saw of it: Conflict when it has changed since.
    """
    require(by, workspace, "manage_agents")
    if skill is not None and skill.workspace_id != workspace.pk:
        raise NotVisible
    values = _checked(values)
    if skill is None:
        return _made(by, workspace, values)
    with transaction.atomic():
        row = WorkspaceSkill.objects.select_for_update().filter(pk=skill.pk).first()
        if row is None or version_of(row) != version:
            raise Conflict(
                _("Somebody else has changed this skill meanwhile. Look at it anew.")
            )
        if row.name != values.name:
            raise BadInput(_("A skill keeps its name: files and people refer to it."))
        old = _told(row)
        _fill(row, by, values)
        row.save()
        _note("skill.changed", by, row, old)
    return row


def _made(by: User, workspace: Workspace, values: SkillValues) -> WorkspaceSkill:
    if workspace.skills.count() >= MOST_SKILLS:
        raise BadInput(
            _("A workspace has at most %(n)d skills of its own.") % {"n": MOST_SKILLS}
        )
    row = WorkspaceSkill(workspace=workspace, name=values.name)
    _fill(row, by, values)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            _note("skill.made", by, row, None)
    except IntegrityError:
        raise Conflict(
            _("There is a skill %(name)s already.") % {"name": values.name}
        ) from None
    return row


@transaction.atomic
def delete_skill(*, by: User, skill: WorkspaceSkill) -> None:
    """Remove a skill of the workspace. Conversations that have read it keep its text."""
    require(by, skill.workspace, "manage_agents")
    audit.record(
        "skill.deleted",
        by=by,
        workspace=skill.workspace,
        subject=skill.name,
        old=_told(skill),
    )
    skill.delete()


def version_of(skill: WorkspaceSkill) -> str:
    return skill.updated_at.isoformat()


def _fill(row: WorkspaceSkill, by: User, values: SkillValues) -> None:
    row.description, row.when_to_use = values.description, values.when_to_use
    row.paths, row.allowed_tools = list(values.paths), list(values.allowed_tools)
    row.body, row.updated_by, row.updated_at = values.body, by, timezone.now()


def _told(row: WorkspaceSkill) -> dict[str, Any]:
    names = ("description", "when_to_use", "paths", "allowed_tools")
    told = {name: getattr(row, name) for name in names}
    return told | {"text": f"{len(row.body)} characters, {digest_of(row.body)[:12]}"}


def _note(
    action: str, by: User, row: WorkspaceSkill, old: dict[str, Any] | None
) -> None:
    new = _told(row)
    if new != old:
        audit.record(
            action, by=by, workspace=row.workspace, subject=row.name, old=old, new=new
        )


def _checked(values: SkillValues) -> SkillValues:
    name = values.name.strip()
    if not NAME.fullmatch(name) or name in COMMANDS or name == "new":
        raise BadInput(
            _(
                "Name the skill with letters, digits, dot, dash and underscore, at most "
                "64, and not as a command of the chat, such as release-notes."
            )
        )
    described = line_of(clean(values.description), LONGEST_DESCRIPTION + 1)
    when = line_of(clean(values.when_to_use), LONGEST_WHEN + 1)
    body = clean(values.body).replace("\r\n", "\n").strip()
    if not described or len(described) > LONGEST_DESCRIPTION:
        raise BadInput(
            _("Describe the skill in 1 to %(n)d characters: agents choose by it.")
            % {"n": LONGEST_DESCRIPTION}
        )
    if len(when) > LONGEST_WHEN:
        raise BadInput(
            _("When to use it is at most %(n)d characters.") % {"n": LONGEST_WHEN}
        )
    if not body or len(body) > LARGEST_BODY:
        raise BadInput(
            _("The instructions have 1 to %(n)d characters.") % {"n": LARGEST_BODY}
        )
    gate = gate_of(list(values.paths))
    if gate.dropped:
        raise BadInput(
            _(
                "These paths cannot be used: %(paths)s. Write them from the workspace on."
            )
            % {"paths": ", ".join(gate.dropped)}
        )
    return SkillValues(
        name=name,
        description=described,
        body=body,
        when_to_use=when,
        paths=gate.globs,
        allowed_tools=tuple(clean(one)[:100] for one in values.allowed_tools[:50]),
    )


def read_anew(*, conversation: Conversation, by: User) -> bool:
    """Let a conversation begin its requests with the rules and tools of now.

    An admin's act, for it breaks the prompt cache. False when nothing is different.
    Raises Conflict while an agent is at work.
    """
    require(by, conversation.workspace, "manage_agents")
    _require_idle(conversation)
    agent = agent_of(conversation)
    around = look_around(conversation)  # reads files, so before the transaction
    startup = startup_body(conversation, around)
    surface = surface_body(agent, conversation)
    changed = _first_change(conversation, surface, startup)
    if not changed:
        return False
    # The first request that shows it is told with this cause.
    cause = {"cause": "policy" if changed == "tools" else "rules"}
    sealed = transcript.seal(
        conversation.pk,
        Draft(kind=Entry.Kind.SURFACE, body=surface | cause, author=by),
        Draft(kind=Entry.Kind.STARTUP, body=startup | cause, author=by),
    )
    with transaction.atomic():
        runs.lock_row(conversation.pk)
        _require_idle(conversation)
        entries = transcript.append(conversation.pk, *sealed)
        conversations.push_appended(conversation.pk, entries)
        audit.record(
            "conversation.reload",
            by=by,
            workspace=conversation.workspace,
            conversation=conversation,
        )
    return True


def _require_idle(conversation: Conversation) -> None:
    if Run.objects.filter(conversation=conversation, state__in=Run.OPEN).exists():
        raise Conflict(
            _("The agent is at work here. Stop it first, or wait until it is done.")
        )


def _first_change(
    conversation: Conversation, surface: dict[str, Any], startup: dict[str, Any]
) -> str:
    """The first part of a request that would be another one; "" when none would."""
    kinds = (Entry.Kind.SURFACE, Entry.Kind.STARTUP)
    rows = list(
        conversation.entries.filter(kind__in=kinds)
        .select_related("stored")
        .order_by("seq")
    )
    old = {row.kind: transcript.body(row) for row in rows}
    before, begun = old[Entry.Kind.SURFACE], old[Entry.Kind.STARTUP]
    if before.get("rendered") != surface["rendered"]:
        return "tools"
    if before.get("system") != surface["system"]:
        return "system"
    return "startup" if begun.get("text") != startup["text"] else ""
