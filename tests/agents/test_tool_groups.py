"""A switch per group of tools, with what it costs."""

from __future__ import annotations

import pytest
from django.urls import reverse

from agents.config_actions import own_values, save_settings
from agents.group_views import switches
from workspace.models import Change

pytestmark = pytest.mark.django_db


@pytest.fixture
def address(workspace):
    return reverse("agents:tool_groups", args=[workspace.slug])


def test_a_group_is_switched_off_and_on_again_with_its_effect_told(
    client, owner, workspace, address
):
    client.force_login(owner)
    before = {one.group: one for one in client.get(address).context["switches"]}
    assert before["execution"].change < 0
    client.post(address, {"group": "execution", "do": "off", "seen": "null"})
    assert own_values(workspace)["tools.disabled"] == ["group:execution"]
    off = {one.group: one for one in client.get(address).context["switches"]}
    assert off["execution"].is_off
    assert off["execution"].change == -before["execution"].change
    seen = client.get(address).context["seen"]
    client.post(address, {"group": "execution", "do": "on", "seen": seen})
    assert own_values(workspace)["tools.disabled"] == []
    assert Change.objects.filter(action="setting.changed").count() == 2


def test_a_switch_leaves_the_other_names_of_the_list(client, owner, workspace, address):
    save_settings(by=owner, scope=workspace, values={"tools.disabled": ["list_dir"]})
    client.force_login(owner)
    client.post(address, {"group": "git", "do": "off", "seen": '["list_dir"]'})
    assert own_values(workspace)["tools.disabled"] == ["list_dir", "group:git"]


def test_of_two_admins_at_once_the_second_is_told(client, owner, workspace, address):
    client.force_login(owner)
    client.post(address, {"group": "git", "do": "off", "seen": "null"})
    late = client.post(address, {"group": "files", "do": "off", "seen": "null"})
    assert late.status_code in (400, 409)
    assert own_values(workspace)["tools.disabled"] == ["group:git"]


@pytest.mark.parametrize("seen", ["{", '"x"', "[1]"])
def test_what_is_no_list_is_refused(client, owner, workspace, address, seen):
    client.force_login(owner)
    answer = client.post(address, {"group": "git", "do": "off", "seen": seen})
    assert answer.status_code == 400
    assert "tools.disabled" not in own_values(workspace)


def test_a_group_that_is_off_below_cannot_be_switched_on_here(workspace):
    save_settings(by=None, scope=None, values={"tools.disabled": ["group:git"]})
    [git] = [one for one in switches(workspace, []) if one.group == "git"]
    assert git.is_off
    assert git.is_fixed


def test_only_admins_turn_switches(client, member, outsider, workspace, address):
    for person, status in ((member, 403), (outsider, 404)):
        client.force_login(person)
        answer = client.post(address, {"group": "git", "do": "off", "seen": "null"})
        assert answer.status_code == status
