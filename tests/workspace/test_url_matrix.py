"""Every address of the site, tried by everybody.

`ROWS` says who may do what. A new address without a row fails here, so does a row
whose address is gone. Outsiders get 404 wherever a workspace is named, members who
may not do something 403, and nobody a server error.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from agents.actions import start_conversation
from agents.context.preview import preview
from agents.models import (
    Endpoint,
    LanguageModel,
    McpServer,
    Memory,
    Run,
    Wait,
    WorkspaceSkill,
)
from workspace import accounts, attachments, transcript
from workspace.access import at_least
from workspace.actions import people
from workspace.models import Entry, QueuedMessage, Turn
from workspace.transcript import Draft

ROLES = ("viewer", "member", "admin", "owner")
EVERYBODY = ("anonymous", "outsider", *ROLES)
OK = frozenset({200})
DONE = frozenset({302})
#: Done, or refused for what was (not) sent; in any case not for who sent it.
TAKEN = frozenset({200, 204, 302, 400, 409})


@dataclass(frozen=True)
class Row:
    """What an address answers: to the lowest role and above, to all below it."""

    lowest: str
    answers: frozenset[int] = OK
    method: str = "get"
    #: What its arguments stand for, where the name alone does not say it.
    things: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    #: Exceptions to the rule.
    but: dict[str, frozenset[int]] = field(default_factory=dict)

    def expected(self, who: str) -> frozenset[int]:
        if who in self.but:
            return self.but[who]
        if who == "anonymous":
            return DONE  # to the sign-in page
        if who == "outsider":
            return frozenset({404})
        return self.answers if at_least(who, self.lowest) else frozenset({403})


def page(lowest: str = "viewer", **more: Any) -> Row:
    return Row(lowest, **more)


def post(lowest: str, answers: frozenset[int] = TAKEN, **more: Any) -> Row:
    return Row(lowest, answers, "post", **more)


def everybody(*statuses: int, **more: Any) -> Row:
    """The same for all, signed in or not."""
    return Row("viewer", but=dict.fromkeys(EVERYBODY, frozenset(statuses)), **more)


def signed_in(answers: frozenset[int] = OK, **more: Any) -> Row:
    """A page of one's own, whatever one's workspaces."""
    return Row("viewer", answers, but={"outsider": answers}, **more)


AGENT, FILE = {"name": "agent"}, {"name": "file"}
SEAT, INVITATION = {"pk": "seat"}, {"pk": "invitation"}
ENDPOINT = {"pk": "endpoint"}

#: The owner of the first workspace is the server's administrator.
STAFF_ONLY = dict.fromkeys(EVERYBODY, frozenset({404})) | {
    "anonymous": DONE,
    "owner": OK,
}

ROWS = {
    "healthz": everybody(200, 503),
    # Server staff alone; the owner of the first workspace is one.
    "simulator:requests": Row(
        "owner",
        but=dict.fromkeys(("anonymous", *ROLES[:-1]), frozenset({404})),
    ),
    "set_language": everybody(302),
    # people
    "workspace:home": signed_in(frozenset({200, 302})),
    "workspace:setup": everybody(404),
    "workspace:invitation": Row(
        "viewer", DONE, but={"anonymous": OK, "outsider": OK}, things={"token": "token"}
    ),
    "workspace:account": signed_in(),
    "workspace:end_other_sessions": signed_in(DONE, method="post"),
    "workspace:end_session": signed_in(frozenset({404}), method="post"),
    "workspace:settings": page(),
    "workspace:leave": post("viewer", but={"owner": frozenset({409})}),
    "workspace:transfer": post("owner", DONE, data={"member": "seat"}),
    "workspace:delete": post("owner", frozenset({400})),
    "workspace:members": page(),
    "workspace:search": page(),
    "workspace:audit": page("admin"),
    "workspace:audit_download": page("admin"),
    "workspace:role": post("admin", DONE, things=SEAT, data={"role": "=viewer"}),
    "workspace:remove": post("admin", DONE, things=SEAT),
    "workspace:revoke_invitation": post("admin", DONE, things=INVITATION),
    # conversations
    "workspace:conversations": page(),
    "workspace:palette": page(),
    "workspace:conversation": page(),
    "workspace:entries": page(),
    "workspace:entry_raw": page(),
    "workspace:tail": page(),
    "workspace:read": post("viewer", data={"seq": "=1"}),
    "workspace:rename": post("member", DONE, data={"title": "=New"}),
    "workspace:hide": post("admin", DONE),
    "workspace:attach": post("member", frozenset({400})),
    "workspace:remove_attachment": post("member", frozenset({302, 404})),
    "workspace:attachment": page(),
    # files
    "workspace:files": page(),
    "workspace:file": page(things=FILE),
    "workspace:file_raw": page(things=FILE),
    "workspace:upload": post("member", frozenset({400})),
    # the agents' part of the chat
    "agents:complete": page("member"),
    "agents:new": post("member"),
    "agents:post": post("member", data={"text": "=hello"}),
    "agents:stop": post("member", frozenset({302, 403, 409})),
    "agents:retry": post("member", data={"to_seq": "said"}),
    "agents:resend": post("member", data={"to_seq": "said", "text": "=hello"}),
    "agents:withdraw": post(
        "owner",
        data={"queued": "queued"},
        but={"member": frozenset({403})} | {"admin": frozenset({302, 403})},
    ),
    "agents:level": post("member", data={"level": "=plan"}),
    "agents:waits": page(),
    "agents:children": page(),
    "agents:answer": post(
        "admin", data={"decision": "=once"}, but={"member": frozenset({403})}
    ),
    "agents:figures": page(),
    "agents:model_choice": page("member"),
    "agents:mode_choice": page("member"),
    "agents:tools": page(),
    "agents:erase": page("owner"),
    "agents:context": page(),
    "agents:context_json": page(),
    "agents:context_find": page(),
    "agents:context_segment": page(things={"digest": "segment"}),
    # agents and what answers
    "agents:agents": page(),
    "agents:new_agent": page("admin"),
    "agents:agent": page(things=AGENT),
    "agents:delete_agent": post("admin", things=AGENT),
    "agents:endpoints": page(),
    "agents:new_endpoint": page("admin"),
    "agents:default_model": post("admin"),
    "agents:endpoint": page("admin", things=ENDPOINT),
    "agents:test_endpoint": post("admin", things=ENDPOINT),
    "agents:delete_endpoint": post("admin", things=ENDPOINT),
    "agents:new_model": post("admin", things=ENDPOINT),
    "agents:model": page("admin", things=ENDPOINT),
    "agents:delete_model": post("admin", things=ENDPOINT),
    "agents:servers": page(),
    "agents:import_servers": post("admin"),
    "agents:try_server": post("admin", things={"pk": "server"}),
    "agents:disconnect_server": post("admin", things={"pk": "server"}),
    "agents:remove_server": post("admin", things={"pk": "server"}),
    "agents:permissions": page(),
    "agents:rules": page(),
    "agents:rules_seen": post("member", frozenset({302, 409})),
    "agents:skills": page(),
    "agents:new_skill": page("admin"),
    "agents:skill": page(things={"pk": "skill"}),
    "agents:delete_skill": post("admin", DONE, things={"pk": "skill"}),
    "agents:read_anew": post("admin"),
    "agents:help_context": signed_in(),
    "agents:policy": page(),
    "agents:tool_groups": page(),
    "agents:policy_effect": post("admin"),
    "agents:server_policy": Row("viewer", but=STAFF_ONLY),
    "agents:server_policy_effect": Row("viewer", OK, "post", but=STAFF_ONLY),
    "agents:memory": page(),
    "agents:memory_note": post(
        "admin", DONE, things={"key": "memory"}, data={"text": "=Corrected."}
    ),
    "agents:settings_all": page(),
    "agents:export_settings": page(),
    "agents:import_settings": post("admin", DONE, data={"text": "={}"}),
    "agents:change_setting": post(
        "admin", DONE, things={"name": "setting"}, data={"value": "=100"}
    ),
    # what happened
    "observability:home": signed_in(),
    "observability:insights": page(),
    "observability:logs": page(things=AGENT),
    "observability:run": page(),
    "observability:run_records": page(),
    "observability:run_ndjson": page(),
}
#: Addresses of packages: who gets in is asked there as a whole.
PACKAGES = ("accounts/", "admin/")


@dataclass(frozen=True)
class Route:
    name: str
    path: str
    arguments: tuple[str, ...]


def routes(
    patterns: list[URLPattern | URLResolver],
    prefix: str = "",
    namespace: str = "",
    outer: tuple[str, ...] = (),
) -> Iterator[Route]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        arguments = (*outer, *pattern.pattern.regex.groupindex)
        if isinstance(pattern, URLResolver):
            inner = (
                f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            )
            yield from routes(pattern.url_patterns, path, inner, arguments)
        else:
            yield Route(f"{namespace}{pattern.name}", path, arguments)


ROUTES = list(routes(get_resolver().url_patterns))
OWN = [route for route in ROUTES if not route.path.startswith(PACKAGES)]
FOREIGN = [route for route in ROUTES if route.path.startswith(PACKAGES)]


@pytest.fixture
def cast(workspace, owner, admin, member, viewer, outsider):
    """A browser for each person."""
    cache.clear()
    people = {
        "outsider": outsider,
        "viewer": viewer,
        "member": member,
        "admin": admin,
        "owner": owner,
    }
    browsers = {"anonymous": Client(raise_request_exception=False)}
    for name, user in people.items():
        browsers[name] = Client(raise_request_exception=False)
        browsers[name].force_login(user)
    return browsers


@pytest.fixture
def things(workspace, owner):
    """One of everything in the workspace, all of it the owner's."""
    talk = start_conversation(workspace=workspace, author=owner, title="Matrix")
    agent = workspace.agents.get()
    turn = Turn.objects.create(conversation=talk, author=owner, state="waiting")
    run = Run.objects.create(
        turn=turn,
        conversation=talk,
        workspace=workspace,
        agent=agent,
        state="waiting",
        started_by=owner,
    )
    wait = Wait.objects.create(
        run=run,
        kind="approval",
        payload={"tool": "shell", "arguments": "{}", "why": "It runs a command."},
    )
    endpoint = Endpoint.objects.create(
        workspace=workspace,
        name="Local",
        kind="chat_completions",
        base_url="http://127.0.0.1:9/v1",
        created_by=owner,
    )
    invited = people.invite(workspace=workspace, by=owner, role="member")
    guest = people.invite(workspace=workspace, by=owner, role="member").token
    seat = accounts.join(
        token=guest, username="seat", password="a quiet harbour in May"
    )
    [said] = transcript.append(
        talk.pk,
        Draft(
            kind=Entry.Kind.USER,
            body={"text": "hello"},
            turn=turn,
            author=owner,
            client_id="said",
        ),
    )
    return {
        "slug": workspace.slug,
        "conversation_id": talk.pk,
        "seq": 1,
        "said": said.seq,
        "agent": agent.name,
        "memory": Memory.objects.create(
            workspace=workspace,
            scope="workspace",
            text="We meet on Mondays.",
            source="person",
            created_by=owner,
        ).pk,
        "setting": "tools.indexBudget",
        "file": "README.md",
        "run_id": run.pk,
        "wait_id": wait.pk,
        "endpoint": endpoint.pk,
        "model": LanguageModel.objects.create(endpoint=endpoint, name="local").pk,
        "queued": QueuedMessage.objects.create(
            conversation=talk, author=owner, client_id="1", body={"text": "later"}
        ).pk,
        "seat": seat.pk,
        "invitation": invited.invitation.pk,
        "token": invited.token,
        "attachment_id": attachments.attach(
            conversation=talk, author=owner, name="a.txt", data=b"unsent"
        ).pk,
        "sha256": sent_file(talk, owner),
        "server": McpServer.objects.create(
            workspace=workspace,
            name="nowhere",
            command=["no-such-program"],
            connect_seconds=2,
        ).pk,
        "skill": WorkspaceSkill.objects.create(
            workspace=workspace, name="notes", description="d", body="b"
        ).pk,
        "segment": preview(talk, agent).assembled.segments[0].digest,
        "pk": 999_999,
    }


def sent_file(talk, owner):
    row = attachments.attach(
        conversation=talk, author=owner, name="b.txt", data=b"sent"
    )
    attachments.mark_sent([row])
    return row.sha256


def address(route, row, things):
    values = {name: row.things.get(name, name) for name in route.arguments}
    return reverse(
        route.name, kwargs={name: things[thing] for name, thing in values.items()}
    )


def sent(row, things):
    return {
        name: value[1:] if value.startswith("=") else str(things[value])
        for name, value in row.data.items()
    }


def test_every_address_has_a_row_and_every_row_an_address():
    assert {route.name for route in OWN} == set(ROWS)


@pytest.mark.parametrize("route", OWN, ids=lambda route: route.name)
def test_everybody_gets_the_answer_of_the_matrix(route, cast, things):
    if route.name not in ROWS:
        pytest.fail(f"{route.path} has no row in the matrix.")
    row = ROWS[route.name]
    url = address(route, row, things)
    wrong = {}
    for who, browser in cast.items():
        with transaction.atomic():
            response = getattr(browser, row.method)(url, sent(row, things))
            if response.streaming:
                list(response)  # the end of a file closes it
            transaction.set_rollback(True)
        if response.status_code not in row.expected(who):
            wrong[who] = (response.status_code, sorted(row.expected(who)))
        if row.expected(who) == DONE and who == "anonymous":
            assert "/accounts/login/" in response["Location"] or "set" in route.name
    assert wrong == {}, url


@pytest.mark.parametrize(
    "route",
    [route for route in OWN if "conversation_id" in route.arguments],
    ids=lambda route: route.name,
)
def test_a_conversation_is_not_reached_through_another_workspace(route, cast, things):
    elsewhere = things | {"slug": "elsewhere"}
    row = ROWS[route.name]
    url = address(route, row, elsewhere)
    for who in ("outsider", "owner"):
        response = getattr(cast[who], row.method)(url, sent(row, things))
        assert response.status_code == 404, who


def package_address(route):
    """The address with stand-ins for its arguments; its fixed part if it has no name."""
    known = dict.fromkeys(route.arguments, "1") | {
        "provider_id": "oidc",
        "key": "a-b",
        "app_label": "workspace",
        "url": "nothing",
    }
    if route.name.endswith("None"):
        return "/" + route.path.split("(")[0].split("<")[0].rstrip("$^")
    return reverse(route.name, kwargs={name: known[name] for name in route.arguments})


@pytest.mark.parametrize("prefix", PACKAGES)
def test_addresses_of_packages_let_nobody_in_who_may_not(prefix, cast):
    tried = [route for route in FOREIGN if route.path.startswith(prefix)]
    assert len(tried) > 20
    wrong = []
    for route in tried:
        path = package_address(route)
        for who, browser in cast.items():
            with transaction.atomic():
                status = browser.get(path).status_code
                transaction.set_rollback(True)
            kept_out = who == "owner" or status in {302, 403, 405}
            if status >= 500 or not (kept_out or prefix == "accounts/"):
                wrong.append((path, who, status))
    assert wrong == []
