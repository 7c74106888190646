"""What a workspace must have before somebody can talk in it."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from agents.models import Agent, Endpoint, LanguageModel
from workspace.models import Workspace
from workspace.prepared import Select, given

DEFAULT_AGENT = "assistant"
SIMULATED_MODEL = "simulator"
SIMULATED_WINDOW = 270_000  # tokens
SIMULATED_OUTPUT = 20_000  # tokens


_AGENT = Select[Agent](
    lambda: Agent.objects.filter(
        workspace=given("workspace", Agent, "workspace"), name=DEFAULT_AGENT
    )
)


def seed_workspace(workspace: Workspace) -> Agent:
    """The workspace's default agent, made with the server's simulator if missing.

    Safe to call again and from several processes; one query when all is there.
    """
    agent = _AGENT.first(workspace=workspace.pk)
    if agent is None:
        seed_simulator()
        agent, _created = Agent.objects.get_or_create(
            workspace=workspace,
            name=DEFAULT_AGENT,
            defaults={
                "title": _("Assistant"),
                "description": _("Reads and writes this workspace's files."),
            },
        )
    return agent


@transaction.atomic
def seed_simulator() -> LanguageModel:
    """The one server-wide model that answers without any model service."""
    endpoint = Endpoint.objects.filter(
        kind=Endpoint.Kind.SIMULATOR, workspace=None, deleted_at=None
    ).first() or Endpoint.objects.create(
        kind=Endpoint.Kind.SIMULATOR, name=_("Simulator")
    )
    model, _created = LanguageModel.objects.get_or_create(
        endpoint=endpoint,
        name=SIMULATED_MODEL,
        defaults={
            "window": SIMULATED_WINDOW,
            "max_output": SIMULATED_OUTPUT,
            "vision": LanguageModel.Vision.YES,
        },
    )
    return model
