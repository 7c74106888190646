"""One function says whether a call may run, and which rule said so."""

from __future__ import annotations

import pytest

from agents.permissions import decide, parse_rule, rule_for, whole_tool_denials
from agents.tools.registry import resolve
from workspace.errors import BadInput


def answer(tool: str, rules=None, level="accept", confined=True, granted=(), **args):
    found = resolve(tool)
    assert found
    return decide(
        found,
        args,
        level=level,
        rules=rules or {},
        confined=confined,
        granted=granted,
    ).answer


@pytest.mark.parametrize(
    ("level", "tool", "confined", "expected"),
    [
        ("plan", "read_file", True, "allow"),
        ("plan", "write_file", True, "deny"),
        ("plan", "shell", True, "deny"),
        ("accept", "write_file", True, "allow"),
        ("accept", "shell", True, "allow"),
        ("accept", "shell", False, "ask"),
        ("accept", "execute_code", False, "ask"),
        ("auto", "shell", False, "allow"),
        ("auto", "write_file", False, "allow"),
    ],
)
def test_the_level_decides_where_no_rule_does(level, tool, confined, expected):
    assert answer(tool, level=level, confined=confined) == expected


def test_deny_beats_ask_and_ask_beats_allow():
    rules = {"allow": ["shell"], "ask": ["shell(git push)"], "deny": ["shell(rm)"]}
    assert answer("shell", rules, command="ls") == "allow"
    assert answer("shell", rules, command="git push origin") == "ask"
    assert answer("shell", rules, command="rm x") == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf .",
        "git status && rm -rf .",
        "git status | sh",
        "git -c core.pager='sh -c id' status",
        "git status $(rm -rf .)",
        "git status `rm -rf .`",
        "git status\nrm -rf .",
        "env X=1 git status",
        "X=1 git status",
        "git status > /workspace/file",
        "git statusx",
        "git 'status\nrm' x; id",
    ],
)
def test_allowing_git_status_covers_nothing_but_git_status(command):
    rules = {"allow": ["shell(git status)"], "ask": []}
    assert answer("shell", rules, confined=False, command=command) == "ask"


@pytest.mark.parametrize("command", ["git status", "git  status", "git status -s"])
def test_allowing_git_status_covers_its_own_forms(command):
    rules = {"allow": ["shell(git status)"]}
    assert answer("shell", rules, confined=False, command=command) == "allow"


@pytest.mark.parametrize(
    "command",
    ["ls; rm x", "ls && rm x", "echo $(rm x)", "ls\nrm x", "(rm x)", "`rm x`"],
)
def test_a_deny_rule_looks_into_every_part_of_a_command(command):
    assert answer("shell", {"deny": ["shell(rm)"]}, command=command) == "deny"


def test_a_path_rule_matches_the_path_however_it_is_written():
    rules = {"deny": ["write_file(secrets/*)"]}
    for path in ("secrets/a", "./secrets/a", "/workspace/secrets/a"):
        assert answer("write_file", rules, path=path, content="") == "deny"
    assert answer("write_file", rules, path="notes/a", content="") == "allow"


def test_a_grant_of_the_conversation_counts_as_an_allow_rule():
    asked = answer("shell", confined=False, command="make test")
    granted = answer(
        "shell", confined=False, command="make test", granted=["shell(make test)"]
    )
    assert (asked, granted) == ("ask", "allow")


@pytest.mark.parametrize("text", ["", "shell(", "no_such_tool", "shell()x", "a b"])
def test_a_rule_that_can_never_match_is_refused_with_a_sentence(text):
    with pytest.raises(BadInput) as refused:
        parse_rule(text)
    assert len(refused.value.message) > 20


def test_a_rule_may_use_an_alias_and_means_the_real_tool():
    assert parse_rule("run_shell_command(ls)").tool == "shell"


def test_a_deny_without_specifier_takes_the_whole_tool():
    rules = {"deny": ["shell", "write_file(x)"]}
    assert whole_tool_denials(rules) == {"shell": "shell"}


def test_always_writes_a_narrow_rule_for_the_real_command():
    shell = resolve("shell")
    assert rule_for(shell, {"command": "git status --short"}) == "shell(git status)"
    assert rule_for(shell, {"command": "ls -la"}) == "shell(ls)"
    with pytest.raises(BadInput):
        rule_for(shell, {"command": "ls; rm x"})


@pytest.mark.parametrize("command", ["$X x", "r? x", "`echo rm` x", "ls; $(which rm)"])
def test_a_program_that_only_the_shell_knows_is_asked_where_rules_name_programs(
    command,
):
    rules = {"deny": ["shell(rm)"]}
    assert answer("shell", rules, command=command) in ("ask", "deny")
    assert answer("shell", {}, command=command) == "allow"
