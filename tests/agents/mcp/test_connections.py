"""Real connections: to a program in the sandbox, to one over HTTP, to one from PyPI."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest

from agents.errors import RunStoppedByUser
from agents.interrupts import Interrupt
from agents.mcp.connections import Connections, Unreachable
from agents.models import McpServer
from agents.sandbox import available, find_python
from agents.secrets import encrypt
from agents.tools.base import ToolContext

SCRIPT = Path(__file__).with_name("scripted_server.py")

pytestmark = [pytest.mark.usefixtures("real_transactions")]
confined = pytest.mark.skipif(bool(available()), reason="no sandbox here")


@pytest.fixture
def connections():
    made = Connections()
    yield made
    made.close()


@pytest.fixture
def add(workspace):
    """A server of the workspace; by default the scripted one, in the sandbox."""
    workspace.root.mkdir(parents=True, exist_ok=True)
    shutil.copy(SCRIPT, workspace.root / "server.py")

    def make(**fields):
        fields.setdefault("command", [find_python(), "server.py"])
        fields.setdefault("name", "scripted")
        return McpServer.objects.create(workspace=workspace, **fields)

    return make


def context(server, interrupt=None):
    return ToolContext(
        root=server.workspace.root,
        workspace_id=server.workspace_id,
        conversation_id=uuid4(),
        run_id=uuid4(),
        call_id="call",
        interrupt=interrupt or Interrupt(),
    )


def ledger(server):
    return (server.workspace.root / "ledger.txt").read_text().split()


@confined
def test_a_program_in_the_sandbox_is_listed_and_called_and_its_garbage_left_out(
    add, connections
):
    server = add()
    found = connections.look(server)
    assert "echo" in [row["name"] for row in found.tools]
    assert found.instructions == "Call me gently."
    result = connections.call(server.pk, "echo", {"text": "안녕"}, context(server))
    assert (result.ok, result.output) == (True, "안녕")
    server.refresh_from_db()
    assert server.state == McpServer.State.READY
    assert len(server.tools) == 8


@confined
def test_a_server_that_crashes_costs_one_call_and_comes_back(add, connections):
    server = add()
    result = connections.call(server.pk, "crash", {}, context(server))
    assert result.error.code == "server_gone"
    assert "may or may not" in result.error.message
    result = connections.call(server.pk, "echo", {"text": "back"}, context(server))
    assert result.output == "back"
    assert ledger(server) == ["crash", "echo"]


@confined
def test_a_call_that_is_never_answered_ends_at_its_limit(add, connections):
    server = add(call_seconds=1)
    started = time.monotonic()
    result = connections.call(server.pk, "wait", {}, context(server))
    assert time.monotonic() - started < 15
    assert result.error.code == "timeout"
    assert connections.call(server.pk, "echo", {"text": "x"}, context(server)).ok


@confined
def test_stop_ends_a_call_at_once_and_takes_it_back(add, connections):
    server = add()
    connections.call(server.pk, "echo", {}, context(server))
    interrupt = Interrupt()
    threading.Timer(0.5, interrupt.stop, [RunStoppedByUser()]).start()
    started = time.monotonic()
    with pytest.raises(RunStoppedByUser):
        connections.call(server.pk, "wait", {}, context(server, interrupt))
    assert time.monotonic() - started < 5
    deadline = time.monotonic() + 10
    while "cancelled" not in ledger(server) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "cancelled" in ledger(server)


@confined
def test_a_silent_server_is_given_up_and_its_state_says_why(add, connections):
    server = add(command=[find_python(), "server.py", "silent"], connect_seconds=1)
    result = connections.call(server.pk, "echo", {}, context(server))
    assert "nothing was called" in result.error.message
    server.refresh_from_db()
    assert server.state == McpServer.State.FAILED
    assert server.reason == "it did not answer within 1 seconds"


@confined
def test_a_program_that_is_not_there_is_named(add, connections):
    server = add(command=["no-such-program"], connect_seconds=10)
    with pytest.raises(Unreachable):
        connections.look(server)


@confined
def test_ten_megabytes_errors_and_pictures_come_through(add, connections):
    server = add()
    flood = connections.call(server.pk, "flood", {}, context(server))
    assert len(flood.output) == 10_000_000
    broken = connections.call(server.pk, "broken", {}, context(server))
    assert broken.error.message == "it went wrong"
    picture = connections.call(server.pk, "picture", {}, context(server))
    assert picture.output == "[image: image/png, 300 bytes; not shown]"


@confined
def test_a_server_that_says_its_list_has_changed_is_listed_anew(add, connections):
    server = add()
    connections.call(server.pk, "grow", {}, context(server))
    deadline = time.monotonic() + 10
    names: list[str] = []
    while "grown" not in names and time.monotonic() < deadline:
        server.refresh_from_db()
        names = [row["name"] for row in server.tools]
        time.sleep(0.1)
    assert "grown" in names


@confined
def test_its_environment_is_what_was_given_and_nothing_of_the_servers(
    add, connections, monkeypatch
):
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "x")
    server = add(secret=encrypt('{"TOKEN": "s3cr3t-of-this-server"}'))
    output = connections.call(server.pk, "environment", {}, context(server)).output
    assert '"TOKEN": "s3cr3t-of-this-server"' in output
    assert "SECRET_OF_THE_SERVER" not in output
    command_lines = [
        path.read_bytes()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    ]
    assert not any(b"s3cr3t-of-this" in line for line in command_lines)


@confined
def test_filters_take_tools_away_and_exclude_goes_before_include(add, connections):
    server = add(include_tools=["echo", "wait"], exclude_tools=["wait"])
    assert [row["name"] for row in connections.look(server).tools] == ["echo"]


@confined
def test_calls_that_come_together_share_one_connection(add, connections):
    server = add()
    outputs: list[str] = []

    def call(number):
        result = connections.call(
            server.pk, "echo", {"text": str(number)}, context(server)
        )
        outputs.append(result.output)

    threads = [threading.Thread(target=call, args=[number]) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outputs) == ["0", "1", "2", "3", "4"]
    assert connections.is_open(server.pk)
    connections.drop(server.pk)
    assert not connections.is_open(server.pk)


@confined
def test_a_server_of_another_workspace_is_not_called(add, connections):
    import dataclasses

    server = add()
    stranger = dataclasses.replace(context(server), workspace_id=uuid4())
    result = connections.call(server.pk, "echo", {}, stranger)
    assert result.error.code == "server_gone"
    assert not (server.workspace.root / "ledger.txt").exists()


def test_a_real_server_from_pypi_tells_the_time(add, connections, settings):
    settings.SANDBOX = "off"  # its packages are not in the sandbox's view
    server = add(command=[sys.executable, "-m", "mcp_server_time"], connect_seconds=30)
    found = connections.look(server)
    assert [row["name"] for row in found.tools] == ["convert_time", "get_current_time"]
    result = connections.call(
        server.pk, "get_current_time", {"timezone": "Asia/Seoul"}, context(server)
    )
    assert '"timezone": "Asia/Seoul"' in result.output
    wrong = connections.call(
        server.pk, "get_current_time", {"timezone": "x"}, context(server)
    )
    assert not wrong.ok


@pytest.fixture
def over_http():
    """A FastMCP server on a free port of this machine; gives its address."""
    import socket

    import uvicorn
    from mcp.server.fastmcp import FastMCP

    served = FastMCP("sums", instructions="Sums only.")

    @served.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(served.streamable_http_app(), log_level="error")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, args=([listening],), daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not running.started and time.monotonic() < deadline:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    running.should_exit = True
    thread.join(10)


def test_a_server_over_http_is_reached_only_where_the_address_rules_lead(
    add, connections, over_http, settings
):
    server = add(transport="http", command=[], url=over_http)
    with pytest.raises(Unreachable, match="private address"):
        connections.look(server)
    settings.ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    assert [row["name"] for row in connections.look(server).tools] == ["add"]
    result = connections.call(server.pk, "add", {"a": 2, "b": 3}, context(server))
    assert (result.ok, result.output) == (True, "5")


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "http://[::ffff:127.0.0.1]/mcp",
        "http://2130706433/mcp",
        "http://user:pass@example.com/mcp",
        "file:///etc/passwd",
    ],
)
def test_disguised_and_inner_addresses_are_refused(add, connections, url):
    server = add(transport="http", command=[], url=url, connect_seconds=5)
    with pytest.raises(Unreachable):
        connections.look(server)
