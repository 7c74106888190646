"""Settings as people write them, and what is said of those that cannot be used."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.config.reading import nearest, parse, read
from agents.config.schema import Settings, keys, nested
from workspace.errors import BadInput

#: Every JSON example of the four documents, as it stands there.
EXAMPLES = {
    "the allow list of resident-context-cost": (
        """{
"tools": {
"eager": [
"read_file",
"write_file",
"edit",
"glob",
"grep_search",
"run_shell_command",
"skill",
],
},
}""",
        {
            "tools.eager": [
                "read_file",
                "write_file",
                "edit",
                "glob",
                "grep_search",
                "run_shell_command",
                "skill",
            ]
        },
    ),
    "the repeat guard of tools-and-context-budget": (
        """{
  "tools": {
    "repeatGuard": false
  }
}""",
        {"tools.repeatGuard": False},
    ),
    "the children of tools-and-context-budget": (
        """{
  "agents": {
    "childContext": "lean"
  }
}""",
        {"agents.childContext": "lean"},
    ),
    "the rules files of tools-and-context-budget": (
        """{
  "agent": {
    "contextFileMaxChars": 20000,
    "contextFilesMaxChars": 60000,
    "ignoreContextFiles": false
  }
}""",
        {
            "agent.contextFileMaxChars": 20000,
            "agent.contextFilesMaxChars": 60000,
            "agent.ignoreContextFiles": False,
        },
    ),
}


@pytest.mark.parametrize(("text", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_json_examples_of_the_four_documents_are_read(text, expected):
    assert read(text).values == expected


#: What the documents write in running text.
INLINE = (
    ("tools.repeatGuard", "false"),
    ("tools.deferred", "false"),
    ("tools.deferred", "true"),
    ("tools.eager", "[]"),
    ("tools.toolSearch.enabled", "false"),
    ("tools.toolSearch.threshold", "0"),
    ("agent.pruneToolOutputs", "false"),
    ("agent.pruneToolOutputs", "true"),
    ("agent.keepToolRounds", "6"),
    ("agent.ignoreContextFiles", "true"),
    ("agents.childContext", '"full"'),
    ("skills.protectRecentViews", "2"),
    ("tools.visible", '["agent"]'),
    ("tools.disabled", '["grep_search", "group:browser", "mcp__*"]'),
)


@pytest.mark.parametrize(("name", "value"), INLINE)
def test_the_settings_named_in_their_text_take_their_values(name, value):
    assert read(f'{{"{name}": {value}}}').values == {name: json.loads(value)}


def test_the_defaults_are_those_of_the_documents():
    defaults = {name: key.default for name, key in keys().items()}
    assert defaults | {
        "tools.repeatGuard": True,
        "tools.deferred": True,
        "tools.toolSearch.enabled": True,
        "tools.toolSearch.threshold": 0,
        "agent.pruneToolOutputs": True,
        "agent.keepToolRounds": 6,
        "agent.contextFileMaxChars": None,
        "agent.contextFilesMaxChars": None,
        "agents.childContext": "lean",
        "skills.protectRecentViews": 2,
    } == dict(defaults)
    assert Settings.model_validate(nested(defaults)) == Settings()


def test_comments_trailing_commas_and_dotted_names_are_taken():
    text = """// what this server keeps
    {
      "tools.eager": [ "shell", /* and */ "grep", ], // both
      "tools": {"indexBudget": 100,},
      "agent": {"systemPrompt": "see // https://a.example/*, ]\\" */"},
    }"""
    assert read(text).values == {
        "tools.eager": ["shell", "grep"],
        "tools.indexBudget": 100,
        "agent.systemPrompt": 'see // https://a.example/*, ]" */',
    }


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), plain), st.sampled_from([None, 0, 2]))
def test_whatever_is_json_is_read_as_json_reads_it(value, indent):
    assert parse(json.dumps(value, indent=indent, ensure_ascii=False)) == value


@given(st.text(alphabet='{}[],:"/*\\ntrue1 ', max_size=40))
def test_no_text_does_more_than_be_refused(text):
    with contextlib.suppress(BadInput):
        assert isinstance(parse(text), dict)


@pytest.mark.parametrize("piece", ['"\\', "/*", ",/*", ",  ", "[", '\\"'])
def test_a_hostile_text_takes_no_longer_than_another(piece):
    started = time.perf_counter()
    with pytest.raises(BadInput):
        parse("{" + piece * 200_000)
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "This is not JSON: line 1, column 2 cannot be read."),
        ('{"tools":\n {"eager" []}}', "line 2, column 11"),
        ("[]", "Settings are one JSON object"),
        ('{"tools.eager": [], "tools": {"eager": []}}', "tools.eager is set twice"),
        ('{"tools.eager": [], "tools.eager": []}', "tools.eager is set twice"),
        ('{"tools": {"toolSearch": {"threshold": NaN}}}', "NaN is not a value"),
        ('{"permissions": {"deny": []}}', "on the page Permissions"),
        ('{"permissions.allow": []}', "on the page Permissions"),
        ("{,}", "line 1, column 2"),
        ('{"tools.eager": [,]}', "line 1, column 18"),
        ('{"tools.eager": ["a",,]}', "cannot be read"),
        ('{"tools.eager": []},', "line 1, column 20"),
        ('{"tools.eager": ["a', "line 1, column 18"),
        ("{/* never closed", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text, sentence):
    with pytest.raises(BadInput) as refusal:
        read(text)
    assert sentence in refusal.value.message


def test_the_deepest_nesting_is_refused_and_not_a_crash():
    with pytest.raises(BadInput, match="nested too deeply"):
        parse('{"a":' * 100_000)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tools.repeatguard", "tools.repeatGuard"),
        ("tools.eagre", "tools.eager"),
        ("tool.eager", "tools.eager"),
        ("eager", "tools.eager"),
        ("agent.childContext", "agents.childContext"),
        ("toolSearch.threshhold", "tools.toolSearch.threshold"),
        ("tools.index_budget", "tools.indexBudget"),
        ("agent.keepRounds", "agent.keepToolRounds"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name, meant):
    with pytest.raises(BadInput) as refusal:
        read(json.dumps({name: True}))
    assert refusal.value.message == (
        f"There is no setting {name}. Did you mean {meant}?"
    )
    assert nearest(name) == meant


def test_an_unknown_group_is_named_and_not_its_members():
    with pytest.raises(BadInput, match="There is no setting tool. Did you mean"):
        read('{"tool": {"eager": []}}')


@pytest.mark.parametrize(
    ("name", "value", "expects"),
    [
        ("tools.deferred", "yes", "true or false"),
        ("tools.deferred", 1, "true or false"),
        ("tools.indexBudget", -1, "a whole number, at least 0"),
        ("tools.indexBudget", True, "a whole number, at least 0"),
        ("tools.indexBudget", 2.5, "a whole number, at least 0"),
        ("tools.eagerPolicy", "add", "one of “allowlist”, “additive”"),
        ("tools.eager", "shell", "a list of names"),
        ("tools.eager", {"shell": True}, "a list of names"),
        ("tools.visible", [1, ""], "a list of names"),
        ("agent.pruneBatchRounds", 0, "a whole number, at least 1, or “auto”"),
        ("agent.systemPrompt", "", "a text"),
        ("tools.toolSearch.threshold", "10", "a number"),
    ],
)
def test_a_bad_value_is_refused_with_what_would_work(name, value, expects):
    with pytest.raises(BadInput) as refusal:
        read(json.dumps({name: value}))
    shown = json.dumps(value, ensure_ascii=False)
    assert refusal.value.message.startswith(f"{name} cannot be {shown}. It takes ")
    assert expects in refusal.value.message


def test_entries_of_a_list_that_are_no_names_are_left_out_with_a_warning():
    found = read('{"tools.eager": ["shell", "", 7, "shell", " grep "]}')
    assert found.values == {"tools.eager": ["shell", "grep"]}
    assert found.warnings == ["tools.eager: 2 entries are no names and were left out."]


def test_an_empty_list_is_a_value_and_null_is_none():
    assert read('{"tools.eager": []}').values == {"tools.eager": []}
    assert read('{"tools.eager": null}').values == {"tools.eager": None}


def test_every_setting_says_what_it_does_when_to_change_it_and_what_it_takes():
    for name, key in keys().items():
        assert str(key.about.title), name
        assert str(key.about.what).endswith("."), name
        assert str(key.about.when).endswith("."), name
        assert key.expects, name
        assert key.default is None or key.accepts(key.default), name
