from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest

from agents import sandbox
from agents.errors import RunStoppedByUser

pytestmark = pytest.mark.skipif(
    bool(sandbox.available()), reason="commands cannot be confined here"
)
needs_python = pytest.mark.skipif(
    not sandbox.find_python(), reason="the system has no Python of its own"
)
needs_git = pytest.mark.skipif(
    not sandbox.find_program("git"), reason="git is not installed"
)


def test_a_commands_streams_and_exit_code_are_told(agent):
    result = agent.call("shell", command="echo 안녕; echo oops >&2")
    assert result.output == "안녕\n[stderr]\noops\n[exit 0]"
    assert result.ok
    assert result.meta["exit"] == 0
    assert "".join(agent.told) == "안녕\noops\n"


def test_a_failing_command_gives_its_output_with_the_error(agent):
    result = agent.call("run_shell_command", command="echo before; exit 3")
    assert not result.ok
    assert result.output == "before\n[exit 3]"
    assert "exit code 3" in result.error.message


def test_a_command_runs_in_the_folder_it_names(agent):
    (agent.root / "하위 폴더").mkdir()
    result = agent.call("shell", command="pwd", cwd="하위 폴더")
    assert result.output.startswith("/workspace/하위 폴더\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"command": " "}, "bad_input"),
        ({"command": "a\0b"}, "bad_input"),
        ({"command": "x" * 200_000}, "too_large"),
        ({"command": "ls", "cwd": "nowhere"}, "not_found"),
        ({"command": "ls", "cwd": "../.."}, "bad_path"),
    ],
)
def test_a_command_that_cannot_run_gets_a_sentence(agent, arguments, code):
    assert agent.call("shell", **arguments).error.code == code


def test_a_timeout_keeps_what_was_printed(agent):
    result = agent.call("shell", command="echo so far; sleep 60", timeout=1)
    assert result.error.code == "timeout"
    assert result.output == "so far\n[timeout]"


def test_a_stop_reports_the_command_as_interrupted(agent):
    threading.Timer(0.3, lambda: agent.interrupt.stop(RunStoppedByUser())).start()
    begin = time.monotonic()
    result = agent.call("shell", command="echo so far; sleep 600")
    assert time.monotonic() - begin < 1
    assert result.error.code == "interrupted"
    assert "so far" in result.output


def test_read_only_files_stay_as_they_are(agent):
    assert not agent.call_read_only("shell", command="touch x").ok
    assert os.listdir(agent.root) == []


@needs_python
def test_code_runs_in_a_folder_that_is_gone_afterwards(agent):
    (agent.root / "data.txt").write_text("7")
    code = (
        "import os, sys\n"
        "open('left.txt', 'w').write('x')\n"
        "print(int(open('/workspace/data.txt').read()) * 6, os.listdir('.'))\n"
        "print('server' if 'django' in sys.modules else 'alone')\n"
    )
    result = agent.call("execute_code", code=code)
    assert result.output.startswith("42 [")
    assert "alone" in result.output
    assert os.listdir(agent.root) == ["data.txt"]


@needs_python
def test_code_does_not_see_the_servers_packages(agent):
    result = agent.call("execute_code", code="import channels")
    assert "ModuleNotFoundError" in result.output
    assert result.error.code == "exit"


@needs_python
def test_code_that_reads_input_ends_at_once(agent):
    assert "EOFError" in agent.call("execute_code", code="input()").output


REQUEST = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:80')"


@needs_python
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shell", {"command": 'no_proxy= python3 -c "$0"'.replace("$0", REQUEST)}),
        (
            "execute_code",
            {"code": f"import os; os.environ['no_proxy'] = ''\n{REQUEST}"},
        ),
    ],
)
def test_what_the_network_refused_is_told_to_model_and_people(agent, name, arguments):
    result = agent.call_with_network(name, **arguments)
    assert "[network: 127.0.0.1:80 failed. '127.0.0.1' leads to" in result.output
    (visit,) = result.meta["network"]["visits"]
    assert (visit["method"], visit["host"]) == ("GET", "127.0.0.1")
    assert result.meta["network"]["asked"] == 1


@needs_python
def test_without_the_workspaces_grant_no_proxy_is_named(agent):
    assert "proxy" not in agent.call("shell", command="env").output.lower()


def test_network_that_cannot_be_had_is_told_with_the_reason(agent, monkeypatch):
    from agents.sandbox import bwrap

    monkeypatch.setattr(bwrap, "find_python", lambda: "")
    result = agent.call_with_network("shell", command="env")
    assert result.ok
    assert "[no network: the system has no Python of its own" in result.output
    assert "HTTP_PROXY" not in result.output


def test_without_a_sandbox_commands_are_absent_with_the_reason(monkeypatch):
    from agents.sandbox import bwrap
    from agents.tools.registry import present

    monkeypatch.setattr(bwrap, "why_unavailable", lambda: "bubblewrap is not installed")
    tools, absent = present()
    assert absent["shell"] == absent["git_diff"] == "bubblewrap is not installed"
    assert "execute_code" in absent
    assert {"read_file", "grep"} <= {tool.name for tool in tools}


@pytest.fixture
def repository(agent):
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=agent.root, check=True, env=environment)

    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(agent.root),
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    git("init", "-q", "-b", "main")
    (agent.root / "a.txt").write_text("one\n")
    git("add", "a.txt")
    git(*identity, "commit", "-qm", "Begin")
    return agent


@needs_git
def test_status_diff_and_log_tell_what_changed(repository):
    (repository.root / "a.txt").write_text("two\n")
    (repository.root / "한글.txt").write_text("x\n")
    status = repository.call("git_status").output
    assert " M a.txt" in status
    assert "?? 한글.txt" in status
    assert "-one\n+two" in repository.call("git_diff", path="a.txt").output
    assert repository.call("git_diff", staged=True).output == "no differences"
    assert repository.call("git_log").output.endswith(" x: Begin")
    assert "+one" in repository.call("git_log", commit="HEAD").output


@needs_git
def test_a_commit_is_authored_by_the_person_who_asked(repository):
    (repository.root / "한글.txt").write_text("x\n")
    result = repository.call("git_commit", message="한글 추가", paths=["한글.txt"])
    assert result.ok, result.error
    assert len(result.meta["commit"]) == 40
    assert "김철수: 한글 추가" in repository.call("git_log").output


@needs_git
def test_nothing_that_a_repository_configures_is_run(repository):
    hook = repository.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch /workspace/ran-hook\n")
    hook.chmod(0o755)
    script = repository.root / "evil"
    script.write_text("#!/bin/sh\ntouch /workspace/ran\n")
    script.chmod(0o755)
    with open(repository.root / ".git/config", "a") as config:
        config.write(
            "[core]\n\tfsmonitor = /workspace/evil\n\tpager = /workspace/evil\n"
            "[diff]\n\texternal = /workspace/evil\n"
            '[diff "e"]\n\ttextconv = /workspace/evil\n\tcommand = /workspace/evil\n'
            "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = /workspace/evil\n"
        )
    (repository.root / ".gitattributes").write_text("* diff=e\n")
    (repository.root / "a.txt").write_text("two\n")
    for name, arguments in {
        "git_status": {},
        "git_diff": {},
        "git_log": {"commit": "HEAD"},
        "git_commit": {"message": "x", "paths": ["a.txt"]},
    }.items():
        assert repository.call(name, **arguments).ok, name
    assert not list(repository.root.glob("ran*"))


@needs_git
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("git_diff", {"commit": "--output=/workspace/x"}),
        ("git_log", {"commit": "no-such-branch"}),
        ("git_commit", {"message": " "}),
        ("git_commit", {"message": "nothing staged"}),
        ("git_commit", {"message": "x", "paths": ["../../etc/passwd"]}),
        ("git_status", {"path": "nowhere"}),
    ],
)
def test_a_bad_git_call_gets_a_sentence_and_changes_nothing(
    repository, name, arguments
):
    result = repository.call(name, **arguments)
    assert not result.ok
    assert len(result.error.message) > 10
    assert repository.call("git_log").output.count("\n") == 0


@needs_git
def test_a_folder_without_repository_says_so(agent):
    assert "not a git repository" in agent.call("git_status").error.message
