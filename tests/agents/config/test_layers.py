"""The layers: what wins, what joins, and where each value comes from."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from hypothesis import given
from hypothesis import strategies as st

from agents.actions import start_conversation
from agents.config.layers import effective, environment, merge, thawed
from agents.config.schema import Settings, keys
from agents.models import Setting
from agents.seeding import seed_workspace
from workspace.errors import BadInput

ORIGINS = ("server", "environment", "workspace", "agent", "conversation")
names = st.lists(st.sampled_from(["shell", "grep", "git_log"]), unique=True)
SAMPLES = {
    "flag": st.booleans(),
    "number": st.integers(1_000, 10**6),
    "number or word": st.just("auto") | st.integers(1, 99),
    "names": names,
    "text": st.text("abc ", min_size=1),
}


def sample(key):
    if key.kind == "choice":
        return st.sampled_from(key.choices)
    return SAMPLES[key.kind]


layer = st.fixed_dictionaries(
    {}, optional={name: sample(key) for name, key in keys().items()}
)
layers = st.tuples(*[layer] * len(ORIGINS)).map(
    lambda found: list(zip(ORIGINS, found, strict=True))
)


@given(layers)
def test_the_highest_layer_that_sets_a_value_wins_and_is_its_origin(given):
    found = merge(given)
    for name, key in keys().items():
        setting = [(origin, values[name]) for origin, values in given if name in values]
        value = found[name]
        assert value.origin == (setting[-1][0] if setting else "built-in")
        assert value.set_by == dict(setting)
        if not setting:
            assert value.value == key.default
        elif key.about.merge == "replace":
            assert value.value == setting[-1][1]


@given(layers)
def test_a_union_holds_what_any_layer_names_once_in_the_order_of_the_layers(given):
    for name in ("tools.visible", "tools.disabled"):
        every = [one for _origin, values in given for one in values.get(name, [])]
        assert merge(given)[name].value == list(dict.fromkeys(every))


@given(layers, st.integers(0, len(ORIGINS)))
def test_a_layer_that_sets_nothing_changes_nothing(given, place):
    empty = [*given[:place], ("agent", {}), *given[place:]]
    assert merge(empty) == merge(given)


@given(layers)
def test_values_are_those_of_the_typed_tree(given):
    found = merge(given)
    tree = found.settings.model_dump(by_alias=True)
    for name, value in found.values.items():
        place = tree
        for step in name.split("."):
            place = place[step]
        assert place == value.value


@given(layers)
def test_what_a_conversation_keeps_comes_back_as_it_was(given):
    found = merge(given)
    kept = thawed(found.frozen())
    for name in found.frozen():
        own = found.settings.tools
        back = kept.tools
        assert own.model_dump(include={"eager"}) == back.model_dump(include={"eager"})
        assert name.startswith(("tools.", "mcp."))
    assert kept.tools.visible == found.settings.tools.visible
    assert kept.tools.index_budget == found.settings.tools.index_budget


def test_unset_is_not_the_empty_list():
    assert merge([])["tools.eager"].value is None
    found = merge([("workspace", {"tools.eager": []})])["tools.eager"]
    assert (found.value, found.origin) == ([], "workspace")
    unset = merge([("server", {"tools.eager": ["shell"]}), ("agent", {})])
    assert unset["tools.eager"].value == ["shell"]


def test_an_empty_list_above_a_full_one_replaces_it_but_joins_a_union():
    given = [
        ("server", {"tools.eager": ["shell"], "tools.visible": ["git_log"]}),
        ("workspace", {"tools.eager": [], "tools.visible": []}),
    ]
    found = merge(given)
    assert found["tools.eager"].value == []
    assert found["tools.visible"].value == ["git_log"]


def test_nothing_set_is_what_the_product_ships():
    assert merge([]).settings == Settings()


def test_the_values_of_a_conversation_that_a_release_does_not_know_are_left_out():
    kept = thawed(
        {"tools.gone": 1, "tools.indexBudget": "many", "tools.deferred": False}
    )
    assert kept.tools.deferred is False
    assert kept.tools.index_budget == 250


@pytest.fixture
def conversation(workspace, owner):
    return start_conversation(workspace=workspace, author=owner)


def put(value, **place):
    layer = next(iter(place), "server")
    return Setting.objects.create(
        layer=layer, key="tools.indexBudget", value=value, **place
    )


def test_each_layer_hides_those_below_it(
    conversation, workspace, settings, django_assert_num_queries
):
    agent = workspace.agents.get()
    with django_assert_num_queries(1):
        assert effective(conversation)["tools.indexBudget"].origin == "built-in"
    put(1)
    assert effective(conversation)["tools.indexBudget"].value == 1
    settings.SERVER_SETTINGS = '{"tools": {"indexBudget": 2}}'
    assert effective(None)["tools.indexBudget"].origin == "environment"
    put(3, workspace=workspace)
    put(4, agent=agent)
    put(5, conversation=conversation)
    with django_assert_num_queries(1):
        found = effective(conversation)["tools.indexBudget"]
    assert dict(found.set_by) == {
        "server": 1,
        "environment": 2,
        "workspace": 3,
        "agent": 4,
        "conversation": 5,
    }
    seen = [effective(scope)["tools.indexBudget"] for scope in (agent, workspace, None)]
    assert [(one.value, one.origin) for one in seen] == [
        (4, "agent"),
        (3, "workspace"),
        (2, "environment"),
    ]


def test_another_workspace_and_another_agent_are_not_heard(
    conversation, workspace, owner, outsider
):
    elsewhere = outsider.memberships.get().workspace
    put(3, workspace=elsewhere)
    seed_workspace(elsewhere)
    put(4, agent=elsewhere.agents.get())
    put(5, conversation=start_conversation(workspace=workspace, author=owner))
    assert effective(conversation)["tools.indexBudget"].origin == "built-in"


def test_a_stored_value_that_cannot_be_used_is_logged_and_left_out(workspace, caplog):
    put("many", workspace=workspace)
    Setting.objects.create(
        layer="workspace", workspace=workspace, key="tools.gone", value=1
    )
    assert effective(workspace).settings == Settings()
    assert "tools.gone cannot be used" in caplog.text
    assert "tools.indexBudget cannot be used" in caplog.text


def test_the_switch_of_the_server_stands_above_every_layer(workspace, settings):
    Setting.objects.create(
        layer="workspace", workspace=workspace, key="tools.deferred", value=True
    )
    settings.TOOL_DEFERRAL = False
    found = effective(workspace)["tools.deferred"]
    assert (found.value, found.origin, found.is_locked) == (
        False,
        "server switch",
        True,
    )


def test_the_operators_file_is_a_value_of_the_server(workspace, settings, tmp_path):
    file = tmp_path / "prompt.md"
    file.write_text("You are terse.\n")
    settings.SYSTEM_PROMPT_FILE = str(file)
    assert effective(workspace).settings.agent.system_prompt == "You are terse."


def test_an_environment_that_cannot_be_used_names_the_setting(settings):
    settings.SERVER_SETTINGS = '{"tools.eagr": []}'
    with pytest.raises(BadInput, match=r"Did you mean tools\.eager"):
        environment()


@pytest.mark.parametrize("layer", ["server", "workspace", "agent", "conversation"])
def test_a_layer_holds_a_setting_once(conversation, workspace, layer):
    owners = {
        "server": {},
        "workspace": {"workspace": workspace},
        "agent": {"agent": workspace.agents.get()},
        "conversation": {"conversation": conversation},
    }
    put(1, **owners[layer])
    with pytest.raises(IntegrityError), transaction.atomic():
        put(2, **owners[layer])


def test_a_setting_belongs_to_the_layer_that_it_names(workspace):
    with pytest.raises(IntegrityError), transaction.atomic():
        Setting.objects.create(layer="workspace", key="tools.deferred", value=True)
