from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from agents import sandbox
from agents.errors import RunStoppedByUser
from agents.interrupts import Interrupt
from agents.sandbox import Limits, SandboxFailed
from workspace import room


def test_output_errors_and_exit_code_are_kept_apart(sh):
    outcome = sh("echo out; echo 오류 >&2; exit 3")
    assert (outcome.stdout, outcome.exit) == (b"out\n", 3)
    assert outcome.stderr.decode() == "오류\n"


def test_files_are_the_workspaces_and_temporary_ones_are_gone(sh, box):
    sh("echo x > /workspace/kept; echo y > /tmp/gone")
    assert (box.root / "kept").read_text() == "x\n"
    assert sh("ls /tmp").stdout == b""


def test_a_command_runs_in_its_folder_with_few_variables(box, monkeypatch):
    monkeypatch.setenv("CANARY", "SECRET")
    (box.root / "안").mkdir()
    outcome = box.run(["/bin/sh", "-c", "pwd; env"], timeout=20, cwd="안")
    assert outcome.stdout.decode().startswith("/workspace/안\n")
    assert b"SECRET" not in outcome.stdout


def test_read_only_means_that_nothing_is_written(box):
    outcome = replace(box, read_only=True).run(["/bin/touch", "x"], timeout=20)
    assert outcome.exit == 1
    assert not (box.root / "x").exists()


def test_a_timeout_ends_the_command_and_all_it_started(box, sh):
    outcome = sh("(while true; do date > alive; sleep 0.1; done) & sleep 60", timeout=1)
    assert outcome.cut_short == "timeout"
    assert "1 s" in outcome.reason
    before = (box.root / "alive").stat().st_mtime_ns
    time.sleep(0.5)
    assert (box.root / "alive").stat().st_mtime_ns == before


def test_a_background_process_does_not_hold_the_answer_back(sh):
    begin = time.monotonic()
    assert sh("sleep 60 & echo done").stdout == b"done\n"
    assert time.monotonic() - begin < 5


def test_a_command_that_closes_its_output_is_waited_for(sh):
    assert sh("exec >/dev/null 2>&1; sleep 0.5; exit 4").exit == 4


@pytest.mark.parametrize(
    "script", ["sleep 60", "setsid sleep 60", "while :; do :; done"]
)
def test_stop_takes_effect_within_half_a_second(box, script):
    interrupt, stopped = Interrupt(), []

    def stop() -> None:
        stopped.append(time.monotonic())
        interrupt.stop(RunStoppedByUser())

    threading.Timer(0.5, stop).start()
    outcome = replace(box, interrupt=interrupt).run(
        ["/bin/sh", "-c", script], timeout=60
    )
    assert time.monotonic() - stopped[0] < 0.5
    assert outcome.cut_short == "stopped"
    with pytest.raises(RunStoppedByUser):
        replace(box, interrupt=interrupt).run(["/bin/true"], timeout=60)


def test_progress_is_told_early_and_in_few_pieces(box):
    told: list[tuple[float, str]] = []
    begin = time.monotonic()
    watched = replace(
        box, progress=lambda text: told.append((time.monotonic() - begin, text))
    )
    script = (
        "echo first; sleep 1; i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done"
    )
    watched.run(["/bin/sh", "-c", script], timeout=20)
    assert told[0][1] == "first\n"
    assert told[0][0] < 0.9
    assert len(told) < 30
    assert told[-1][1].endswith("1999\n")


def test_characters_split_between_pieces_are_told_whole(box):
    told: list[str] = []
    script = r"printf '\355\225'; sleep 0.3; printf '\234'"
    replace(box, progress=told.append).run(["/bin/sh", "-c", script], timeout=20)
    assert "".join(told) == "한"


def test_output_beyond_the_limit_is_counted_and_dropped(box):
    small = replace(box, limits=Limits(output=1000))
    outcome = small.run(
        ["/bin/sh", "-c", "yes | head -c 50000; echo e >&2"], timeout=20
    )
    assert len(outcome.stdout) + len(outcome.stderr) == 1000
    assert outcome.dropped == 49_002
    assert outcome.exit == 0


def test_a_workspace_over_its_quota_stops_who_adds_but_not_who_deletes(box):
    small = replace(box, limits=Limits(quota=8 << 20))
    grow = (
        "i=0; while :; do head -c 4000000 /dev/zero > f$i; i=$((i+1)); sleep 0.1; done"
    )
    outcome = small.run(["/bin/sh", "-c", grow], timeout=30)
    assert outcome.cut_short == "disk"
    assert "quota of 8 MB" in outcome.reason
    assert room.folder_size(box.root) < 100 << 20
    assert small.run(["/bin/sh", "-c", "rm f*"], timeout=30).exit == 0


def test_a_low_disk_refuses_the_start(box):
    with pytest.raises(SandboxFailed, match="are kept free"):
        replace(box, limits=Limits(free_space=1 << 60)).run(["/bin/true"], timeout=5)


def test_a_command_that_is_not_there_is_an_exit_code_or_a_refusal(box):
    outcome = box.run(["/usr/bin/no-such-program"], timeout=5)
    assert outcome.exit == 1
    assert b"No such file" in outcome.stderr


def test_programs_are_looked_for_in_the_view_only():
    assert sandbox.find_program("no-such-program") == ""
    assert sandbox.find_program("sh").endswith("/sh")
    assert not sandbox.find_python().startswith("/root")


def test_sandbox_off_runs_as_the_server_itself(box, settings):
    settings.SANDBOX = "off"
    assert sandbox.available() == ""
    outcome = box.run(["/bin/sh", "-c", "pwd; ulimit -n"], timeout=5)
    assert outcome.stdout.decode().splitlines()[0] == str(box.root)
    begin = time.monotonic()
    outcome = box.run(["/bin/sh", "-c", "sleep 60 & sleep 60"], timeout=1)
    assert outcome.cut_short == "timeout"
    assert time.monotonic() - begin < 3
