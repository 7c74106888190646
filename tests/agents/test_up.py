"""`manage.py up` as an operator meets it: good starts, bad starts, crashes, stops."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
#: Seconds: a start on a busy machine; a refusal, which starts nothing.
PATIENCE, REFUSAL = 90, 60
LINK = re.compile(r"http://\S+")
DROPPED = (
    "DATABASE_URL",
    "REDIS_URL",
    "VAR_DIR",
    "SECRET_KEY",
    "DJANGO_SETTINGS_MODULE",
)

pytestmark = [pytest.mark.kill, pytest.mark.timeout(240)]


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    return {**kept, "PYTHONUNBUFFERED": "1", **changes}


class Up:
    """A running `manage.py up` with what it printed."""

    def __init__(self, folder: Path, *arguments: str, **changes: str) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.log = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--var", str(folder), *arguments],
                cwd=ROOT,
                env=environment(**changes),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def url(self) -> str:
        match = LINK.search(self.printed)
        assert match, self.printed
        return match[0]

    @property
    def origin(self) -> str:
        return "/".join(self.url.split("/")[:3])

    def wait_until_ready(self) -> Up:
        wait_for(
            lambda: " is ready" in self.printed and LINK.search(self.printed), self
        )
        return self

    def child(self, marker: str) -> psutil.Process | None:
        """The living child whose command line holds the marker; None without one."""
        for process in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                if marker in " ".join(process.cmdline()):
                    return process
        return None

    def healthy(self) -> bool:
        try:
            return httpx.get(f"{self.origin}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)


def wait_for(condition: Callable[[], object], up: Up) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert up.process.poll() is None, up.printed
        assert time.monotonic() < deadline, up.printed
        time.sleep(0.05)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Starts installations that end with the test; on any port unless told."""
    started: list[Up] = []

    def begin(*arguments: str, folder: Path | None = None, **changes: str) -> Up:
        if "--port" not in arguments:
            arguments = (*arguments, "--port", "0")
        started.append(Up(folder or tmp_path / "var", *arguments, **changes))
        return started[-1]

    yield begin
    for up in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(up.process.pid).children(recursive=True):
                child.kill()
        up.process.kill()
        up.process.wait()


def refused(*arguments: str, **changes: str) -> str:
    """What a start that must fail says; its exit code is not zero."""
    done = subprocess.run(
        [sys.executable, "manage.py", "up", *arguments],
        cwd=ROOT,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=REFUSAL,
        check=False,
    )
    assert done.returncode not in {0, -signal.SIGKILL}
    assert "Traceback" not in done.stderr
    return done.stderr


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_a_fresh_folder_gets_keys_a_database_and_one_link_that_opens(start, tmp_path):
    up = start().wait_until_ready()
    assert len(LINK.findall(up.printed)) == 1
    assert httpx.get(up.url, follow_redirects=True).status_code == 200
    var = tmp_path / "var"
    assert var.stat().st_mode & 0o777 == 0o700
    kept = modes(var)
    assert {kept[name] for name in ("secret_key", "fernet.key", "signing.key")} == {
        0o600
    }
    assert kept["valkey.sock"] == 0o600
    assert up.stop(signal.SIGINT) == 0


def test_a_second_up_on_the_same_folder_says_so_and_leaves_the_first_alone(
    start, tmp_path
):
    up = start().wait_until_ready()
    said = refused("--var", str(tmp_path / "var"))
    assert f"process {up.process.pid}" in said
    assert len(said.strip().splitlines()) == 1
    assert up.healthy()


def test_a_taken_port_is_refused_when_it_was_asked_for(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--var", str(tmp_path / "var"), "--port", str(port))
    assert f"Port {port} is taken" in said
    assert len(said.strip().splitlines()) == 1


def test_a_taken_port_leads_to_the_next_free_one_otherwise(monkeypatch, capsys):
    from agents.management.commands import up

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(up, "DEFAULT_PORT", port)
        with up.Command().listen("127.0.0.1", None) as listener:
            assert listener.getsockname()[1] > port
    assert f"Port {port} is taken" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    said = refused("--var", str(tmp_path / "file" / "var"))
    assert "cannot be used" in said
    assert "--var" in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://root@localhost/x", "DATABASE_URL starts with 'mysql'"),
        ("postgres://u:hunter2@127.0.0.1:1/x", "cannot be opened"),
        ("sqlite:////nowhere/at/all/db", "cannot be opened"),
        ("postgres://u@127.0.0.1:port/x", "DATABASE_URL cannot be read"),
    ],
)
def test_a_broken_database_url_is_one_sentence_without_its_password(
    tmp_path, url, words
):
    said = refused("--var", str(tmp_path / "var"), "--port", "0", DATABASE_URL=url)
    assert words in said
    assert "hunter2" not in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["--port", "abc"], "invalid int value: 'abc'"),
        (["--port", "70000"], "70000 is not a port"),
        (["--tool-deferral", "maybe"], "invalid choice: 'maybe'"),
        (["--host", "no.such.host.invalid"], "Cannot listen on no.such.host.invalid"),
        (["--system-prompt", "/no/such/file"], "cannot be read"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(tmp_path, arguments, words):
    said = refused("--var", str(tmp_path / "var"), *arguments)
    assert words in said.strip().splitlines()[-1]


def test_a_setting_that_cannot_be_used_is_named(tmp_path):
    said = refused("--var", str(tmp_path / "var"), TOOL_DEFERRAL="maybe")
    assert said.strip() == "TOOL_DEFERRAL is 'maybe'; set it to on or off."


def test_a_path_of_more_than_a_hundred_bytes_works(start, tmp_path):
    folder = tmp_path / ("long" * 20) / ("name" * 20) / "var"
    up = start(folder=folder).wait_until_ready()
    assert up.healthy()
    assert up.stop() == 0


def test_an_option_wins_over_the_environment(tmp_path, monkeypatch):
    from agents.supervisor.options import into_environment

    monkeypatch.setenv("TOOL_DEFERRAL", "on")
    monkeypatch.setenv("EXCLUDE_TOOLS", "shell")
    into_environment(["--tool-deferral", "off", "--port", "1", "--no-color"])
    assert os.environ["TOOL_DEFERRAL"] == "off"
    assert os.environ["EXCLUDE_TOOLS"] == "shell"


@pytest.mark.parametrize(
    "marker", ["agents.supervisor.web", "agents.supervisor.worker", "valkey-server"]
)
def test_a_killed_child_is_started_again(start, marker):
    up = start().wait_until_ready()
    victim = up.child(marker)
    victim.kill()
    wait_for(lambda: not victim.is_running() and "starting it again" in up.printed, up)
    wait_for(lambda: up.child(marker), up)
    wait_for(up.healthy, up)
    assert up.child(marker).pid != victim.pid
    assert up.stop() == 0


def test_a_request_during_a_restart_of_web_waits_instead_of_being_refused(start):
    up = start().wait_until_ready()
    up.child("agents.supervisor.web").kill()
    assert httpx.get(f"{up.origin}/healthz", timeout=PATIENCE).status_code in {200, 503}


def test_nothing_outlives_a_killed_supervisor_and_the_next_one_starts(start):
    up = start().wait_until_ready()
    children = psutil.Process(up.process.pid).children(recursive=True)
    assert len(children) >= 3
    up.process.kill()
    up.process.wait()
    gone, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
    assert len(gone) == len(children)
    again = start().wait_until_ready()
    assert again.healthy()


def test_a_missing_trigger_stops_the_start_and_is_named(start, tmp_path):
    start().wait_until_ready().stop()
    with contextlib.closing(
        sqlite3.connect(tmp_path / "var" / "db.sqlite3")
    ) as database:
        name = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' LIMIT 1"
        ).fetchone()[0]
        database.execute(f"DROP TRIGGER {name}")
        database.commit()
    said = refused("--var", str(tmp_path / "var"), "--port", "0")
    assert name in said
    assert "does not protect transcripts" in said


def test_a_folder_left_open_to_others_is_closed(start, tmp_path):
    (tmp_path / "var").mkdir(mode=0o755)
    outside = tmp_path.stat().st_mode
    start().wait_until_ready().stop()
    assert (tmp_path / "var").stat().st_mode & 0o777 == 0o700
    assert tmp_path.stat().st_mode == outside


@pytest.mark.django_db
def test_one_beat_at_a_time_holds_the_lease_and_gives_it_back():
    from agents.supervisor.beat import hold_lease, release_lease

    assert hold_lease("first", seconds=60)
    assert hold_lease("first", seconds=60)
    assert not hold_lease("second", seconds=60)
    release_lease("first")
    time.sleep(0.001)
    assert hold_lease("second", seconds=60)
    assert not hold_lease("first", seconds=60)


@pytest.mark.django_db
def test_a_chore_that_fails_does_not_stop_the_beat(caplog):
    from agents.supervisor.beat import Chore

    done: list[Any] = []
    broken = Chore("broken", 60, lambda: 1 / 0)
    fine = Chore("fine", 60, lambda: done.append(1))
    for chore in (broken, fine, fine):
        chore.run_if_due()
    assert done == [1]
    assert "'broken' failed" in caplog.text
