"""The cast, a conversation with a run, and a way to fill its log."""

from __future__ import annotations

import pytest
from django.db import transaction

from agents import events
from agents.models import Agent, Run
from workspace.events import emit
from workspace.models import Conversation, Membership, Role, Turn, User, Workspace

PEOPLE = {"ola": Role.OWNER, "mina": Role.MEMBER, "vera": Role.VIEWER}


@pytest.fixture
def place(db):
    """A workspace with its people and an agent; `otto` is nobody's member."""
    workspace = Workspace.objects.create(name="Harbour", slug="harbour")
    for name, role in PEOPLE.items():
        user = User.objects.create_user(name)
        Membership.objects.create(workspace=workspace, user=user, role=role)
    User.objects.create_user("otto")
    Agent.objects.create(workspace=workspace, name="assistant", title="Assistant")
    return workspace


@pytest.fixture
def make_run(place):
    """Makes a conversation with one run in it."""

    def make(**fields) -> Run:
        private = fields.pop("private", False)
        author = User.objects.get(username=fields.pop("author", "mina"))
        conversation = Conversation.objects.create(
            workspace=place, created_by=author, title="Fix the login", private=private
        )
        turn = Turn.objects.create(conversation=conversation, author=author)
        return Run.objects.create(
            turn=turn,
            conversation=conversation,
            workspace=place,
            agent=Agent.objects.get(workspace=place),
            started_by=author,
            **fields,
        )

    return make


@pytest.fixture
def run(make_run):
    return make_run()


@pytest.fixture
def as_person(client):
    """A client that is signed in as one of the cast."""

    def sign_in(name: str):
        client.force_login(
            User.objects.get(username=name),
            backend="django.contrib.auth.backends.ModelBackend",
        )
        return client

    return sign_in


def ids(run: Run) -> dict:
    return {"run_id": run.pk, "conversation_id": run.conversation_id}


def tell(run: Run, *make) -> None:
    """Emit events of the run, as a worker does."""
    with transaction.atomic():
        emit(*(kind(**ids(run), **values) for kind, values in make))


def a_round(run: Run, number: int, tool: str = "read_file", *, ok: bool = True) -> None:
    """Six events of one round with one tool call."""
    call = {"tool": tool, "call_id": f"call-{number}"}
    tell(
        run,
        (events.RoundStarted, {"round": number}),
        (
            events.RequestAssembled,
            {"round": number, "tokens": 900, "digest": "ab" * 32, "size": 4000},
        ),
        (events.MessageCompleted, {"seq": number, "characters": 12, "tool_calls": 1}),
        (
            events.ToolCalled,
            {**call, "arguments": '{"path":"README.md"}', "decision": "allow"},
        ),
        (
            events.ToolFinished,
            {
                **call,
                "ok": ok,
                "characters": 84,
                "duration_ms": 3,
                "error": "" if ok else "not_found",
            },
        ),
        (events.RoundFinished, {"round": number, "calls": 1}),
    )
