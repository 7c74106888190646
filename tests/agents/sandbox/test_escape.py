"""Attempts to get out of the sandbox, or to take the machine down from inside."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from agents.sandbox import Limits, pids, seccomp


def test_only_the_system_and_the_workspace_are_there(sh, box, tmp_path):
    (tmp_path / "secret").write_text("SECRET")
    listed = sh("ls -A /; ls -A /etc /root /home /sys /run /opt /srv /mnt 2>/dev/null")
    names = set(listed.stdout.decode().split())
    assert not names & {"root", "home", "sys", "run", "opt", "srv", "mnt", "shadow"}
    assert sh(f"cat {tmp_path}/secret").exit
    assert sh(f"ls {os.path.dirname(sys.prefix)}").exit or sys.prefix.startswith("/usr")


@pytest.mark.parametrize("path", ["/x", "/usr/x", "/etc/x", "/dev/x", "/etc/passwd"])
def test_nothing_but_the_workspace_is_writable(sh, path):
    assert sh(f"echo x >> {path}").exit != 0


OPEN_SETTINGS = """
import os
for folder, _, names in os.walk("/proc"):
    parts = folder.split("/")
    if len(parts) > 2 and (parts[2].isdigit() or "self" in parts[2]):
        continue
    for name in names:
        path = os.path.join(folder, name)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            continue
        print(path)
"""


def test_no_setting_of_the_kernel_can_be_opened_for_writing(py):
    """Only opened, never written: they are the machine's that runs the tests."""
    outcome = py(OPEN_SETTINGS)
    assert (outcome.stdout, outcome.exit) == (b"", 0)


def test_links_to_the_outside_lead_to_the_view_only(sh, box, tmp_path):
    (tmp_path / "secret").write_text("SECRET")
    os.symlink(tmp_path / "secret", box.root / "link")
    os.symlink("/proc/1/root", box.root / "init")
    assert sh("cat link").exit
    assert b"SECRET" not in sh(f"cat init{tmp_path}/secret; cat link").stdout
    assert sh("ln /usr/bin/env hard").exit, "no hard links into the workspace"


def test_no_process_of_the_host_is_seen_or_signalled(sh, py):
    pids = [int(pid) for pid in sh("ls /proc | grep -E '^[0-9]+$'").stdout.split()]
    assert len(pids) < 10
    program = f"import os; os.kill({os.getpid()}, 9)"
    assert b"ProcessLookupError" in py(program).stderr or os.getpid() in pids
    assert b"server-canary" not in sh("cat /proc/*/environ /proc/*/cmdline").stdout
    sh("kill -9 -1; kill -9 1; kill -9 $PPID")
    assert sh("echo alive").stdout == b"alive\n"


def test_the_network_of_the_host_is_out_of_reach(py):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        outcome = py(
            f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        )
    assert b"ConnectionRefusedError" in outcome.stderr
    outcome = py("import socket; socket.create_connection(('1.1.1.1', 53), 2)")
    assert b"unreachable" in outcome.stderr
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0tallyroom-escape")
        server.listen()
        program = "import socket; socket.socket(1).connect('\\0tallyroom-escape')"
        assert b"ConnectionRefusedError" in py(program).stderr


def test_there_are_no_rights_and_no_way_to_get_some(sh, py):
    status = sh("cat /proc/self/status; id -u").stdout.decode()
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    assert status.endswith("\n1000\n")
    assert sh("unshare -U true || unshare -m true || mount -t tmpfs x /tmp").exit
    assert sh("mknod device c 1 5").exit


def test_no_descriptor_of_the_server_is_inherited(py):
    program = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    assert py(program).stdout == b"['0', '1', '2', '3']\n"  # 3 is the listing's own


CALLS = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
for name, number in {table!r}.items():
    ctypes.set_errno(0)
    result = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    if result != -1 or ctypes.get_errno() != {expected}:
        print(name, result, ctypes.get_errno())
"""


@pytest.mark.parametrize(
    ("table", "expected"), [(seccomp.FORBIDDEN, "errno.EPERM"), (seccomp.MISSING, "38")]
)
def test_every_call_on_the_list_is_refused(py, table, expected):
    column = seccomp.MACHINES[os.uname().machine].column
    numbers = {n: c[column] for n, c in table.items() if c[column] is not None}
    outcome = py(CALLS.format(table=numbers, expected=expected))
    assert (outcome.stdout, outcome.exit) == (b"", 0)


def test_terminal_injection_and_rare_sockets_are_refused(py):
    outcome = py(
        "import fcntl, os, pty, socket\n"
        "main, side = pty.openpty()\n"
        "for request in (0x5412, 0x541C):\n"
        "    try: fcntl.ioctl(side, request, b'x')\n"
        "    except PermissionError: print('refused')\n"
        "for family in (40, 17, 38):\n"
        "    try: socket.socket(family, socket.SOCK_DGRAM)\n"
        "    except OSError as error: print(error.errno)\n"
        "a, b = socket.socketpair(); a.send(b'ok'); print(b.recv(2).decode())\n"
    )
    assert outcome.stdout.split() == [b"refused"] * 2 + [b"97"] * 3 + [b"ok"]


def test_the_filter_is_well_formed_for_every_machine():
    for name in seccomp.MACHINES:
        program = seccomp.build(name)
        steps = list(struct.iter_unpack("<HBBI", program))
        assert len(steps) * 8 == len(program)
        assert len(steps) < 4096
        for at, (_, yes, no, _) in enumerate(steps):
            # A step goes on to another one, or it is the last and returns.
            assert at + 1 + max(yes, no) < len(steps) or at == len(steps) - 1
        assert steps[-1][0] == 0x06


def test_a_fork_bomb_is_bounded(box):
    small = replace(box, limits=Limits(processes=24))
    program = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    outcome = small.run(["/usr/bin/python3", "-c", program], timeout=2)
    assert outcome.cut_short in ("processes", "memory", "timeout")
    deadline = time.monotonic() + 5
    while _children() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _children()


@pytest.mark.skipif(not pids.can_bound(), reason="the kernel's own limit holds")
def test_the_kernel_bounds_the_processes_of_a_server_that_runs_as_root(box):
    with open("/proc/sys/kernel/pid_max") as setting:
        before = setting.read()
        outcome = box.run(["/bin/cat", "/proc/sys/kernel/pid_max"], timeout=10)
        assert outcome.stdout == b"556\n"
        setting.seek(0)
        assert setting.read() == before, "the machine's own setting stays"


@pytest.mark.skipif(os.geteuid() == 0, reason="does not hold for root")
def test_the_kernel_bounds_the_processes_of_an_ordinary_server(box):
    small = replace(box, limits=Limits(processes=24))
    program = (
        "import os, time\nfor count in range(24):\n"
        "    try:\n        if not os.fork(): time.sleep(9)\n"
        "    except BlockingIOError: break\nprint(count)"
    )
    outcome = small.run(["/usr/bin/python3", "-c", program], timeout=10)
    assert 0 < int(outcome.stdout) < 23


def _children():
    path = f"/proc/self/task/{os.getpid()}/children"
    with open(path) as file:
        pids = file.read().split()
    return [pid for pid in pids if b"bwrap" in _command_line(pid)]


def _command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


@pytest.mark.parametrize(
    "program",
    [
        "held = []\nwhile True: held.append(bytearray(10_000_000))",
        "import mmap\nheld = []\n"
        "while True:\n m = mmap.mmap(-1, 10_000_000); m.write(b'x' * 10_000_000)\n"
        " held.append(m)",
        "import os\nfor _ in range(8):\n if not os.fork(): break\n"
        "held = bytearray(b'x') * 100_000_000\nimport time; time.sleep(60)",
    ],
    ids=["private", "shared", "many processes"],
)
def test_a_memory_bomb_is_bounded(box, program):
    small = replace(box, limits=Limits(memory=256 << 20))
    begin = time.monotonic()
    outcome = small.run(["/usr/bin/python3", "-c", program], timeout=30)
    assert outcome.cut_short == "memory" or b"MemoryError" in outcome.stderr
    assert time.monotonic() - begin < 20


def test_files_and_temporary_folders_are_bounded(box):
    small = replace(box, limits=Limits(file_size=1 << 20, temporary=4 << 20))
    assert (
        small.run(
            ["/bin/sh", "-c", "head -c 5000000 /dev/zero > big; ls -l big"], timeout=20
        ).exit
        == 0
    )
    assert (box.root / "big").stat().st_size <= 1 << 20
    script = (
        "for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero > $0/$i; done; exit $?"
    )
    for folder in ("/tmp", "/dev/shm"):
        assert small.run(["/bin/sh", "-c", script, folder], timeout=20).exit


KILLED_PARENT = """
import sys
from pathlib import Path
from django.conf import settings
settings.configure(SANDBOX="auto")
from agents.interrupts import Interrupt
from agents.sandbox import Sandbox
script = "while :; do date > alive; sleep 0.1; done"
Sandbox(Path(sys.argv[1]), Interrupt()).run(["/bin/sh", "-c", script], timeout=60)
"""


def test_commands_die_with_the_worker_that_is_killed(box):
    worker = subprocess.Popen([sys.executable, "-c", KILLED_PARENT, str(box.root)])
    try:
        deadline = time.monotonic() + 20
        while not (box.root / "alive").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        worker.kill()
        worker.wait()
    time.sleep(0.5)
    before = (box.root / "alive").stat().st_mtime_ns
    time.sleep(0.5)
    assert (box.root / "alive").stat().st_mtime_ns == before
