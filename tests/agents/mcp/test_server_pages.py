"""Settings → Tool servers: who may do what, and what is left of secrets."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from agents import server_actions as actions
from agents.mcp import tending
from agents.models import McpServer
from agents.secrets import decrypt
from tests.agents.servers import serve, tools
from workspace.errors import BadInput, NotAllowed
from workspace.models import Change

pytestmark = pytest.mark.django_db

VALUES = actions.ServerValues(name="hub", command=("no-such-program",))


def url(workspace, name="servers", *rest):
    return reverse(f"agents:{name}", args=[workspace.slug, *rest])


@pytest.fixture
def as_(client):
    def sign_in(user):
        client.force_login(user)
        return client

    return sign_in


def test_an_admin_adds_a_server_and_the_page_says_why_it_cannot_be_reached(
    as_, owner, workspace
):
    workspace.root.mkdir(parents=True, exist_ok=True)
    given = {
        "name": "hub",
        "transport": "http",
        "url": "http://127.0.0.1:9/mcp",
        "secrets": "Authorization=Bearer s3cr3t-header",
        "call_seconds": "60",
    }
    page = as_(owner).post(url(workspace), given, follow=True).content.decode()
    assert "leads to the private address 127.0.0.1" in page
    assert "s3cr3t-header" not in page
    server = McpServer.objects.get()
    assert "s3cr3t-header" not in server.secret
    assert json.loads(decrypt(server.secret)) == {
        "Authorization": "Bearer s3cr3t-header"
    }
    assert server.state == McpServer.State.FAILED
    change = Change.objects.get(action="server.made")
    assert "s3cr3t" not in str(change.new)


def test_members_see_the_servers_and_may_not_change_them(as_, member, workspace):
    server = serve(workspace, "hub", tools(3))
    client = as_(member)
    page = client.get(url(workspace)).content.decode()
    assert "mcp__hub__job_002" in page
    assert "Add a server" not in page
    for name in ("try_server", "disconnect_server", "remove_server"):
        assert client.post(url(workspace, name, server.pk)).status_code == 403
    assert client.post(url(workspace), {}).status_code == 403


def test_a_disconnected_and_a_removed_servers_tools_are_gone(as_, owner, workspace):
    from agents.tools.registry import catalogue

    server = serve(workspace, "hub", tools(1))
    as_(owner).post(url(workspace, "disconnect_server", server.pk))
    known = catalogue(workspace.pk)
    assert "disconnected it" in known.absent["mcp__hub__job_000"]
    as_(owner).post(url(workspace, "remove_server", server.pk))
    assert catalogue(workspace.pk).resolve("mcp__hub__job_000") is None
    assert McpServer.objects.get().secret == ""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "a__b"}, "letters and digits"),
        ({"command": ()}, "Name the program"),
        ({"transport": "http", "url": "ftp://x"}, "Only http"),
        ({"transport": "http", "url": "http://u:p@x/"}, "user name or password"),
        ({"call_seconds": 0}, "from 1 to 3600"),
        ({"transport": "pigeon"}, "stdio, http or sse"),
    ],
)
def test_what_cannot_be_a_server_is_refused_with_a_sentence(
    owner, workspace, fields, words
):
    values = actions.ServerValues(**({"name": "hub", "command": ("x",)} | fields))
    with pytest.raises(BadInput, match=words):
        actions.add_server(by=owner, workspace=workspace, values=values)


def test_a_name_is_taken_once_and_free_again_when_its_server_is_removed(
    owner, workspace, member
):
    first = actions.add_server(by=owner, workspace=workspace, values=VALUES)
    with pytest.raises(BadInput, match="already"):
        actions.add_server(by=owner, workspace=workspace, values=VALUES)
    with pytest.raises(NotAllowed):
        actions.remove_server(by=member, server=first)
    actions.remove_server(by=owner, server=first)
    assert actions.add_server(by=owner, workspace=workspace, values=VALUES)


def test_an_mcp_json_is_imported_whole_or_not_at_all(owner, workspace):
    described = {
        "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "b"}},
        "web": {"type": "sse", "url": "https://example.com/sse"},
        "api": {"url": "https://example.com/mcp", "headers": {"X": "y"}},
    }
    text = json.dumps({"mcpServers": described})
    actions.import_servers(by=owner, workspace=workspace, text=text)
    rows = {row.name: row for row in McpServer.objects.all()}
    assert rows["git"].command == ["uvx", "mcp-server-git"]
    assert [rows[name].transport for name in ("git", "web", "api")] == [
        "stdio",
        "sse",
        "http",
    ]
    bad = {"mcpServers": {"new": {"command": "x"}, "git": {"command": "y"}}}
    with pytest.raises(BadInput):
        actions.import_servers(by=owner, workspace=workspace, text=json.dumps(bad))
    assert McpServer.objects.count() == 3


@pytest.mark.parametrize(
    "row",
    [
        {"command": "x", "args": 5},
        {"command": "x", "args": "--verbose"},
        {"command": "x", "includeTools": 5},
        {"command": "x", "excludeTools": {"a": 1}},
        {"command": "x\0y"},
        {"command": "x", "args": ["\ud800"]},
        {"url": f"https://example.com/{'x' * 600}"},
    ],
)
def test_a_server_that_is_described_in_a_strange_way_is_refused(owner, workspace, row):
    text = json.dumps({"mcpServers": {"a": row}})
    with pytest.raises(BadInput):
        actions.import_servers(by=owner, workspace=workspace, text=text)
    assert not McpServer.objects.exists()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"mcpServers": []}', '{"mcpServers": {"a": 3}}']
)
def test_what_is_no_mcp_json_is_refused(owner, workspace, text):
    with pytest.raises(BadInput):
        actions.import_servers(by=owner, workspace=workspace, text=text)


def test_a_worker_leaves_alone_what_is_ready_and_what_was_tried_just_now(
    owner, workspace, monkeypatch
):
    tried: list[str] = []
    monkeypatch.setattr(tending, "_try", lambda server: tried.append(server.name))
    serve(workspace, "ready", tools(1))
    actions.add_server(by=owner, workspace=workspace, values=VALUES)
    tending.tend()
    tending.tend()
    assert tried == ["hub"]
