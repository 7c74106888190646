"""`manage.py tools list`: its fields, its order, its exit status."""

import io
import json

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import CommandParser

from agents.management.commands.tools import Command
from agents.models import Agent
from agents.providers.scripted import calls, says
from agents.seeding import seed_workspace
from agents.settings_actions import save_permissions
from agents.surface.policy import Surface
from agents.tool_list import declared_names, listed
from agents.tools.registry import BUILTIN
from workspace import transcript
from workspace.models import Conversation, Entry
from workspace.transcript import Draft

pytestmark = pytest.mark.django_db  # the server's own layer of settings is stored

FIELDS = [
    "name",
    "group",
    "category",
    "permissionTag",
    "state",
    "source",
    "server",
    "description",
    "reason",
    "deferred",
    "loaded",
    "schemaTokens",
]


def run(*arguments):
    out = io.StringIO()
    call_command("tools", "list", *arguments, stdout=out)
    return out.getvalue()


def rows(*arguments):
    return {row["name"]: row for row in json.loads(run("--json", *arguments))}


def test_each_tool_has_exactly_the_documented_fields_in_order():
    tools = json.loads(run("--json"))
    assert {tuple(tool) for tool in tools} == {tuple(FIELDS)}
    assert {tool["name"] for tool in tools} == {tool.name for tool in BUILTIN}
    assert all(tool["schemaTokens"] > 20 for tool in tools)


def test_both_forms_are_sorted_by_name():
    names = [tool["name"] for tool in json.loads(run("--json"))]
    assert names == sorted(names)
    assert [line.split()[0] for line in run().splitlines()] == names


def test_a_line_holds_name_tag_state_tokens_and_description():
    line = next(line for line in run().splitlines() if line.startswith("read_file"))
    name, tag, state, tokens, *description = line.split()
    assert (name, tag) == ("read_file", "read")
    assert state == "active"
    assert int(tokens) == rows()["read_file"]["schemaTokens"]
    assert description[0] == "Read"


def test_an_excluded_tool_is_listed_as_denied_with_the_reason(settings):
    settings.EXCLUDE_TOOLS = ["shell"]
    shell = rows()["shell"]
    assert (shell["state"], shell["reason"]) == (
        "denied",
        "excluded by --exclude-tools",
    )
    assert "(excluded by --exclude-tools)" in run()


def test_absent_and_deferred_tools_are_marked():
    surface = Surface(
        resident=("read_file",),
        deferred=("glob", "grep"),
        withheld=(),
        denied=(),
        absent=("shell",),
        reasons={"shell": "there is no sandbox", "glob": "on demand"},
    )
    chosen = [t for t in BUILTIN if t.name in {"read_file", "glob", "grep", "shell"}]
    found = {row.name: row for row in listed(chosen, surface, frozenset({"grep"}))}
    assert (found["shell"].state, found["shell"].reason) == (
        "absent",
        "there is no sandbox",
    )
    assert (found["glob"].deferred, found["glob"].loaded) == (True, False)
    assert (found["grep"].deferred, found["grep"].loaded) == (True, True)
    assert not found["read_file"].deferred


def test_an_agent_is_seen_under_its_workspaces_rules(workspace, owner):
    seed_workspace(workspace)
    save_permissions(by=owner, workspace=workspace, deny=["shell", "grep(x)"])
    denied = rows("--agent", "assistant")
    assert denied["shell"]["state"] == "denied"
    assert denied["shell"]["reason"] == "denied by the rule shell"
    assert denied["grep"]["state"] == "active"
    assert rows()["shell"]["state"] != "denied"


def test_a_conversation_says_which_tools_it_began_without(workspace, member):
    conversation = Conversation.objects.create(workspace=workspace, created_by=member)
    body = {"tools": [{"name": "read_file", "digest": "0"}], "rendered": "[]"}
    transcript.append(conversation.pk, Draft(Entry.Kind.SURFACE, body))
    assert declared_names(conversation) == {"read_file"}
    found = rows("--conversation", str(conversation.pk))
    assert "began without it" in found["glob"]["reason"]
    assert "began without it" not in found["read_file"]["reason"]


def test_an_agent_of_two_workspaces_must_be_named_with_one(workspace, outsider):
    seed_workspace(workspace)
    seed_workspace(outsider.memberships.get().workspace)
    with pytest.raises(CommandError, match="first/assistant") as refused:
        run("--agent", "assistant")
    assert refused.value.returncode == 2
    assert rows("--agent", f"{workspace.slug}/assistant")
    assert Agent.objects.count() == 2


@pytest.mark.parametrize(
    "wrong",
    [
        ["--agent", "nobody"],
        ["--mode", "nonsense"],
        ["--conversation", "not-an-id"],
        ["--conversation", "00000000-0000-0000-0000-000000000000"],
    ],
)
def test_what_does_not_exist_is_bad_usage(db, wrong):
    with pytest.raises(CommandError) as refused:
        run(*wrong)
    assert refused.value.returncode == 2
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    "wrong", [["tools"], ["tools", "lost"], ["tools", "list", "-x"]]
)
def test_a_wrong_command_line_ends_with_status_2(wrong, capsys):
    parser = Command().create_parser("manage.py", wrong[0])
    assert isinstance(parser, CommandParser)
    parser.called_from_command_line = True
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(wrong[1:])
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_tool_that_a_conversation_called_by_name_is_listed_as_loaded(
    script, start_turn, stage
):
    script(calls("list_dir", path="."), says("Empty."))
    before = rows("--conversation", str(stage.conversation.pk))
    start_turn("Look")
    after = rows("--conversation", str(stage.conversation.pk))
    assert (before["list_dir"]["deferred"], before["list_dir"]["loaded"]) == (
        True,
        False,
    )
    changed = [name for name in after if after[name] != before[name]]
    assert changed == ["list_dir"]
    assert after["list_dir"]["loaded"]
