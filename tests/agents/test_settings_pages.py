"""Pages of agents, endpoints and permissions, for everyone who may or may not."""

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.urls import reverse

from agents.endpoint_actions import (
    EndpointValues,
    ModelValues,
    save_endpoint,
    save_model,
)
from agents.models import Endpoint, LanguageModel
from agents.seeding import seed_workspace

CANARY = "canary-Hn5-do-not-show-2024"
URL = "https://models.example/v1"


@pytest.fixture
def endpoint(owner, workspace):
    made = save_endpoint(
        by=owner,
        workspace=workspace,
        values=EndpointValues(
            name="Service", kind="chat_completions", base_url=URL, key=CANARY
        ),
    )
    save_model(by=owner, endpoint=made, values=ModelValues(name="m1"))
    return made


@pytest.fixture
def as_(client):
    """Signs somebody in."""

    def use(person):
        client.force_login(person)
        return client

    return use


def address(name, workspace, *args):
    return reverse(f"agents:{name}", args=[workspace.slug, *args])


def endpoint_fields(**changed):
    return {
        "name": "Service",
        "kind": "chat_completions",
        "base_url": URL,
        "key": "",
        "caches_prompts": "on",
    } | changed


def everything(workspace, endpoint):
    """Every address of these pages: those to read, those for managers, posts only."""
    model = endpoint.language_models.get()
    own = (endpoint.pk,)
    return {
        "read": [
            address("agents", workspace),
            address("agent", workspace, "assistant"),
            address("endpoints", workspace),
            address("permissions", workspace),
        ],
        "manage": [
            address("new_agent", workspace),
            address("new_endpoint", workspace),
            address("endpoint", workspace, *own),
            address("model", workspace, *own, model.pk),
        ],
        "post": [
            address("delete_agent", workspace, "assistant"),
            address("default_model", workspace),
            address("test_endpoint", workspace, *own),
            address("delete_endpoint", workspace, *own),
            address("new_model", workspace, *own),
            address("delete_model", workspace, *own, model.pk),
        ],
    }


def test_each_role_reaches_what_it_may_and_nothing_else(
    as_, admin, member, viewer, outsider, workspace, endpoint
):
    seed_workspace(workspace)
    pages = everything(workspace, endpoint)
    for person in (member, viewer):
        client = as_(person)
        for url in pages["read"]:
            assert client.get(url).status_code == 200, url
        for url in pages["manage"]:
            assert client.get(url).status_code == 403, url
        for url in [*pages["manage"], *pages["post"]]:
            assert client.post(url).status_code == 403, url
        for url in (pages["read"][1], pages["read"][3]):
            assert client.post(url).status_code == 403, url
    client = as_(outsider)
    for url in [url for group in pages.values() for url in group]:
        assert client.get(url).status_code in (404, 405), url
        assert client.post(url).status_code == 404, url
    client = as_(admin)
    for url in [*pages["read"], *pages["manage"]]:
        assert client.get(url).status_code == 200, url
    assert LanguageModel.objects.filter(name="m1").exists()


def test_who_is_not_signed_in_is_sent_to_the_entrance(client, workspace, endpoint):
    for url in [
        url for group in everything(workspace, endpoint).values() for url in group
    ]:
        response = client.post(url)
        assert response.status_code == 302
        assert response["Location"].startswith("/accounts/login/")


def test_what_only_acts_refuses_to_be_looked_at(as_, admin, workspace, endpoint):
    client = as_(admin)
    for url in everything(workspace, endpoint)["post"]:
        assert client.get(url).status_code == 405, url


def test_another_workspaces_endpoint_is_not_found_under_ones_own_address(
    as_, endpoint, outsider
):
    theirs = outsider.memberships.get().workspace
    client = as_(outsider)
    for name in ("endpoint", "test_endpoint", "delete_endpoint", "new_model"):
        url = address(name, theirs, endpoint.pk)
        assert client.post(url, endpoint_fields()).status_code == 404


def test_the_empty_page_says_that_no_model_answers_and_gives_real_examples(
    as_, admin, workspace
):
    seed_workspace(workspace)
    page = as_(admin).get(address("endpoints", workspace)).content.decode()
    assert "No language model answers here yet" in page
    assert "No language model is answering here: the simulator" in page
    for example in ("https://api.openai.com/v1", "http://127.0.0.1:8080/v1"):
        assert example in page


def test_an_endpoint_is_added_and_its_key_never_shown_again(
    as_, admin, workspace, caplog
):
    client = as_(admin)
    with caplog.at_level(logging.DEBUG):
        response = client.post(
            address("new_endpoint", workspace), endpoint_fields(key=CANARY), follow=True
        )
    made = Endpoint.objects.get(name="Service")
    assert response.redirect_chain[-1][0] == address("endpoint", workspace, made.pk)
    assert "A key is saved" in response.content.decode()
    pages = [response, client.get(address("endpoints", workspace))]
    for page in pages:
        assert CANARY not in page.content.decode() + repr(page.headers)
        assert made.secret not in page.content.decode()
    assert CANARY not in caplog.text


def test_a_refused_form_keeps_what_was_typed_except_the_key(as_, admin, workspace):
    response = as_(admin).post(
        address("new_endpoint", workspace),
        endpoint_fields(name="My service", base_url="http://127.0.0.1/v1", key=CANARY),
    )
    page = response.content.decode()
    assert response.status_code == 400
    assert "My service" in page
    assert "Server staff can also save" in page
    assert CANARY not in page
    assert not Endpoint.objects.filter(name="My service").exists()


def test_only_server_staff_are_offered_private_addresses(as_, admin, owner, workspace):
    url = address("new_endpoint", workspace)
    assert "allow_private" not in as_(admin).get(url).content.decode()
    assert "allow_private" in as_(owner).get(url).content.decode()


def test_members_see_names_and_models_but_no_address(as_, member, workspace, endpoint):
    page = as_(member).get(address("endpoints", workspace)).content.decode()
    assert "Service" in page
    assert "m1" in page
    assert "models.example" not in page
    assert "<form" not in page.split("<main", 1)[1].split("</main>", 1)[0]


def test_a_hostile_name_is_shown_as_text(as_, admin, workspace):
    name = "<script>alert(1)</script>"
    client = as_(admin)
    client.post(address("new_endpoint", workspace), endpoint_fields(name=name))
    page = client.get(address("endpoints", workspace)).content.decode()
    assert name not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_model_is_added_edited_made_default_and_removed(
    as_, admin, workspace, endpoint
):
    client = as_(admin)
    fields = {"name": "m2", "window": 64_000, "max_output": 8_000, "vision": "yes"}
    client.post(address("new_model", workspace, endpoint.pk), fields)
    model = LanguageModel.objects.get(name="m2")
    url = address("model", workspace, endpoint.pk, model.pk)
    assert client.post(url, fields | {"price_input": "0.25"}).status_code == 302
    client.post(address("default_model", workspace), {"model": str(model.pk)})
    model.refresh_from_db()
    assert (str(model.price_input), model.is_default) == ("0.250000", True)
    assert client.post(url, fields | {"window": 5}).status_code == 400
    client.post(address("delete_model", workspace, endpoint.pk, model.pk))
    assert not LanguageModel.objects.filter(name="m2").exists()


@pytest.mark.parametrize("wanted", ["nonsense", "00000000-0000-0000-0000-000000000000"])
def test_a_default_that_does_not_exist_is_not_found(as_, admin, workspace, wanted):
    url = address("default_model", workspace)
    assert as_(admin).post(url, {"model": wanted}).status_code == 404


def test_an_agent_is_made_edited_and_links_to_its_logs(as_, admin, workspace):
    client = as_(admin)
    fields = {
        "name": "reviewer",
        "title": "Reviewer",
        "max_rounds": 20,
        "max_seconds": 600,
    }
    client.post(address("new_agent", workspace), fields)
    url = address("agent", workspace, "reviewer")
    page = client.get(url).content.decode()
    assert reverse("observability:logs", args=[workspace.slug, "reviewer"]) in page
    assert client.post(url, fields | {"title": "Critic"}).status_code == 302
    assert "Critic" in client.get(address("agents", workspace)).content.decode()
    assert client.post(url, fields | {"max_rounds": 0}).status_code == 400
    client.post(address("delete_agent", workspace, "reviewer"))
    assert client.get(url).status_code == 404


def test_rules_are_saved_and_a_wrong_one_is_named(as_, admin, workspace):
    client = as_(admin)
    url = address("permissions", workspace)
    good = {"deny": "execute_code", "ask": "", "allow": "shell(git status)\n"}
    assert client.post(url, good).status_code == 302
    refused = client.post(url, good | {"ask": "no_such_tool"})
    assert refused.status_code == 400
    assert "no_such_tool" in refused.content.decode()
    workspace.refresh_from_db()
    assert workspace.permission_rules["allow"] == ["shell(git status)"]


def test_the_list_of_endpoints_costs_the_same_for_many(
    as_, admin, workspace, endpoint, owner, django_assert_max_num_queries
):
    for number in range(10):
        more = save_endpoint(
            by=owner,
            workspace=workspace,
            values=EndpointValues(name=f"S{number}", kind="anthropic", base_url=URL),
        )
        save_model(by=owner, endpoint=more, values=ModelValues(name="m"))
    client = as_(admin)
    with django_assert_max_num_queries(10):
        assert client.get(address("endpoints", workspace)).status_code == 200


class Service(BaseHTTPRequestHandler):
    """A model service on this machine; a wrong key is repeated in its refusal."""

    seen: list[str] = []

    def do_GET(self):
        self._answer({"data": [{"id": "m1"}, {"id": "big", "context_length": 8_000}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        said = {"message": {"content": "ready"}, "finish_reason": "stop"}
        self._answer({"choices": [said]})

    def _answer(self, body):
        given = self.headers.get("Authorization", "")
        self.seen.append(given)
        good = given == f"Bearer {CANARY}"
        wrong = {"error": {"message": f"Incorrect API key provided: {given}"}}
        data = json.dumps(body if good else wrong).encode()
        self.send_response(200 if good else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        """Silent."""


@pytest.fixture
def local_endpoint(owner, workspace):
    """Makes an endpoint for the service above, with the key given."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def make(key):
        return save_endpoint(
            by=owner,
            workspace=workspace,
            values=EndpointValues(
                name="Local",
                kind="chat_completions",
                base_url=f"http://127.0.0.1:{server.server_port}/v1",
                key=key,
                allow_private=True,
            ),
        )

    yield make
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_test_says_what_works_and_offers_the_models_to_add(
    as_, admin, workspace, local_endpoint
):
    made = local_endpoint(CANARY)
    client = as_(admin)
    page = client.post(address("test_endpoint", workspace, made.pk)).content.decode()
    assert "It works" in page
    assert "lists 2 models" in page
    assert 'name="name" value="big"' in page
    assert CANARY not in page
    offered = {"name": "big", "window": 8_000, "max_output": 2_000, "vision": "unknown"}
    client.post(address("new_model", workspace, made.pk), offered)
    assert LanguageModel.objects.get(name="big").window == 8_000


def test_a_refused_key_appears_nowhere_not_even_in_the_services_own_words(
    as_, admin, workspace, local_endpoint, caplog
):
    wrong = "wrong-" + CANARY
    made = local_endpoint(wrong)
    with caplog.at_level(logging.DEBUG):
        response = as_(admin).post(address("test_endpoint", workspace, made.pk))
    page = response.content.decode()
    assert f"Bearer {wrong}" in Service.seen
    assert "It does not work yet" in page
    assert CANARY not in page + caplog.text
