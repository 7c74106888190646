"""Choosing who answers: for whom, from when, and what people see of it."""

from __future__ import annotations

import pytest
from django.test import Client

from agents.actions import set_model
from agents.endpoint_actions import (
    EndpointValues,
    ModelValues,
    save_endpoint,
    save_model,
)
from agents.endpoints import choose
from agents.providers.scripted import says
from agents.seeding import seed_workspace
from workspace.errors import BadInput, NotAllowed
from workspace.models import Conversation


@pytest.fixture
def endpoint(workspace, owner):
    values = EndpointValues(
        name="Harbour", kind="chat_completions", base_url="https://h.example/v1"
    )
    made = save_endpoint(by=owner, workspace=workspace, values=values)
    for name in ("small", "large"):
        save_model(by=owner, endpoint=made, values=ModelValues(name=name))
    return made


def answering(conversation):
    fresh = Conversation.objects.get(pk=conversation.pk)
    return choose(fresh, seed_workspace(fresh.workspace)).language_model.name


def test_the_choice_holds_for_this_conversation_alone(conversation, endpoint, owner):
    other = Conversation.objects.create(
        workspace=conversation.workspace, created_by=owner
    )
    assert answering(conversation) == "small"  # the first one is the default
    set_model(conversation=conversation, user=owner, model_name="large")
    assert (answering(conversation), answering(other)) == ("large", "small")
    set_model(conversation=conversation, user=owner, model_name="")
    assert answering(conversation) == "small"


def test_people_see_the_change_and_the_model_does_not(
    script, stage, conversation, endpoint, owner
):
    script(says("One."), says("Two."))
    stage.post("Hello")
    stage.play()
    set_model(conversation=conversation, user=owner, model_name="large")
    set_model(conversation=conversation, user=owner, model_name="large")
    stage.post("And now?")
    stage.play()
    assert [body["text"] for body in stage.entries("notice")] == ["owner chose large."]
    assert "chose large" not in stage.provider.requests[-1].body.decode()
    noted = conversation.changes.get(action="conversation.model")
    assert (noted.old, noted.new) == ("", "large")


def test_a_model_that_is_not_offered_is_refused(conversation, endpoint, owner):
    with pytest.raises(BadInput, match="not offered"):
        set_model(conversation=conversation, user=owner, model_name="huge")


def test_viewers_choose_nothing(conversation, endpoint, viewer):
    with pytest.raises(NotAllowed):
        set_model(conversation=conversation, user=viewer, model_name="large")


def test_the_page_lists_models_and_takes_a_choice(conversation, endpoint, member):
    client = Client()
    client.force_login(member)
    address = f"{conversation.get_absolute_url()}model/"
    assert "large" in client.get(address).content.decode()
    assert client.post(address, {"model": "large"}).status_code == 302
    assert answering(conversation) == "large"
    assert client.post(address, {"model": "huge"}).status_code == 400
