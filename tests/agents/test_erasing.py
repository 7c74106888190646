"""Erasing turns: every copy goes, the rest can be talked on, and the chain verifies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client

from agents.actions import retry_turn
from agents.answer_actions import answer_wait
from agents.erase_actions import erase_conversation, erase_turns
from agents.mode_actions import set_level, set_mode
from agents.models import Run, Wait
from agents.providers.scripted import calls, says
from tests.agents.test_children import play_all
from workspace import transcript
from workspace.errors import BadInput, Conflict, Gone, NotAllowed
from workspace.models import Conversation, Entry
from workspace.transcript import Draft
from workspace.verification import verify

WORD = "swordfish"


def everything_stored() -> str:
    """Every row of every table, as text."""
    rows: list[Any] = []
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            cursor.execute(f'SELECT * FROM "{model._meta.db_table}"')  # noqa: S608
            rows += cursor.fetchall()
    return json.dumps(rows, default=str)


@pytest.fixture
def secret_turn(script, stage, workspace, owner) -> Any:
    """A turn in which a secret is said, called with, approved, written and answered."""
    workspace.permission_rules = {"ask": ["shell"]}
    workspace.save()
    script(
        calls("shell", command=f"echo {WORD}"),
        calls("tool_search", query=WORD),
        says(f"It is {WORD}."),
        says("Hello."),
    )
    stage.post(f"My word is {WORD}")
    assert stage.play().state == Run.State.WAITING
    answer_wait(wait=Wait.objects.get(), user=owner, answer={"decision": "once"})
    assert stage.play().state == Run.State.FINISHED
    assert everything_stored().count(WORD) > 6
    return stage.turn()


def erase(stage: Any, user: Any, *turns: Any, reason: str = "A password.") -> int:
    conversation = Conversation.objects.get(pk=stage.conversation.pk)
    return erase_turns(conversation=conversation, turns=turns, user=user, reason=reason)


def test_no_table_holds_what_was_erased(stage, secret_turn, owner):
    assert erase(stage, owner, secret_turn.pk) > 5
    assert WORD not in everything_stored()
    assert verify(stage.conversation) == Conversation.objects.get().head_seq


def test_the_conversation_goes_on_without_what_was_erased(stage, secret_turn, owner):
    erase(stage, owner, secret_turn.pk)
    stage.post("Hello?")
    assert stage.play().state == Run.State.FINISHED
    body = stage.provider.requests[-1].body.decode()
    assert WORD not in body
    assert "Hello?" in body


def test_a_step_of_pruning_that_repeats_arguments_of_what_was_erased_goes_too(
    stage, secret_turn, owner
):
    [entry] = secret_turn.entries.filter(kind=Entry.Kind.ASSISTANT)[:1]
    arguments = {str(entry.seq): {"call": f'{{"path": "{WORD}"}}'}}
    step = {"type": "prune", "stubs": {}, "arguments": arguments, "images": []}
    transcript.append(stage.conversation.pk, Draft(Entry.Kind.NOTICE, step))
    erase(stage, owner, secret_turn.pk)
    assert WORD not in everything_stored()


def test_a_summary_of_what_was_erased_goes_too(stage, secret_turn, owner):
    summary = {"text": f"They said {WORD}.", "covers": [3, 5], "kept": []}
    transcript.append(stage.conversation.pk, Draft(Entry.Kind.SUMMARY, summary))
    erase(stage, owner, secret_turn.pk)
    assert WORD not in everything_stored()


def test_the_audit_log_keeps_no_title_of_what_was_erased(stage, secret_turn, owner):
    conversation = Conversation.objects.get(pk=stage.conversation.pk)
    assert WORD in conversation.title
    set_mode(conversation=conversation, user=owner, mode="review")
    set_level(conversation=conversation, user=owner, level="plan")
    erase(stage, owner, secret_turn.pk)
    assert WORD not in everything_stored()


@pytest.mark.parametrize("whole", [False, True])
def test_what_children_did_for_a_turn_goes_with_it(script, stage, owner, whole):
    script(
        calls("delegate_task", task=f"Look for {WORD}.", title=f"The {WORD}"),
        calls("delegate_task", task=f"Look deeper for {WORD}."),
        says(f"Here is the {WORD}."),
        says(f"My child has the {WORD}."),
        says(f"{WORD} was found."),
    )
    stage.post(f"Where is the {WORD}?")
    play_all(stage)
    children = list(Conversation.objects.exclude(parent=None))
    assert len(children) == 2
    if whole:
        conversation = Conversation.objects.get(pk=stage.conversation.pk)
        erase_conversation(conversation=conversation, user=owner, reason="Gone.")
    else:
        erase(stage, owner, stage.turn().pk)
    assert WORD not in everything_stored()
    assert all(verify(child) for child in children)


def test_a_whole_conversation_is_erased_and_hidden(stage, secret_turn, owner):
    conversation = Conversation.objects.get(pk=stage.conversation.pk)
    erase_conversation(conversation=conversation, user=owner, reason="All of it.")
    assert WORD not in everything_stored()
    assert not Conversation.objects.visible_to(owner).exists()
    assert verify(conversation)


def test_an_erased_message_is_not_answered_again(stage, secret_turn, owner):
    seq = stage.conversation.entries.get(kind="user").seq
    erase(stage, owner, secret_turn.pk)
    with pytest.raises(Gone, match="erased"):
        retry_turn(conversation=stage.conversation, user=owner, to_seq=seq)


def test_nothing_is_erased_twice_or_without_a_reason(stage, secret_turn, owner):
    with pytest.raises(BadInput, match="why"):
        erase(stage, owner, secret_turn.pk, reason=" ")
    assert WORD in everything_stored()
    erase(stage, owner, secret_turn.pk)
    with pytest.raises(Conflict, match="already"):
        erase(stage, owner, secret_turn.pk)


def test_nothing_is_erased_under_an_agent_at_work(script, stage, owner):
    script(says("Hi."))
    stage.post("Hello")
    with pytest.raises(Conflict, match="at work"):
        erase(stage, owner, stage.turn().pk)


def test_only_owners_erase(stage, secret_turn, admin):
    with pytest.raises(NotAllowed):
        erase(stage, admin, secret_turn.pk)


def test_a_turn_of_another_conversation_is_refused(
    stage, secret_turn, workspace, owner
):
    other = Conversation.objects.create(workspace=workspace, created_by=owner)
    with pytest.raises(BadInput, match="this conversation"):
        erase_turns(
            conversation=other, turns=[secret_turn.pk], user=owner, reason="No."
        )


def test_an_owner_erases_on_the_page(stage, secret_turn, owner, workspace):
    client = Client()
    client.force_login(owner)
    address = f"/w/{workspace.slug}/c/{stage.conversation.pk}/erase"
    assert WORD in client.get(address).content.decode()
    refused = client.post(address, {"reason": "A password."})
    assert (refused.status_code, WORD in everything_stored()) == (400, True)
    done = client.post(address, {"reason": "A password.", "turn": str(secret_turn.pk)})
    assert (done.status_code, WORD in everything_stored()) == (302, False)
    assert workspace.changes.get(action="conversation.erased").by == owner
    page = client.get(f"/w/{workspace.slug}/c/{stage.conversation.pk}/")
    assert page.status_code == 200
    assert client.get(address).status_code == 200
