"""What is done to agents, endpoints, models and rules stands in the audit log."""

from __future__ import annotations

import json

from agents.audited import TITLES
from agents.endpoint_actions import (
    EndpointValues,
    ModelValues,
    delete_endpoint,
    save_endpoint,
    save_model,
    set_default_model,
)
from agents.models import Endpoint
from agents.settings_actions import AgentValues, save_agent, save_permissions
from workspace import audit
from workspace.models import Change

KEY = "sk-harbour-0123456789abcdef"


def noted(workspace) -> list[str]:
    return list(workspace.changes.order_by("pk").values_list("action", flat=True))


def test_an_agents_changes_are_noted_value_by_value(workspace, owner):
    first = AgentValues(name="scout", title="Scout")
    scout = save_agent(by=owner, workspace=workspace, values=first)
    later = AgentValues(name="scout", title="Scout", persona="You look.")
    save_agent(by=owner, workspace=workspace, values=later, agent=scout)
    save_agent(by=owner, workspace=workspace, values=later, agent=scout)
    assert noted(workspace)[-2:] == ["agent.made", "agent.changed"]
    change = Change.objects.latest("pk")
    assert (change.old, change.new) == ({"persona": ""}, {"persona": "You look."})


def test_an_endpoints_key_never_stands_in_the_log(workspace, owner):
    values = EndpointValues(
        name="Harbour",
        kind="chat_completions",
        base_url="https://h.example/v1",
        key=KEY,
    )
    endpoint = save_endpoint(by=owner, workspace=workspace, values=values)
    save_endpoint(by=owner, workspace=workspace, values=values, endpoint=endpoint)
    model = save_model(by=owner, endpoint=endpoint, values=ModelValues(name="m"))
    set_default_model(by=owner, workspace=workspace, model=None)
    set_default_model(by=owner, workspace=workspace, model=model)
    delete_endpoint(by=owner, endpoint=Endpoint.objects.get(pk=endpoint.pk))
    assert noted(workspace)[-6:] == [
        "endpoint.made",
        "endpoint.changed",  # the key was entered again
        "model.made",
        "model.default",
        "model.default",
        "endpoint.deleted",
    ]
    told = json.dumps(list(workspace.changes.values_list("old", "new")))
    assert KEY not in told
    assert '"key": true' in told


def test_rules_are_noted_with_those_before(workspace, owner):
    save_permissions(by=owner, workspace=workspace, deny=["shell"])
    save_permissions(by=owner, workspace=workspace, deny=["shell"])
    assert noted(workspace).count("permission.rules") == 1
    change = Change.objects.latest("pk")
    assert (change.old, change.new) == ({"deny": []}, {"deny": ["shell"]})


def test_every_action_of_this_app_has_a_title():
    assert {audit.title_of(action) for action in TITLES} == {*map(str, TITLES.values())}
