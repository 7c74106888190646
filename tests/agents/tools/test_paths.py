"""Attempts to leave the conversation's folder through the file tools."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from tests.agents.tools.conftest import Agent


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "secret.txt"
    file.write_text("SECRET\n")
    return file


READERS = [("read_file", {}), ("edit_file", {"old_string": "S", "new_string": "x"})]
ALL = [*READERS, ("write_file", {"content": "x"})]


@pytest.mark.parametrize(("tool", "arguments"), ALL)
@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "/workspace/../secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/root/etc/passwd",
        "/workspaceX/a",
        "/dev/null",
    ],
)
def test_paths_that_climb_or_are_absolute_are_refused(
    agent, secret, tool, arguments, path
):
    (agent.root / "a").mkdir()
    assert agent.call(tool, path=path, **arguments).error.code == "bad_path"
    assert secret.read_text() == "SECRET\n"


@pytest.mark.parametrize(("tool", "arguments"), ALL)
def test_symbolic_links_are_not_followed(agent, secret, tool, arguments):
    os.symlink(secret, agent.root / "file")
    os.symlink(secret.parent, agent.root / "folder")
    os.symlink("/proc/self/root", agent.root / "proc")
    for path in ("file", "folder/secret.txt", "proc/etc/passwd"):
        result = agent.call(tool, path=path, **arguments)
        assert result.error.code == "symbolic_link"
    assert secret.read_text() == "SECRET\n"


def test_characters_that_look_like_dots_or_slashes_are_only_names(agent, secret):
    for path in ("\uff0e\uff0e/secret.txt", "..\u2215secret.txt", "%2e%2e/secret.txt"):
        assert agent.call("read_file", path=path).error.code == "not_found"


@pytest.mark.parametrize(("tool", "arguments"), READERS)
def test_a_hard_link_to_a_file_outside_is_refused(agent, secret, tool, arguments):
    os.link(secret, agent.root / "hard")
    result = agent.call(tool, path="hard", **arguments)
    assert result.error.code == "hard_link"


def test_a_hard_link_within_the_folder_is_read(agent):
    (agent.root / "a").write_text("x\n")
    os.link(agent.root / "a", agent.root / "b")
    assert agent.call("read_file", path="b").ok


@pytest.mark.timeout(20)
def test_pipes_sockets_and_devices_are_refused_without_waiting(agent):
    os.mkfifo(agent.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        descriptor = os.open(agent.root, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{descriptor}/socket")
        os.close(descriptor)
        for path in ("pipe", "socket"):
            for tool, arguments in ALL:
                assert not agent.call(tool, path=path, **arguments).ok
    if os.getuid() == 0:
        os.mknod(agent.root / "device", 0o20600, os.makedev(1, 5))
        assert agent.call("read_file", path="device").error.code == "not_regular"


@pytest.fixture
def deep():
    """A folder that few programs can delete, so it lies where pytest never cleans up.

    In memory where that is possible: a busy disk takes seconds to forget so many.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="tallyroom-deep-", dir=memory))
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        for _ in range(10_000):
            os.mkdir("d", dir_fd=descriptor)
            descriptor = _exchange(descriptor, "d")
        os.close(descriptor)
        yield Agent(folder), "d/" * 10_000 + "x"
    finally:
        _remove_chain(folder)


def _exchange(descriptor, name):
    """A descriptor of a neighbour folder, in place of the one that is given."""
    other = os.open(name, os.O_RDONLY, dir_fd=descriptor)
    os.close(descriptor)
    return other


def _remove_chain(folder):
    """Go down to the last folder, then up again and delete what lies below."""
    descriptor, depth = os.open(folder, os.O_RDONLY), 0
    with contextlib.suppress(FileNotFoundError):
        while True:
            descriptor = _exchange(descriptor, "d")
            depth += 1
    for _ in range(depth):
        descriptor = _exchange(descriptor, "..")
        os.rmdir("d", dir_fd=descriptor)
    os.close(descriptor)
    shutil.rmtree(folder)


def test_a_folder_ten_thousand_levels_deep_hurts_nobody(deep):
    agent, path = deep
    (agent.root / "a").write_text("x")
    os.link(agent.root / "a", agent.root / "b")
    assert agent.call("read_file", path="a").ok
    assert agent.call("read_file", path=path).error.code == "bad_path"
    assert agent.call("write_file", path=path, content="x").error.code == "bad_path"
    assert "deeper than" in agent.call("glob", pattern="*.py").output
    assert agent.call("grep", pattern="y").output.startswith("no match")


def test_a_link_swapped_in_between_never_shows_what_is_outside(agent, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("SECRET\n")
    inside = agent.root / "folder"
    inside.mkdir()
    (inside / "f").write_text("mine\n")
    done = threading.Event()

    def swap() -> None:
        folder, aside = agent.root / "folder", agent.root / "aside"
        while not done.is_set():
            if aside.exists():  # a write has made a folder of that name
                shutil.rmtree(folder, ignore_errors=True)
            for step, arguments in (
                (os.rename, (aside, folder)),
                (os.rename, (folder, aside)),
                (os.symlink, (outside, folder)),
                (os.unlink, (folder,)),
                (os.rename, (aside, folder)),
            ):
                with contextlib.suppress(OSError):
                    step(*arguments)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        results = [agent.call("read_file", path="folder/f") for _ in range(1500)]
        for _ in range(300):
            agent.call("write_file", path="folder/new", content="x")
    finally:
        done.set()
        thread.join()
    assert {result.output for result in results if result.ok} == {"1\tmine"}
    assert len({result.ok for result in results}) == 2, "the race never happened"
    assert os.listdir(outside) == ["f"]
