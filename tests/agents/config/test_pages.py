"""The page of all settings: what it shows, who may change it, and what it says."""

from __future__ import annotations

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils.translation import override

from agents.config.layers import effective
from agents.config.schema import keys
from agents.config_actions import save_settings
from agents.models import Setting
from agents.seeding import seed_workspace
from workspace.models import Change


@pytest.fixture
def as_(client):
    def use(person):
        client.force_login(person)
        return client

    return use


@pytest.fixture
def url(workspace):
    return reverse("agents:settings_all", args=[workspace.slug])


def change(browser, workspace, name, query="", **data):
    url = reverse("agents:change_setting", args=[workspace.slug, name])
    return browser.post(url + query, data)


def text_of(response):
    return response.content.decode()


def said(response):
    return [str(message) for message in response.context["messages"]]


def test_a_reader_sees_every_setting_with_its_origin_and_no_form(
    as_, viewer, workspace, owner, url, django_assert_max_num_queries
):
    save_settings(by=owner, scope=workspace, values={"tools.indexBudget": 77})
    seed_workspace(workspace)
    browser = as_(viewer)
    with django_assert_max_num_queries(20):
        response = browser.get(url)
    page = text_of(response)
    for name in keys():
        assert f'id="{name}"' in page
    lines = {line.key.name: line for line in response.context["lines"]}
    assert lines["tools.indexBudget"].origins == ["Workspace"]
    assert lines["tools.deferred"].origins == ["Built-in"]
    assert "In new conversations" in page
    assert "<textarea" not in page
    assert "owner" in page  # who changed it


def test_an_admin_changes_a_setting_and_it_leaves_its_trace(as_, admin, workspace, url):
    browser = as_(admin)
    answer = change(browser, workspace, "tools.indexBudget", value="1,000")
    assert answer["Location"] == url
    assert effective(workspace)["tools.indexBudget"].value == 1_000
    made = Change.objects.get(action="setting.changed")
    assert (made.by, made.subject, made.old, made.new) == (
        admin,
        "tools.indexBudget",
        None,
        1_000,
    )
    [message] = said(browser.get(url))
    assert message.startswith("Changed: tools.indexBudget.")


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("tools.deferred", "false", False),
        ("tools.toolSearch.enabled", "true", True),
        ("tools.eagerPolicy", "additive", "additive"),
        ("tools.visible", "git_log\n\n git_diff \ngit_log", ["git_log", "git_diff"]),
        ("tools.disabled", "", []),
        ("agent.systemPrompt", " Be brief. ", "Be brief."),
    ],
)
def test_each_kind_of_value_is_stored_as_json_would_hold_it(
    as_, owner, workspace, name, value, stored
):
    assert change(as_(owner), workspace, name, value=value).status_code == 302
    assert Setting.objects.get(workspace=workspace).value == stored


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("tools.indexBudget", "many", "tools.indexBudget cannot be &quot;many&quot;"),
        ("tools.indexBudget", "-1", "It takes a whole number, at least 0."),
        ("tools.indexBudget", "", "This field is required."),
        ("tools.eagerPolicy", "add", "add is not one of the available choices"),
        ("tools.eager", "git_log\nmcp__github__x", "Did you mean tools.visible"),
        ("agent.systemPrompt", "x" * 200_001, "It takes a text"),
    ],
)
def test_a_wrong_value_is_refused_in_its_row_and_stays_there(
    as_, owner, workspace, name, value, sentence
):
    response = change(as_(owner), workspace, name, value=value)
    assert response.status_code == 400
    assert sentence in text_of(response)
    [line] = [line for line in response.context["lines"] if line.form.errors]
    assert line.key.name == name
    assert line.form["value"].value() == value
    assert not Setting.objects.exists()


def test_the_second_of_two_who_change_at_once_is_told(as_, owner, workspace):
    save_settings(by=owner, scope=workspace, values={"tools.indexBudget": 77})
    response = change(
        as_(owner), workspace, "tools.indexBudget", value="100", seen="null"
    )
    assert response.status_code == 400
    assert "Somebody else has changed tools.indexBudget" in text_of(response)
    assert effective(workspace)["tools.indexBudget"].value == 77
    [line] = [line for line in response.context["lines"] if line.form.errors]
    seen = line.form["seen"].value()
    change(as_(owner), workspace, "tools.indexBudget", value="100", seen=seen)
    assert effective(workspace)["tools.indexBudget"].value == 100


def test_the_effect_is_shown_before_saving(as_, owner, workspace):
    response = change(
        as_(owner), workspace, "tools.eager", value="read_file\nshell", do="preview"
    )
    assert response.status_code == 200
    [line] = [line for line in response.context["lines"] if line.difference]
    assert line.difference.tokens < -100
    assert "edit_file" in line.difference.on_demand
    assert "shell" not in line.difference.on_demand
    page = text_of(response)
    assert f"{len(line.difference.on_demand)} tools become on demand:" in page
    assert "read_file\nshell</textarea>" in page
    assert not Setting.objects.exists()


def test_reset_goes_back_to_the_layer_below(as_, owner, workspace):
    save_settings(by=None, scope=None, values={"tools.indexBudget": 5})
    save_settings(by=owner, scope=workspace, values={"tools.indexBudget": 77})
    change(as_(owner), workspace, "tools.indexBudget", do="reset")
    found = effective(workspace)["tools.indexBudget"]
    assert (found.value, found.origin) == (5, "server")
    last = Change.objects.latest("pk")
    assert (last.old, last.new) == (77, None)


def test_the_form_of_a_union_holds_only_what_the_layer_itself_names(
    as_, owner, workspace, url
):
    save_settings(by=None, scope=None, values={"tools.visible": ["git_log"]})
    browser = as_(owner)

    def line():
        lines = browser.get(url).context["lines"]
        return next(one for one in lines if one.key.name == "tools.visible")

    assert line().value.value == ["git_log"]
    assert line().form["value"].value() == ""
    change(browser, workspace, "tools.visible", value="list_dir")
    assert line().value.value == ["git_log", "list_dir"]
    assert line().form["value"].value() == "list_dir"
    assert line().origins == ["Workspace", "Server"]


def test_an_agent_has_a_layer_of_its_own(as_, owner, workspace, url):
    agent = seed_workspace(workspace)
    browser = as_(owner)
    answer = change(
        browser, workspace, "tools.deferred", f"?agent={agent.name}", value="false"
    )
    assert answer["Location"] == f"{url}?agent={agent.name}"
    assert effective(agent)["tools.deferred"].origin == "agent"
    assert effective(workspace)["tools.deferred"].value is True
    page = browser.get(f"{url}?agent={agent.name}")
    assert page.context["changes"][0].subject == f"tools.deferred · {agent.name}"
    assert browser.get(f"{url}?agent=nobody").status_code == 404


def test_settings_are_imported_from_a_text_or_a_file_all_or_none(
    as_, owner, workspace, url
):
    browser = as_(owner)
    address = reverse("agents:import_settings", args=[workspace.slug])
    text = '{"tools": {"visible": ["git_lgo"],}, "agents.childContext": "full"} // done'
    assert browser.post(address, {"text": text}).status_code == 302
    warnings = said(browser.get(url))
    assert any("no tool is called git_lgo now. Nearest: git_log" in w for w in warnings)
    assert effective(workspace)["agents.childContext"].value == "full"

    wrong = SimpleUploadedFile("s.json", b'{"tools.indexBudget": 9, "tools.eagr": []}')
    refused = browser.post(address, {"file": wrong})
    assert refused.status_code == 400
    assert "Did you mean tools.eager?" in text_of(refused)
    assert effective(workspace)["tools.indexBudget"].value == 250

    file = SimpleUploadedFile("s.json", b'{"tools.indexBudget": 9}')
    assert browser.post(address, {"file": file}).status_code == 302
    assert effective(workspace)["tools.indexBudget"].value == 9


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "Enter the settings, or choose a file."),
        ({"file": SimpleUploadedFile("s", b"\xff")}, "The file is not text in UTF-8."),
        ({"text": "{"}, "This is not JSON: line 1, column 2"),
    ],
)
def test_what_is_no_settings_is_refused_on_the_page(
    as_, owner, workspace, data, sentence
):
    address = reverse("agents:import_settings", args=[workspace.slug])
    response = as_(owner).post(address, data)
    assert response.status_code == 400
    assert sentence in text_of(response)


def test_an_export_is_imported_as_it_was(as_, owner, workspace, outsider):
    values = {"tools.eager": ["shell"], "tools.disabled": [], "tools.deferred": False}
    save_settings(by=owner, scope=workspace, values=values)
    browser = as_(owner)
    address = reverse("agents:export_settings", args=[workspace.slug])
    answer = browser.get(address)
    assert json.loads(answer.content)["tools"]["eager"] == ["shell"]
    assert "attachment" in answer["Content-Disposition"]
    elsewhere = outsider.memberships.get().workspace
    into = reverse("agents:import_settings", args=[elsewhere.slug])
    as_(outsider).post(into, {"text": answer.content.decode()})
    assert effective(elsewhere).settings == effective(workspace).settings
    everything = json.loads(as_(owner).get(f"{address}?all").content)
    assert everything["agent"]["keepToolRounds"] == 6


def test_what_is_no_setting_has_no_address(as_, owner, workspace):
    assert change(as_(owner), workspace, "tools.gone", value="1").status_code == 404


def test_a_locked_setting_says_who_locked_it(as_, owner, url, settings):
    settings.TOOL_DEFERRAL = False
    page = text_of(as_(owner).get(url))
    assert "The server was started with --tool-deferral=off" in page


def test_an_override_of_instructions_that_changed_since_shows_the_difference(
    as_, owner, workspace, url
):
    browser = as_(owner)
    change(browser, workspace, "agent.systemPrompt", value="Be brief.")
    assert "The base instructions have changed" not in text_of(browser.get(url))
    Setting.objects.update(written_against="You are somebody else.")
    page = text_of(browser.get(url))
    assert "The base instructions have changed" in page
    assert "-You are somebody else." in page
    change(
        browser, workspace, "agent.systemPrompt", value="Be brief.", seen='"Be brief."'
    )
    assert "The base instructions have changed" not in text_of(browser.get(url))


def test_values_are_text_and_never_markup(as_, owner, workspace, url):
    hostile = "<script>alert(1)</script>"
    save_settings(by=owner, scope=workspace, values={"tools.disabled": [hostile]})
    page = text_of(as_(owner).get(url))
    assert hostile not in page
    assert "&lt;script&gt;alert" in page


def test_the_page_speaks_korean(as_, owner, workspace, url):
    browser = as_(owner)
    with override("ko"):  # ends what the request switches on
        page = text_of(browser.get(url, headers={"accept-language": "ko"}))
    assert "전체 설정" in page
    assert "새 대화부터" in page
    assert "기본값" in page
