"""The agents that keep the notes: when they work, with what, and what comes of it."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from agents import memory_agents, memory_schedule
from agents.config_actions import save_settings
from agents.endpoints import Choice
from agents.errors import ProviderRejected
from agents.memory_folder import MOST_CHANGES
from agents.models import Endpoint, LanguageModel, Memory, MemoryRun
from agents.providers.base import Usage
from agents.providers.scripted import ScriptedProvider, calls, raises, says
from workspace.models import Conversation, Membership

pytestmark = pytest.mark.django_db
WRITE = "user/tea.md"


@pytest.fixture(autouse=True)
def rung(monkeypatch):
    keys: list[str] = []
    monkeypatch.setattr(memory_schedule, "ring", keys.append)
    return keys


@pytest.fixture
def model(workspace, owner):
    """A model that is no simulator, so that agents learn from it."""
    endpoint = Endpoint.objects.create(
        workspace=workspace,
        name="Real",
        kind="chat_completions",
        base_url="http://127.0.0.1:9/v1",
        created_by=owner,
    )
    made = LanguageModel.objects.create(
        endpoint=endpoint, name="real", is_default=True, price_input=1, price_output=2
    )
    made.refresh_from_db()
    return made


@pytest.fixture
def talked(script, stage, model):
    """A conversation that has been answered."""
    script(says("You like tea, noted."))
    stage.post("I like tea, remember the pot is blue")
    stage.play()
    return stage.conversation


def later(**more):
    return timezone.now() + timedelta(minutes=6, **more)


def extraction(conversation):
    memory_schedule.remember(later())
    return MemoryRun.objects.get(conversation=conversation)


def play(run, model, *steps):
    provider = ScriptedProvider(*steps)
    memory_agents.play(run.pk, Choice(provider, model.endpoint, model))
    run.refresh_from_db()
    return provider


def night(workspace, owner, count=5):
    for number in range(count):
        Memory.objects.create(
            workspace=workspace,
            scope="user",
            user=owner,
            text=f"Fact {number}.",
            source="tool",
        )
    memory_schedule.remember(datetime(2026, 12, 2, 3, 30, tzinfo=UTC))
    return MemoryRun.objects.get(kind="consolidation")


def rewrites(*pairs):
    """Steps that read notes and give them other texts."""
    reads = [calls("read_file", path=path) for path, _text in pairs]
    writes = [calls("write_file", path=path, content=text) for path, text in pairs]
    return [*reads, *writes, says("Done.")]


def declared(provider):
    body = json.loads(provider.requests[0].body)
    return [tool["function"]["name"] for tool in body["tools"]]


def test_a_conversation_is_looked_at_once_after_it_rested(talked, rung):
    assert memory_schedule.remember(timezone.now()) == 0
    run = extraction(talked)
    assert (run.kind, run.user, rung) == (
        "extraction",
        talked.created_by,
        [str(run.pk)],
    )
    memory_schedule.remember(later())
    assert MemoryRun.objects.count() == 1


def test_what_was_said_becomes_notes_with_their_origin(talked, model, owner):
    run = extraction(talked)
    provider = play(
        run,
        model,
        calls("write_file", path=WRITE, content="Likes tea."),
        says("One note."),
    )
    assert b"the pot is blue" in provider.requests[0].body
    [note] = Memory.objects.all()
    assert (note.text, note.scope, note.user) == ("Likes tea.", "user", owner)
    assert (note.source, note.conversation) == ("extraction", talked)
    assert (run.state, run.changes, run.message) == ("finished", 1, "")


def test_extraction_declares_exactly_five_tools_and_has_no_shell(talked, model):
    run = extraction(talked)
    provider = play(run, model, calls("shell", command="ls"), says("None."))
    names = ["edit_file", "glob", "grep", "read_file", "write_file"]
    assert declared(provider) == names
    refusal = json.loads(provider.requests[1].body)["messages"][-1]["content"]
    assert "There is no tool 'shell' here" in refusal


def test_consolidation_declares_exactly_six_tools(workspace, owner, model):
    run = night(workspace, owner)
    provider = play(run, model, says("Nothing."))
    assert declared(provider) == [
        "edit_file",
        "glob",
        "grep",
        "read_file",
        "shell",
        "write_file",
    ]


def test_eager_lists_do_not_matter_and_denied_tools_degrade(
    talked, model, workspace, owner
):
    save_settings(by=owner, scope=workspace, values={"tools.eager": []})
    workspace.permission_rules = {"deny": ["glob"]}
    workspace.save()
    run = extraction(talked)
    provider = play(run, model, says("Nothing."))
    assert declared(provider) == ["edit_file", "grep", "read_file", "write_file"]
    assert run.state == "finished"
    assert run.is_degraded
    assert "glob" in run.missing
    assert run.missing["glob"]


def test_without_any_tool_that_writes_it_fails_before_it_costs(
    talked, model, workspace
):
    workspace.permission_rules = {"deny": ["write_file", "edit_file"]}
    workspace.save()
    run = extraction(talked)
    provider = play(run, model)
    assert (run.state, provider.requests) == ("failed", [])


def test_a_note_is_corrected_by_editing_its_file_and_forgotten_by_emptying_it(
    workspace, owner, model
):
    run = night(workspace, owner)
    first, second = Memory.objects.order_by("pk")[:2]
    one, two = f"user/mem-{first.pk}.md", f"user/mem-{second.pk}.md"
    play(
        run,
        model,
        calls("read_file", path=one) + calls("read_file", path=two),
        calls("edit_file", path=one, old_string="Fact 0", new_string="Truth 0")
        + calls("write_file", path=two, content=""),
        says("Tidied."),
    )
    first.refresh_from_db()
    assert first.text == "Truth 0."
    assert not Memory.objects.filter(pk=second.pk).exists()
    assert run.changes == 2


def test_pinned_notes_stay_whatever_is_tried(workspace, owner, model):
    run = night(workspace, owner)
    note = Memory.objects.order_by("pk").first()
    Memory.objects.filter(pk=note.pk).update(pinned=True)
    path = f"mem-{note.pk}.md"
    provider = play(
        run,
        model,
        calls("write_file", path=f"pinned/{path}", content="x")
        + calls("write_file", path=f"PINNED/{path}", content="x")
        + calls("write_file", path=f"user/../pinned/{path}", content="x")
        + calls("write_file", path=f"user/{path}", content="Forged."),
        says("Tried."),
    )
    said = provider.requests[1].body.decode()
    assert said.count("is no place for a note") == 3
    note.refresh_from_db()
    assert note.text == "Fact 0."


def test_the_shell_of_the_night_cannot_write(workspace, owner, model):
    from agents import sandbox

    if sandbox.available():
        pytest.skip("no sandbox on this machine")
    run = night(workspace, owner)
    play(
        run,
        model,
        calls("shell", command="rm -rf user; echo x > workspace/n.md"),
        says("No."),
    )
    assert Memory.objects.count() == 5
    assert run.changes == 0


def test_nothing_leaves_the_folder(talked, model, workspace):
    (workspace.root / "secret.txt").write_text("swordfish")
    run = extraction(talked)
    provider = play(
        run,
        model,
        calls("read_file", path="secret.txt") + calls("read_file", path="/etc/passwd"),
        says("No."),
    )
    assert b"swordfish" not in provider.requests[1].body
    assert b"root:" not in provider.requests[1].body


def test_a_secret_is_refused_and_the_others_are_kept(talked, model):
    run = extraction(talked)
    play(
        run,
        model,
        calls("write_file", path="user/a.md", content="password: hunter2hunter2")
        + calls("write_file", path="user/b.md", content="Likes tea."),
        says("Two."),
    )
    assert [note.text for note in Memory.objects.all()] == ["Likes tea."]
    assert "never hold secrets" in run.message


def test_what_is_learned_in_private_is_its_persons_alone(talked, model, owner):
    Conversation.objects.filter(pk=talked.pk).update(private=True)
    run = extraction(talked)
    play(
        run,
        model,
        calls("write_file", path="workspace/a.md", content="A plan."),
        says("One."),
    )
    note = Memory.objects.get()
    assert (note.scope, note.user, note.private) == ("user", owner, True)


def test_a_run_changes_only_notes_that_its_person_may_change(
    talked, model, owner, member, workspace
):
    Conversation.objects.filter(pk=talked.pk).update(created_by=member)
    fields = {"workspace": workspace, "scope": "workspace", "source": "person"}
    theirs = Memory.objects.create(text="Pay Ann.", created_by=owner, **fields)
    kept = Memory.objects.create(text="Ship it.", created_by=owner, **fields)
    run = extraction(talked)
    assert run.user == member
    play(
        run,
        model,
        *rewrites(
            (f"workspace/mem-{theirs.pk}.md", "Pay Bob."),
            (f"workspace/mem-{kept.pk}.md", ""),
        ),
    )
    assert {note.text for note in Memory.objects.all()} == {"Pay Ann.", "Ship it."}
    assert "only who added it or an admin" in run.message


def test_what_is_said_in_private_never_rewrites_a_note_that_others_are_told(
    talked, model, owner, workspace
):
    Conversation.objects.filter(pk=talked.pk).update(private=True)
    fields = {"workspace": workspace, "source": "tool", "created_by": owner}
    shared = Memory.objects.create(text="Ship it.", scope="workspace", **fields)
    own = Memory.objects.create(text="Tea.", scope="user", user=owner, **fields)
    run = extraction(talked)
    play(
        run,
        model,
        *rewrites(
            (f"workspace/mem-{shared.pk}.md", "Blue pot."),
            (f"user/mem-{own.pk}.md", "Tea, blue pot."),
        ),
    )
    shared.refresh_from_db()
    own.refresh_from_db()
    assert shared.text == "Ship it."
    assert (own.text, own.private) == ("Tea, blue pot.", True)
    assert "its person alone" in run.message


def test_notes_that_are_joined_with_private_ones_are_private(workspace, owner, model):
    run = night(workspace, owner)
    first, second, *_rest = Memory.objects.order_by("pk")
    Memory.objects.filter(pk=first.pk).update(private=True)
    play(
        run,
        model,
        calls("write_file", path="user/all.md", content="Facts 0 to 4."),
        *rewrites((f"user/mem-{second.pk}.md", "Fact 0 and 1.")),
    )
    assert Memory.objects.get(text="Fact 0 and 1.").private
    assert Memory.objects.get(text="Facts 0 to 4.").private


def test_a_run_that_ends_early_changes_nothing(talked, model):
    run = extraction(talked)
    play(
        run,
        model,
        calls("write_file", path=WRITE, content="Half done."),
        raises(ProviderRejected("It refuses.")),
    )
    assert (run.state, run.message) == ("failed", "It refuses.")
    assert not Memory.objects.exists()
    assert run.tokens_in > 0


def test_its_cost_is_kept_with_it(talked, model):
    run = extraction(talked)
    usage = Usage(input=1_000_000, output=500_000, reported=True)
    play(run, model, says("None.", usage=usage))
    assert (run.tokens_in, run.tokens_out, run.cost) == (1_000_000, 500_000, 2)
    assert run.model_name == "real"


def test_a_lost_worker_is_replaced_a_few_times(talked, model):
    run = extraction(talked)
    for tries in (1, 2, 3):
        taken = memory_agents.claim(run.pk)
        assert taken
        assert taken.tries == tries
        assert memory_agents.claim(run.pk) is None
        memory_schedule.recover(later(hours=1))
    run.refresh_from_db()
    assert (run.state, run.message) == ("failed", "Its worker was lost several times.")


def test_a_worker_that_comes_back_late_changes_no_outcome(talked, model):
    run = extraction(talked)
    late = memory_agents.claim(run.pk)
    memory_schedule.recover(later(hours=1))
    assert memory_agents.claim(run.pk)
    memory_agents.end(late, "failed", "Too late.")
    run.refresh_from_db()
    assert run.state == "running"


@pytest.mark.parametrize("switch", ["memory.enabled", "memory.extraction"])
def test_switched_off_nothing_is_queued_and_what_was_queued_is_not_done(
    talked, model, workspace, owner, switch
):
    run = extraction(talked)
    save_settings(by=owner, scope=workspace, values={switch: False})
    provider = play(run, model)
    assert (run.message, provider.requests) == ("Switched off in the settings.", [])
    MemoryRun.objects.all().delete()
    memory_schedule.remember(later())
    assert not MemoryRun.objects.exists()


def test_nobody_is_worked_for_who_may_no_longer_post(talked, model, member, workspace):
    run = extraction(talked)
    MemoryRun.objects.filter(pk=run.pk).update(user=member)
    Membership.objects.filter(user=member).update(role="viewer")
    play(run, model)
    assert "may no longer write here" in run.message


def test_the_simulator_learns_nothing(script, stage, settings):
    settings.SIMULATOR = True
    script(says("Hello."))
    stage.post("Hi")
    stage.play()
    memory_schedule.remember(later())
    assert not MemoryRun.objects.exists()


def test_notes_are_tidied_once_a_night_and_only_if_some_changed(
    workspace, owner, model
):
    night(workspace, owner)
    again = datetime(2026, 12, 2, 4, 30, tzinfo=UTC)
    memory_schedule.remember(again)
    memory_schedule.remember(again + timedelta(days=1))
    assert MemoryRun.objects.filter(kind="consolidation").count() == 1
    noon = datetime(2026, 12, 3, 12, 0, tzinfo=UTC)
    Memory.objects.update(updated_at=noon)
    memory_schedule.remember(noon)
    assert MemoryRun.objects.filter(kind="consolidation").count() == 1
    memory_schedule.remember(datetime(2026, 12, 4, 3, 0, tzinfo=UTC))
    assert MemoryRun.objects.filter(kind="consolidation").count() == 2


def test_one_run_makes_only_so_many_changes(talked, model):
    run = extraction(talked)
    writes = [
        calls("write_file", path=f"user/{n:02}.md", content=f"Fact {n}.")
        for n in range(MOST_CHANGES + 5)
    ]
    many = writes[0]
    for one in writes[1:]:
        many += one
    play(run, model, many, says("Many."))
    assert Memory.objects.count() == MOST_CHANGES
    assert "changes were left out" in run.message


def test_the_folder_is_gone_afterwards(talked, model, settings):
    run = extraction(talked)
    play(run, model, says("None."))
    assert os.listdir(os.path.join(settings.VAR_DIR, "memory")) == []


def test_the_page_shows_runs_with_what_they_lacked(
    talked, model, member, owner, client
):
    run = extraction(talked)
    MemoryRun.objects.filter(pk=run.pk).update(missing={"glob": "denied by glob"})
    url = f"/w/{talked.workspace.slug}/settings/memory/"
    client.force_login(owner)
    page = client.get(url).content.decode()
    assert "degraded" in page
    assert "denied by glob" in page
    client.force_login(member)
    assert "denied by glob" not in client.get(url).content.decode()
