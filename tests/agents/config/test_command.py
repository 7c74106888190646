"""`manage.py settings`: the operator's way to every layer."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from agents.actions import start_conversation
from agents.config.layers import effective
from agents.config.schema import keys
from agents.config_actions import save_settings
from agents.seeding import seed_workspace
from workspace.errors import NotAllowed, NotVisible
from workspace.models import Change


def run(*arguments, errors=None):
    out = io.StringIO()
    call_command("settings", *arguments, stdout=out, stderr=errors or io.StringIO())
    return out.getvalue().rstrip("\n")


def test_a_value_is_set_read_and_unset_and_each_change_is_kept(db):
    assert run("get", "tools.indexBudget") == "250  (built-in)"
    done = "Changed tools.indexBudget; holds from the next conversation on."
    assert run("set", "tools.indexBudget", "9") == done
    assert run("set", "tools.indexBudget", "9") == "Nothing changed."
    assert run("get", "tools.indexBudget") == "9  (server)"
    assert json.loads(run("get", "tools.indexBudget", "--json")) == {
        "name": "tools.indexBudget",
        "value": 9,
        "origin": "server",
        "takesEffect": "next conversation",
    }
    assert run("unset", "tools.indexBudget") == done
    assert run("unset", "tools.indexBudget") == "Nothing changed."
    changes = (
        Change.objects.filter(action="setting.changed")
        .order_by("pk")
        .values_list("old", "new", "by")
    )
    assert list(changes) == [(None, 9, None), (9, None, None)]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("tools.eagerPolicy", "additive", "additive"),
        ("tools.visible", '["git_log"]', ["git_log"]),
        ("tools.eager", "[]", []),
        ("agent.systemPrompt", "Be brief.", "Be brief."),
        ("tools.deferred", "false", False),
    ],
)
def test_values_are_json_or_plain_words(db, key, text, value):
    run("set", key, text)
    assert effective()[key].value == value


def test_each_layer_has_its_option(workspace, owner):
    agent = seed_workspace(workspace)
    talk = start_conversation(workspace=workspace, author=owner)
    places = (
        ("--workspace", workspace.slug),
        ("--agent", f"{workspace.slug}/{agent.name}"),
        ("--conversation", str(talk.pk)),
    )
    for number, place in enumerate(places):
        run("set", "tools.indexBudget", str(number), *place)
    for number, place in enumerate(places):
        layer = place[0].removeprefix("--")
        assert run("get", "tools.indexBudget", *place) == f"{number}  ({layer})"
    assert run("get", "tools.indexBudget") == "250  (built-in)"


def test_the_list_names_every_setting(db):
    lines = run("list").splitlines()
    assert [line.split()[0] for line in lines] == list(keys())
    assert [row["name"] for row in json.loads(run("list", "--json"))] == list(keys())


def test_an_export_of_the_server_is_imported_again(db, tmp_path):
    run("set", "tools.visible", '["git_log"]')
    file = tmp_path / "settings.json"
    file.write_text(run("export"))
    run("unset", "tools.visible")
    warned = io.StringIO()
    assert run("import", str(file), errors=warned).startswith("Changed tools.visible")
    file.write_text('{"agents.childContext": "full",} // later')
    run("import", str(file), errors=warned)
    assert run("get", "agents.childContext") == '"full"  (server)'
    assert warned.getvalue() == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["get", "tools.eagr"], "Did you mean tools.eager?"),
        (["set", "tools.deferred", "maybe"], "It takes true or false."),
        (["set", "tools.deferred", "true", "--workspace", "gone"], "no workspace"),
        (["list", "--agent", "assistant"], "Write the agent as WORKSPACE/NAME"),
        (["list", "--agent", "a/b"], "There is no agent 'a/b'."),
        (["list", "--conversation", "7"], "not a conversation's id"),
        (["list", "--agent", "a/b", "--workspace", "a"], "Name one of"),
        (["import", "/nowhere/file"], "cannot be read"),
        (["set", "tools.eager", '["git_log"]'], "Did you mean tools.visible"),
    ],
)
def test_bad_usage_is_refused_with_a_sentence(db, arguments, sentence):
    with pytest.raises(CommandError, match=sentence.replace("?", r"\?")) as refusal:
        run(*arguments)
    assert refusal.value.returncode == 2


def test_people_change_the_layers_of_their_workspace_alone(
    workspace, owner, member, outsider
):
    values = {"tools.deferred": False}
    agent = seed_workspace(workspace)
    for scope in (workspace, agent):
        with pytest.raises(NotAllowed):
            save_settings(by=member, scope=scope, values=values)
        with pytest.raises(NotVisible):
            save_settings(by=outsider, scope=scope, values=values)
    with pytest.raises(NotVisible):
        save_settings(by=owner, scope=None, values=values)
    assert not Change.objects.filter(action="setting.changed").exists()
