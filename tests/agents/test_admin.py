"""The operator's pages: what can be changed, what only looked at, what never shows."""

import pytest
from django.contrib import admin as django_admin
from django.contrib.admin.models import LogEntry

from agents.endpoint_actions import (
    EndpointValues,
    ModelValues,
    save_endpoint,
    save_model,
)
from agents.models import Endpoint, LanguageModel, ModelCall, Run, ToolCall, Wait
from agents.secrets import decrypt
from agents.seeding import seed_workspace
from workspace.models import Conversation, Entry, Turn

CANARY = "canary-Tr8-do-not-show-1984"
URL = "https://models.example/v1"


@pytest.fixture
def boss(owner, client):
    """The server's administrator, signed in."""
    client.force_login(owner)
    return client


@pytest.fixture
def endpoint(owner):
    made = save_endpoint(
        by=owner,
        workspace=None,
        values=EndpointValues(
            name="Service", kind="chat_completions", base_url=URL, key=CANARY
        ),
    )
    save_model(by=owner, endpoint=made, values=ModelValues(name="m1"))
    return made


def fields(**changed):
    return {
        "workspace": "",
        "name": "Service",
        "kind": "chat_completions",
        "base_url": URL,
        "key": "",
        "caches_prompts": "on",
        "language_models-TOTAL_FORMS": "0",
        "language_models-INITIAL_FORMS": "0",
    } | changed


def change_url(row):
    return f"/admin/agents/{row._meta.model_name}/{row.pk}/change/"


def test_a_key_goes_in_and_never_comes_out(boss, db):
    boss.post("/admin/agents/endpoint/add/", fields(key=CANARY))
    made = Endpoint.objects.get(name="Service")
    assert decrypt(made.secret) == CANARY
    for url in ("/admin/agents/endpoint/", change_url(made)):
        page = boss.get(url).content.decode()
        assert CANARY not in page
        assert made.secret not in page
    assert CANARY not in "".join(
        LogEntry.objects.values_list("change_message", flat=True)
    )


def test_an_empty_key_keeps_the_stored_one_and_a_tick_forgets_it(boss, endpoint):
    boss.post(change_url(endpoint), fields(name="Renamed"))
    endpoint.refresh_from_db()
    assert (endpoint.name, decrypt(endpoint.secret)) == ("Renamed", CANARY)
    boss.post(change_url(endpoint), fields(drop_key="on"))
    endpoint.refresh_from_db()
    assert endpoint.secret == ""


def test_staff_cannot_send_a_stored_key_to_another_server_either(boss, endpoint):
    page = boss.post(change_url(endpoint), fields(base_url="https://evil.example/v1"))
    assert "Enter the key again" in page.content.decode()
    endpoint.refresh_from_db()
    assert endpoint.base_url == URL


def test_the_servers_default_model_is_chosen_from_the_list(boss, owner, endpoint):
    other = save_model(by=owner, endpoint=endpoint, values=ModelValues(name="m2"))
    boss.post(
        "/admin/agents/languagemodel/",
        {"action": "make_server_default", "_selected_action": [str(other.pk)]},
    )
    assert LanguageModel.objects.get(is_default=True) == other


def test_a_workspaces_model_cannot_become_the_servers_default(boss, owner, workspace):
    own = save_endpoint(
        by=owner,
        workspace=workspace,
        values=EndpointValues(name="Own", kind="anthropic", base_url=URL),
    )
    model = save_model(by=owner, endpoint=own, values=ModelValues(name="m1"))
    boss.post(
        "/admin/agents/languagemodel/",
        {"action": "make_server_default", "_selected_action": [str(model.pk)]},
    )
    model.refresh_from_db()
    assert model.is_default  # still of its workspace, and the server has none
    assert not LanguageModel.objects.filter(
        is_default=True, endpoint__workspace=None
    ).exists()


def test_what_happened_is_only_looked_at(rf, owner):
    request = rf.get("/")
    request.user = owner
    for model in (Run, Wait, ToolCall, ModelCall, Entry, Turn):
        pages = django_admin.site._registry[model]
        assert pages.has_view_permission(request)
        for allowed in (
            pages.has_add_permission(request),
            pages.has_change_permission(request),
            pages.has_delete_permission(request),
        ):
            assert not allowed, model


def test_every_list_and_page_opens(boss, owner, workspace, endpoint):
    agent = seed_workspace(workspace)
    conversation = Conversation.objects.create(workspace=workspace, created_by=owner)
    turn = Turn.objects.create(conversation=conversation, author=owner)
    run = Run.objects.create(
        turn=turn, conversation=conversation, workspace=workspace, agent=agent
    )
    wait = Wait.objects.create(run=run, kind="question")
    call = ModelCall.objects.create(
        run=run, round=1, endpoint_name="S", model_name="m1", mode="chat"
    )
    for row in (run, wait, call, agent, endpoint, endpoint.language_models.get()):
        name = row._meta.model_name
        assert boss.get(f"/admin/agents/{name}/").status_code == 200
        assert boss.get(change_url(row)).status_code == 200
    assert boss.get("/admin/agents/toolcall/").status_code == 200


def test_a_workspaces_admin_is_no_server_staff(client, admin):
    client.force_login(admin)
    assert client.get("/admin/agents/endpoint/").status_code == 302
