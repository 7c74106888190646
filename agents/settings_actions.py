"""Every write to agents and to a workspace's permission rules."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext as _

from agents import permissions
from agents.endpoint_actions import one_line
from agents.endpoints import offered_models
from agents.models import Agent, LanguageModel
from agents.seeding import DEFAULT_AGENT
from workspace import audit
from workspace.access import require
from workspace.errors import BadInput, Conflict, NotVisible
from workspace.models import User, Workspace

logger = logging.getLogger(__name__)

EFFORTS = ("", "low", "medium", "high")
LONGEST_PERSONA = 100_000  # characters
MOST_RULES = 500


@dataclass(frozen=True, kw_only=True)
class AgentValues:
    """What a person enters about an agent; no model means the default one."""

    name: str
    title: str
    description: str = ""
    persona: str = ""
    language_model: LanguageModel | None = None
    effort: str = ""
    max_rounds: int = 500
    max_seconds: int = 6 * 3600
    max_tokens: int | None = None


def save_agent(
    *, by: User, workspace: Workspace, values: AgentValues, agent: Agent | None = None
) -> Agent:
    """Store a new agent, or change one. It takes effect with an agent's next run."""
    require(by, workspace, "manage_agents")
    values = _checked_agent(values)
    saved = agent or Agent(workspace=workspace)
    if saved.workspace_id != workspace.pk or saved.deleted_at:
        raise NotVisible
    if agent and agent.name != values.name:
        raise BadInput(
            _("An agent keeps its name: conversations and addresses refer to it.")
        )
    if values.language_model and not _is_offered(values.language_model, workspace):
        raise BadInput(_("Choose a model that this workspace can use."))
    old = _told(saved) if agent else None
    for name in AgentValues.__dataclass_fields__:
        setattr(saved, name, getattr(values, name))
    new = _told(saved)
    with transaction.atomic():
        same = workspace.agents.filter(name=saved.name).exclude(pk=saved.pk)
        if same.exists():
            raise Conflict(
                _("There is or was an agent named %(name)s. Choose another name.")
                % {"name": saved.name}
            )
        saved.save()
        if new != old:
            audit.record(
                "agent.changed" if agent else "agent.made",
                by=by,
                workspace=workspace,
                subject=saved.name,
                old=old,
                new=new,
            )
    logger.info("Agent %s saved by user %s", saved.pk, by.pk)
    return saved


def _told(agent: Agent) -> dict[str, str | int | None]:
    """An agent as the audit log has it: every value, the model by its name."""
    return {
        name: str(value) if isinstance(value, LanguageModel) else value
        for name in AgentValues.__dataclass_fields__
        for value in [getattr(agent, name)]
    }


def _checked_agent(values: AgentValues) -> AgentValues:
    name = values.name.strip()
    if not name or slugify(name) != name or len(name) > 60:
        raise BadInput(
            _(
                "Write the agent's name in small letters, digits and hyphens, such as "
                "code-reviewer."
            )
        )
    if name == "new":
        raise BadInput(_("Choose another name: “new” is the address of this page."))
    one_line(values.title, _("title"), 80)
    if len(values.description) > 300:
        raise BadInput(_("The description is longer than 300 characters."))
    if len(values.persona) > LONGEST_PERSONA:
        raise BadInput(_("The persona is longer than 100,000 characters."))
    if values.effort not in EFFORTS:
        raise BadInput(_("The effort is low, medium, high or empty."))
    _between(values.max_rounds, 1, 10_000, _("Rounds"))
    _between(values.max_seconds, 10, 7 * 86_400, _("Seconds"))
    if values.max_tokens is not None:
        _between(values.max_tokens, 1_000, 10**12, _("Tokens"))
    return values


def _is_offered(model: LanguageModel, workspace: Workspace) -> bool:
    return offered_models(workspace).filter(pk=model.pk).exists()


@transaction.atomic
def delete_agent(*, by: User, agent: Agent) -> None:
    """Hide an agent. Its runs and conversations stay."""
    require(by, agent.workspace, "manage_agents")
    if agent.name == DEFAULT_AGENT:
        raise BadInput(_("The assistant stays: new conversations start with it."))
    agent.deleted_at = timezone.now()
    agent.save(update_fields=["deleted_at"])
    audit.record("agent.deleted", by=by, workspace=agent.workspace, subject=agent.name)
    logger.info("Agent %s deleted by user %s", agent.pk, by.pk)


def save_permissions(
    *,
    by: User,
    workspace: Workspace,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> Workspace:
    """Replace the workspace's permission rules. They hold from the next call on."""
    require(by, workspace, "manage_permissions")
    rules = {
        "allow": _checked_rules(allow),
        "ask": _checked_rules(ask),
        "deny": _checked_rules(deny),
    }
    if sum(map(len, rules.values())) > MOST_RULES:
        raise BadInput(_("That is more than 500 rules. Use wider ones."))
    with transaction.atomic():
        fresh = Workspace.objects.select_for_update().get(pk=workspace.pk)
        old = {name: fresh.permission_rules.get(name, []) for name in rules}
        workspace.permission_rules = rules
        workspace.save(update_fields=["permission_rules"])
        if old != rules:
            audit.record(
                "permission.rules", by=by, workspace=workspace, old=old, new=rules
            )
    logger.info("Permissions of %s saved by user %s", workspace.pk, by.pk)
    return workspace


def _checked_rules(texts: Iterable[str]) -> list[str]:
    """Each rule once, in the order written; raises BadInput for what is none."""
    rules = [permissions.parse_rule(text) for text in texts if text.strip()]
    for rule in rules:
        if rule.tool == "shell":
            _refuse_unclosed(rule)
    return list(dict.fromkeys(rule.text for rule in rules))


def _refuse_unclosed(rule: permissions.Rule) -> None:
    try:
        shlex.split(rule.specifier)
    except ValueError:
        raise BadInput(
            _("The rule %(rule)s has a quotation mark that is never closed.")
            % {"rule": repr(rule.text)}
        ) from None


def _between(value: int, least: int, most: int, what: str) -> None:
    if not least <= value <= most:
        raise BadInput(
            _("%(what)s: enter a number from %(least)s to %(most)s.")
            % {"what": what, "least": f"{least:,}", "most": f"{most:,}"}
        )
