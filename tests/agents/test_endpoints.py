"""Which model answers, and how far its endpoint may reach."""

import pytest
from cryptography.fernet import Fernet

from agents import seeding
from agents.endpoint_actions import (
    EndpointValues,
    ModelValues,
    delete_endpoint,
    save_endpoint,
    save_model,
    set_default_model,
)
from agents.endpoints import choose, config_of, offered_models, policy_of
from agents.errors import ProviderAuthFailed, ProviderRejected
from agents.models import Agent, Endpoint, LanguageModel
from workspace.models import Conversation

CANARY = "canary-Kx9-do-not-show-0815"


@pytest.fixture
def agent(workspace):
    return seeding.seed_workspace(workspace)


@pytest.fixture
def conversation(workspace, member):
    return Conversation.objects.create(workspace=workspace, created_by=member)


@pytest.fixture
def offer(owner, workspace):
    """Adds an endpoint with one model; returns the model."""

    def add(name, *, server=False, where=workspace, endpoint_name=""):
        scope = None if server else where
        endpoint = save_endpoint(
            by=owner,
            workspace=scope,
            values=EndpointValues(
                name=endpoint_name or f"Service of {name}",
                kind="chat_completions",
                base_url="https://models.example/v1",
                key=CANARY,
            ),
        )
        return save_model(by=owner, endpoint=endpoint, values=ModelValues(name=name))

    return add


def test_without_any_model_service_the_simulator_answers(agent, conversation, settings):
    settings.SIMULATOR_URL = "http://127.0.0.1:4711/simulator"
    choice = choose(conversation, agent)
    assert choice.endpoint.kind == Endpoint.Kind.SIMULATOR
    assert (choice.language_model.window, choice.language_model.max_output) == (
        270_000,
        20_000,
    )
    config = config_of(choice.endpoint)
    assert config.base_url == "http://127.0.0.1:4711/simulator/v1"
    assert config.policy.allow_private


def test_the_more_particular_choice_goes_first(agent, conversation, offer, owner):
    def chosen():
        return choose(conversation, agent).language_model.name

    offer("of-the-server", server=True)
    assert chosen() == "of-the-server"
    offer("of-the-workspace")
    assert chosen() == "of-the-workspace"
    agent.language_model = offer("of-the-agent")
    assert chosen() == "of-the-agent"
    offer("of-the-conversation")
    conversation.model_name = "of-the-conversation"
    assert chosen() == "of-the-conversation"


def test_choosing_takes_one_query(
    agent, conversation, offer, django_assert_num_queries
):
    offer("mine")
    with django_assert_num_queries(1):
        choose(conversation, agent)


def test_equal_choices_share_one_provider_and_its_connections(
    agent, conversation, offer
):
    offer("mine")
    first, second = choose(conversation, agent), choose(conversation, agent)
    assert first.provider is second.provider


def test_of_two_models_with_one_name_the_workspaces_own_answers(
    agent, conversation, offer, workspace
):
    offer("twin", server=True)
    offer("twin")
    conversation.model_name = "twin"
    assert choose(conversation, agent).endpoint.workspace == workspace


def test_a_named_model_that_is_gone_is_not_silently_replaced(
    agent, conversation, offer
):
    offer("still-here")
    conversation.model_name = "gone-model"
    with pytest.raises(ProviderRejected, match="'gone-model'.*Choose another"):
        choose(conversation, agent)


def test_nothing_to_answer_with_says_where_to_add_a_model(
    agent, conversation, settings
):
    settings.SIMULATOR = False
    with pytest.raises(ProviderRejected, match="Endpoints"):
        choose(conversation, agent)


def test_models_of_a_foreign_workspace_are_out_of_reach(
    agent, conversation, offer, outsider, workspace
):
    foreign = outsider.memberships.get().workspace
    theirs = LanguageModel.objects.create(
        endpoint=Endpoint.objects.create(
            workspace=foreign, name="Theirs", kind="chat_completions"
        ),
        name="theirs",
        is_default=True,
    )
    Agent.objects.filter(pk=agent.pk).update(language_model=theirs)
    agent.refresh_from_db()
    assert choose(conversation, agent).endpoint.kind == Endpoint.Kind.SIMULATOR
    assert theirs not in offered_models(workspace)
    conversation.model_name = "theirs"
    with pytest.raises(ProviderRejected):
        choose(conversation, agent)


def test_a_deleted_endpoint_no_longer_answers(agent, conversation, offer, owner):
    model = offer("short-lived")
    delete_endpoint(by=owner, endpoint=model.endpoint)
    assert choose(conversation, agent).endpoint.kind == Endpoint.Kind.SIMULATOR


def test_the_workspace_may_leave_the_choice_to_the_server(
    agent, conversation, offer, owner, workspace
):
    offer("of-the-server", server=True)
    offer("of-the-workspace")
    set_default_model(by=owner, workspace=workspace, model=None)
    assert choose(conversation, agent).language_model.name == "of-the-server"


def test_a_stored_key_that_cannot_be_read_fails_with_the_endpoints_name(
    agent, conversation, offer, settings
):
    offer("mine")
    settings.FERNET_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(
        ProviderAuthFailed, match="Service of mine.*enter the key again"
    ):
        choose(conversation, agent)


def test_neither_choice_nor_configuration_shows_the_key(agent, conversation, offer):
    offer("mine")
    choice = choose(conversation, agent)
    config = config_of(choice.endpoint)
    assert config.api_key == CANARY
    for shown in (choice, config, choice.endpoint, choice.language_model):
        assert CANARY not in repr(shown) + str(shown)
        assert CANARY not in repr(vars(choice.endpoint))


def test_only_vouched_for_endpoints_and_listed_hosts_reach_private_addresses(
    offer, settings
):
    endpoint = offer("mine").endpoint
    settings.ALLOWED_PRIVATE_HOSTS = ["gpu.lan:8080"]
    assert not policy_of(endpoint).allow_private
    assert policy_of(endpoint).lists("gpu.lan", 8080)
    assert not policy_of(endpoint).lists("gpu.lan", 22)
    endpoint.allow_private = True
    assert policy_of(endpoint).allow_private


def test_seeding_twice_leaves_one_agent_and_one_simulator(workspace, outsider):
    first = seeding.seed_workspace(workspace)
    assert seeding.seed_workspace(workspace) == first
    seeding.seed_workspace(outsider.memberships.get().workspace)
    assert Endpoint.objects.filter(kind=Endpoint.Kind.SIMULATOR).count() == 1
    assert Agent.objects.count() == 2
