"""`/compact [focus]`: who may, what it does, and when it is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from agents import runs, sweeper, tasks
from agents.compact_actions import LONGEST_FOCUS, compact
from agents.models import ModelCall, Run
from agents.providers.scripted import Step, says
from observability.models import Record
from workspace.errors import BadInput, Conflict, NotAllowed
from workspace.models import Conversation, Entry, Turn

pytestmark = pytest.mark.django_db

SUMMARY = "## Goal\n- count the boats"
JSON = {"Accept": "application/json"}
NOT_YET = "Nothing in this conversation is old enough to be compacted yet."


def is_asking(prompt: Any) -> bool:
    return "about to be compacted" in prompt.messages[-1].text


def answering(text: str = SUMMARY, **fields: Any) -> Any:
    """A model that sums up when asked to, and otherwise answers at length."""

    def play(prompt: Any) -> Step:
        if is_asking(prompt):
            return says(text, **fields)
        return says("Six boats lie in the harbour. " * 60)

    return play


@pytest.fixture
def talked(script, stage):
    """A conversation of six questions with long answers."""
    script(*[answering()] * 30)
    for number in range(6):
        stage.post(f"Question {number}?")
        stage.play()
    return stage


def url_of(conversation: Conversation, name: str = "post") -> str:
    where = [conversation.workspace.slug, conversation.pk]
    return reverse(f"agents:{name}", args=where)


def test_a_person_compacts_a_conversation_and_says_what_matters(
    talked, conversation, client, owner
):
    client.force_login(owner)
    fields = {"text": "/compact  the number\nof boats "}
    answer = client.post(url_of(conversation), fields, headers=JSON).json()
    notice = conversation.entries.get(seq=answer["seq"])
    assert (notice.kind, notice.author) == (Entry.Kind.NOTICE, owner)
    run = talked.play()
    assert (run.state, run.trigger, run.round) == (Run.State.FINISHED, "compact", 0)
    asked = talked.provider.requests[-1].prompt
    assert asked.messages[-1].text.endswith("in particular: the number\nof boats")
    [summary] = talked.entries("summary")
    assert (summary["text"], summary["focus"]) == (SUMMARY, "the number\nof boats")
    assert Record.objects.get(kind="context.compacted").run_id == run.pk
    assert run.tokens_in == 100
    assert talked.turn().state == Turn.State.FINISHED


def test_the_command_is_never_sent_and_the_next_request_begins_with_the_summary(
    talked, conversation, owner
):
    before = talked.provider.requests[-1]
    compact(conversation=conversation, user=owner)
    talked.play()
    talked.post("And now?")
    talked.play()
    request = talked.provider.requests[-1].prompt
    texts = [one.text for one in request.messages]
    assert SUMMARY in texts[1]
    assert "Question 5?" in texts
    assert texts[-1] == "And now?"
    assert not any("compact the conversation" in text for text in texts)
    assert len(texts) < len(before.prompt.messages)
    assert len(talked.entries("user")) == 7


def test_there_is_nothing_to_gain_at_the_beginning(conversation, owner, client):
    with pytest.raises(Conflict, match=NOT_YET):
        compact(conversation=conversation, user=owner)
    client.force_login(owner)
    new = reverse("agents:new", args=[conversation.workspace.slug])
    answer = client.post(new, {"text": "/compact"}, headers=JSON)
    assert (answer.status_code, answer.json()["error"]) == (409, NOT_YET)
    assert Conversation.objects.count() == 1
    assert not Run.objects.exists()


def test_it_is_refused_soon_after_the_last_one(talked, conversation, owner):
    compact(conversation=conversation, user=owner)
    talked.play()
    talked.post("One more?")
    talked.play()
    with pytest.raises(Conflict) as refused:
        compact(conversation=conversation, user=owner)
    assert str(refused.value) == (
        "This conversation was compacted 1 round ago. It can be compacted again after 5 "
        "rounds."
    )
    assert len(conversation.entries.filter(kind=Entry.Kind.SUMMARY)) == 1


def test_it_is_refused_while_the_agent_is_at_work(talked, conversation, owner, client):
    talked.post("Question 7?")
    client.force_login(owner)
    answer = client.post(url_of(conversation), {"text": "/compact"}, headers=JSON)
    assert answer.status_code == 409
    assert "The agent is at work here." in answer.json()["error"]
    assert conversation.entries.filter(kind=Entry.Kind.NOTICE).count() == 0


def test_the_second_of_two_who_ask_at_once_is_refused(talked, conversation, owner):
    compact(conversation=conversation, user=owner)
    with pytest.raises(Conflict, match="at work"):
        compact(conversation=conversation, user=owner)


def test_who_may_not_post_may_not_compact(
    talked, conversation, client, viewer, outsider
):
    with pytest.raises(NotAllowed):
        compact(conversation=conversation, user=viewer)
    for person, status in ((viewer, 403), (outsider, 404)):
        client.force_login(person)
        answer = client.post(url_of(conversation), {"text": "/compact"}, headers=JSON)
        assert answer.status_code == status
    assert not Run.objects.filter(trigger="compact").exists()


def test_too_many_words_about_what_matters_are_refused(conversation, owner):
    with pytest.raises(BadInput, match="at most 500 characters"):
        compact(conversation=conversation, user=owner, focus="x" * (LONGEST_FOCUS + 1))


@pytest.mark.parametrize("text", ["/compacting", "compact", "//compact", "a /compact"])
def test_a_text_that_only_looks_like_the_command_is_a_message(
    text, conversation, client, owner
):
    client.force_login(owner)
    fields = {"text": text, "client_id": "1"}
    assert client.post(url_of(conversation), fields, headers=JSON).status_code == 200
    assert conversation.entries.get(kind=Entry.Kind.USER)


@pytest.mark.parametrize("text", ["/compact", "/compact a", "/context"])
def test_a_command_never_takes_the_place_of_a_message(
    text, talked, conversation, client, owner
):
    client.force_login(owner)
    seq = conversation.entries.filter(kind=Entry.Kind.USER).last().seq
    fields = {"text": text, "client_id": "1", "to_seq": seq}
    answer = client.post(url_of(conversation, "resend"), fields, headers=JSON)
    assert answer.status_code == 400
    assert conversation.entries.filter(kind=Entry.Kind.USER).count() == 6


def test_what_is_said_while_it_is_compacted_is_answered_by_the_same_run(
    script, talked, conversation, owner
):
    script(
        answering(before=lambda: talked.post("Are you there?")),
        answering(),
    )
    compact(conversation=conversation, user=owner)
    run = talked.play()
    assert (run.state, run.round) == (Run.State.FINISHED, 1)
    texts = [one.text for one in talked.provider.requests[-1].prompt.messages]
    assert SUMMARY in texts[1]
    assert texts[-1] == "Are you there?"


def test_a_worker_lost_behind_the_summary_makes_no_second_one(
    talked, conversation, owner, monkeypatch
):
    compact(conversation=conversation, user=owner)
    hold = talked.claim()

    def lose(*args: Any) -> bool:
        Run.objects.filter(pk=hold.run.pk).update(lease_until="2020-01-01T00:00:00Z")
        sweeper.sweep()
        return finish(*args)

    finish = runs.finish
    with monkeypatch.context() as patch:
        patch.setattr(runs, "finish", lose)
        tasks.play_held(hold, talked.choice)
    assert Run.objects.get(pk=hold.run.pk).state == Run.State.QUEUED
    assert talked.play().state == Run.State.FINISHED
    assert len(talked.entries("summary")) == 1
    assert ModelCall.objects.filter(run=hold.run).count() == 1


def test_a_stop_ends_it_and_leaves_the_conversation_as_it_was(
    script, talked, conversation, owner
):
    def stop() -> None:
        hold.interrupt.stop(runs.RunStoppedByUser())

    script(answering(before=stop, pause=5))
    compact(conversation=conversation, user=owner)
    hold = talked.claim()
    tasks.play_held(hold, talked.choice)
    assert Run.objects.get(pk=hold.run.pk).state == Run.State.STOPPED
    assert talked.entries("summary") == []


def test_the_chat_says_that_it_is_lossy_and_what_was_kept(
    talked, conversation, owner, client
):
    compact(conversation=conversation, user=owner, focus="<b>boats</b>")
    talked.play()
    client.force_login(owner)
    page = client.get(conversation.get_absolute_url()).content.decode()
    [summary] = talked.entries("summary")
    assert (
        f"Compacted here: about {summary['before']:,} → {summary['after']:,} tokens"
        in page
    )
    assert "details may be lost to it" in page
    assert "Asked to keep in particular: &lt;b&gt;boats&lt;/b&gt;" in page
    assert "asked to compact the conversation and to keep" in page
    assert "Question 0?" in page


def test_a_model_that_gives_no_summary_is_told_of(script, talked, conversation, owner):
    script(answering(text=""))
    compact(conversation=conversation, user=owner)
    assert talked.play().state == Run.State.FINISHED
    [summary] = talked.entries("summary")
    assert summary["source"] == "mechanical"
    assert "Question 4?" in summary["text"]


def test_somebody_who_may_no_longer_post_has_nothing_compacted(
    talked, conversation, member, workspace
):
    compact(conversation=conversation, user=member)
    workspace.memberships.filter(user=member).delete()
    assert talked.play().state == Run.State.FAILED
    assert talked.entries("summary") == []
