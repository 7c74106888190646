"""Endpoints, models, agents and permissions: who may, what is refused, what is safe."""

from decimal import Decimal

import pytest

from agents.endpoint_actions import (
    EndpointValues,
    ModelValues,
    delete_endpoint,
    delete_model,
    save_endpoint,
    save_model,
    set_default_model,
    try_endpoint,
)
from agents.models import Agent, Endpoint, LanguageModel
from agents.providers.registry import EndpointCheck
from agents.secrets import decrypt
from agents.seeding import seed_simulator, seed_workspace
from agents.settings_actions import (
    AgentValues,
    delete_agent,
    save_agent,
    save_permissions,
)
from workspace.errors import BadInput, Conflict, NotAllowed, NotVisible

CANARY = "canary-Wp3-do-not-show-1701"
URL = "https://models.example/v1"


def values(**changed):
    return EndpointValues(
        **{"name": "Service", "kind": "chat_completions", "base_url": URL} | changed
    )


@pytest.fixture
def saved(admin, workspace):
    """An admin's endpoint with a key."""
    return save_endpoint(by=admin, workspace=workspace, values=values(key=CANARY))


def test_a_key_is_stored_encrypted_and_an_empty_one_keeps_it(saved, admin, workspace):
    assert CANARY not in saved.secret
    save_endpoint(
        by=admin, workspace=workspace, values=values(name="Renamed"), endpoint=saved
    )
    saved.refresh_from_db()
    assert (saved.name, decrypt(saved.secret)) == ("Renamed", CANARY)


def test_a_key_can_be_replaced_and_forgotten(saved, admin, workspace):
    def save(**changed):
        return save_endpoint(
            by=admin, workspace=workspace, values=values(**changed), endpoint=saved
        )

    assert decrypt(save(key="another-key-12345").secret) == "another-key-12345"
    assert save(drop_key=True).secret == ""


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/v1",
        "http://models.example/v1",
        "https://models.example:8443/v1",
        "https://models.example.evil.example/v1",
    ],
)
def test_a_stored_key_never_follows_the_endpoint_to_another_server(
    saved, admin, workspace, elsewhere
):
    with pytest.raises(BadInput, match="Enter the key again"):
        save_endpoint(
            by=admin,
            workspace=workspace,
            values=values(base_url=elsewhere),
            endpoint=saved,
        )
    saved.refresh_from_db()
    assert saved.base_url == URL


def test_another_path_on_the_same_server_keeps_the_key(saved, admin, workspace):
    save_endpoint(
        by=admin,
        workspace=workspace,
        values=values(base_url="https://models.example/openai/v1"),
        endpoint=saved,
    )
    assert decrypt(saved.secret) == CANARY


@pytest.mark.parametrize(
    ("pasted", "stored"),
    [
        (" https://models.example/v1/ ", URL),
        ("https://models.example/v1/chat/completions", URL),
        ("https://models.example/v1/messages", URL),
        ("https://models.example/v1/models/", URL),
    ],
)
def test_the_address_is_stored_as_far_as_the_base(admin, workspace, pasted, stored):
    made = save_endpoint(by=admin, workspace=workspace, values=values(base_url=pasted))
    assert made.base_url == stored


@pytest.mark.parametrize(
    "url",
    [
        "",
        "models.example/v1",
        "ftp://models.example/v1",
        "file:///etc/passwd",
        "https://user:pass@models.example/v1",
        "https://models.example/v1?key=1",
        "https://models.example/v1#x",
        "https://[::1/v1",
        "https:///v1",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_a_sentence(
    admin, workspace, url
):
    with pytest.raises(BadInput) as caught:
        save_endpoint(by=admin, workspace=workspace, values=values(base_url=url))
    assert caught.value.message.endswith(".")
    assert not Endpoint.objects.exists()


PRIVATE = [
    "http://127.0.0.1:8080/v1",
    "http://localhost:8080/v1",
    "http://10.0.0.7/v1",
    "http://[::1]:8080/v1",
    "http://[::ffff:127.0.0.1]/v1",
    "http://169.254.169.254/v1",
]


@pytest.mark.parametrize("url", PRIVATE)
def test_an_admin_cannot_point_an_endpoint_into_the_servers_network(
    admin, workspace, url
):
    for wish in (False, True):
        with pytest.raises(BadInput, match="Server staff"):
            save_endpoint(
                by=admin,
                workspace=workspace,
                values=values(base_url=url, allow_private=wish),
            )


def test_server_staff_vouch_for_a_private_address_but_not_for_machine_credentials(
    owner, workspace
):
    made = save_endpoint(
        by=owner,
        workspace=workspace,
        values=values(base_url=PRIVATE[0], allow_private=True),
    )
    assert made.allow_private
    with pytest.raises(BadInput):
        save_endpoint(
            by=owner,
            workspace=workspace,
            values=values(name="Other", base_url=PRIVATE[-1], allow_private=True),
        )


def test_a_host_on_the_servers_list_may_be_private(admin, workspace, settings):
    settings.ALLOWED_PRIVATE_HOSTS = ["localhost:8080", "127.0.0.1:8080"]
    for number, url in enumerate(PRIVATE[:2]):
        save_endpoint(
            by=admin, workspace=workspace, values=values(name=str(number), base_url=url)
        )
    with pytest.raises(BadInput):
        save_endpoint(
            by=admin, workspace=workspace, values=values(base_url="http://127.0.0.1:22")
        )


def test_staffs_word_ends_with_the_address_it_was_given_for(owner, admin, workspace):
    made = save_endpoint(
        by=owner,
        workspace=workspace,
        values=values(base_url=PRIVATE[0], allow_private=True),
    )
    save_endpoint(
        by=admin,
        workspace=workspace,
        values=values(name="Renamed", base_url=PRIVATE[0]),
        endpoint=made,
    )
    assert made.allow_private
    with pytest.raises(BadInput):
        save_endpoint(
            by=admin,
            workspace=workspace,
            values=values(base_url="http://127.0.0.1:5432/v1"),
            endpoint=made,
        )
    made.refresh_from_db()
    save_endpoint(by=admin, workspace=workspace, values=values(), endpoint=made)
    assert not made.allow_private


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "clé", "k" * 4001])
def test_a_key_that_cannot_be_sent_is_refused_without_being_repeated(
    admin, workspace, key
):
    with pytest.raises(BadInput) as caught:
        save_endpoint(by=admin, workspace=workspace, values=values(key=key))
    assert key not in caught.value.message


def test_a_name_is_taken_once_and_free_again_after_deletion(saved, admin, workspace):
    with pytest.raises(Conflict, match="Service"):
        save_endpoint(by=admin, workspace=workspace, values=values())
    delete_endpoint(by=admin, endpoint=saved)
    save_endpoint(by=admin, workspace=workspace, values=values())


def test_deleting_erases_the_key_and_frees_agents_and_default(saved, admin, workspace):
    model = save_model(by=admin, endpoint=saved, values=ModelValues(name="m1"))
    agent = seed_workspace(workspace)
    save_agent(
        by=admin,
        workspace=workspace,
        agent=agent,
        values=AgentValues(name="assistant", title="A", language_model=model),
    )
    assert delete_endpoint(by=admin, endpoint=saved) == 1
    saved.refresh_from_db()
    agent.refresh_from_db()
    assert (saved.secret, agent.language_model) == ("", None)
    assert not LanguageModel.objects.filter(is_default=True).exists()


def test_who_may_not_manage_is_refused_everywhere(
    saved, member, viewer, outsider, workspace
):
    model = LanguageModel.objects.create(endpoint=saved, name="m1")
    agent = seed_workspace(workspace)
    attempts = [
        lambda by: save_endpoint(by=by, workspace=workspace, values=values(name="x")),
        lambda by: delete_endpoint(by=by, endpoint=saved),
        lambda by: try_endpoint(by=by, endpoint=saved),
        lambda by: save_model(by=by, endpoint=saved, values=ModelValues(name="x")),
        lambda by: delete_model(by=by, model=model),
        lambda by: set_default_model(by=by, workspace=workspace, model=model),
        lambda by: save_agent(
            by=by, workspace=workspace, values=AgentValues(name="x", title="X")
        ),
        lambda by: delete_agent(by=by, agent=agent),
        lambda by: save_permissions(by=by, workspace=workspace),
    ]
    for attempt in attempts:
        for person in (member, viewer):
            with pytest.raises(NotAllowed):
                attempt(person)
        with pytest.raises(NotVisible):
            attempt(outsider)


def test_what_serves_the_whole_server_is_for_its_staff(admin, owner):
    with pytest.raises(NotAllowed, match="Server staff"):
        save_endpoint(by=admin, workspace=None, values=values())
    made = save_endpoint(by=owner, workspace=None, values=values())
    model = save_model(by=owner, endpoint=made, values=ModelValues(name="m1"))
    with pytest.raises(NotAllowed):
        delete_model(by=admin, model=model)


def test_an_endpoint_cannot_be_taken_into_another_workspace(saved, outsider):
    theirs = outsider.memberships.get().workspace
    with pytest.raises(NotVisible):
        save_endpoint(by=outsider, workspace=theirs, values=values(), endpoint=saved)


def test_the_simulator_is_neither_edited_nor_deleted(owner, db):
    simulator = seed_simulator().endpoint
    with pytest.raises(NotVisible):
        save_endpoint(by=owner, workspace=None, values=values(), endpoint=simulator)
    with pytest.raises(BadInput, match="SIMULATOR=off"):
        delete_endpoint(by=owner, endpoint=simulator)


def test_testing_uses_the_key_asks_the_default_model_and_shows_neither_secret(
    saved, admin
):
    save_model(by=admin, endpoint=saved, values=ModelValues(name="a-first"))
    chosen = save_model(by=admin, endpoint=saved, values=ModelValues(name="z-chosen"))
    set_default_model(by=admin, workspace=saved.workspace, model=chosen)
    seen = []

    def check(config, model_name):
        seen.append((config.api_key, model_name))
        return EndpointCheck(True, (), ("It answered.",))

    assert try_endpoint(by=admin, endpoint=saved, check=check).ok
    assert seen == [(CANARY, "z-chosen")]


def test_testing_with_an_unreadable_key_says_what_to_do(saved, admin):
    saved.secret = "garbage"
    outcome = try_endpoint(by=admin, endpoint=saved)
    assert not outcome.ok
    assert "enter the key again" in outcome.sentences[0]


def test_the_first_model_becomes_the_default_and_only_one_is(saved, admin, workspace):
    first = save_model(by=admin, endpoint=saved, values=ModelValues(name="m1"))
    second = save_model(by=admin, endpoint=saved, values=ModelValues(name="m2"))
    assert (first.is_default, second.is_default) == (True, False)
    set_default_model(by=admin, workspace=workspace, model=second)
    defaults = LanguageModel.objects.filter(is_default=True)
    assert list(defaults) == [second]


def test_a_models_limits_and_prices_can_be_changed(saved, admin):
    model = save_model(by=admin, endpoint=saved, values=ModelValues(name="m1"))
    save_model(
        by=admin,
        endpoint=saved,
        model=model,
        values=ModelValues(name="m1", window=200_000, price_input=Decimal("1.25")),
    )
    model.refresh_from_db()
    assert (model.window, model.price_input) == (200_000, Decimal("1.25"))
    assert model.is_default


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"window": 10},
        {"window": 8_000, "max_output": 8_000},
        {"max_output": 0},
        {"vision": "maybe"},
        {"price_output": Decimal(-1)},
        {"price_input": Decimal("NaN")},
    ],
)
def test_impossible_limits_and_prices_are_refused(saved, admin, wrong):
    with pytest.raises(BadInput):
        save_model(
            by=admin, endpoint=saved, values=ModelValues(**{"name": "m1"} | wrong)
        )
    assert not saved.language_models.exists()


def test_a_model_is_listed_once(saved, admin):
    save_model(by=admin, endpoint=saved, values=ModelValues(name="m1"))
    with pytest.raises(Conflict, match="m1"):
        save_model(by=admin, endpoint=saved, values=ModelValues(name="m1"))


def test_an_agent_is_made_changed_and_hidden(admin, workspace):
    made = save_agent(
        by=admin,
        workspace=workspace,
        values=AgentValues(name="reviewer", title="Reviewer", effort="high"),
    )
    save_agent(
        by=admin,
        workspace=workspace,
        agent=made,
        values=AgentValues(name="reviewer", title="Critic", persona="Be kind."),
    )
    made.refresh_from_db()
    assert (made.title, made.persona, made.effort) == ("Critic", "Be kind.", "")
    delete_agent(by=admin, agent=made)
    assert Agent.objects.get(name="reviewer").deleted_at
    with pytest.raises(Conflict, match="was an agent"):
        save_agent(
            by=admin,
            workspace=workspace,
            values=AgentValues(name="reviewer", title="Again"),
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Two Words"},
        {"name": "new"},
        {"name": ""},
        {"name": "a" * 61},
        {"title": ""},
        {"effort": "extreme"},
        {"max_rounds": 0},
        {"max_seconds": 1},
        {"max_tokens": 5},
        {"description": "d" * 301},
        {"persona": "p" * 100_001},
    ],
)
def test_an_agent_that_makes_no_sense_is_refused(admin, workspace, wrong):
    with pytest.raises(BadInput):
        save_agent(
            by=admin,
            workspace=workspace,
            values=AgentValues(**{"name": "ok", "title": "Ok"} | wrong),
        )


def test_an_agent_keeps_its_name_and_the_assistant_stays(admin, workspace):
    agent = seed_workspace(workspace)
    with pytest.raises(BadInput, match="keeps its name"):
        save_agent(
            by=admin,
            workspace=workspace,
            agent=agent,
            values=AgentValues(name="other", title="A"),
        )
    with pytest.raises(BadInput, match="stays"):
        delete_agent(by=admin, agent=agent)


def test_an_agent_cannot_use_a_foreign_workspaces_model(admin, workspace, outsider):
    theirs = Endpoint.objects.create(
        workspace=outsider.memberships.get().workspace,
        name="Theirs",
        kind="chat_completions",
    )
    model = LanguageModel.objects.create(endpoint=theirs, name="theirs")
    with pytest.raises(BadInput, match="this workspace can use"):
        save_agent(
            by=admin,
            workspace=workspace,
            values=AgentValues(name="spy", title="Spy", language_model=model),
        )


def test_permission_rules_are_kept_in_order_once_each(admin, workspace):
    save_permissions(
        by=admin,
        workspace=workspace,
        allow=["shell(git status)", "", " write_file(docs/*) ", "shell(git status)"],
        deny=["execute_code"],
    )
    workspace.refresh_from_db()
    assert workspace.permission_rules == {
        "allow": ["shell(git status)", "write_file(docs/*)"],
        "ask": [],
        "deny": ["execute_code"],
    }


@pytest.mark.parametrize(
    "rule", ["no_such_tool", "shell(", "(git)", "shell('git)", "a b c"]
)
def test_a_rule_that_can_never_match_is_refused_and_nothing_changes(
    admin, workspace, rule
):
    save_permissions(by=admin, workspace=workspace, deny=["shell"])
    with pytest.raises(BadInput, match="rule"):
        save_permissions(by=admin, workspace=workspace, allow=[rule])
    workspace.refresh_from_db()
    assert workspace.permission_rules["deny"] == ["shell"]


def test_there_is_an_end_to_the_number_of_rules(admin, workspace):
    many = [f"shell(tool-{number})" for number in range(501)]
    with pytest.raises(BadInput, match="500"):
        save_permissions(by=admin, workspace=workspace, allow=many)
