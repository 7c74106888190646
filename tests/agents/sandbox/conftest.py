from __future__ import annotations

import pytest

from agents import sandbox
from agents.interrupts import Interrupt
from agents.sandbox import Sandbox

if reason := sandbox.available():
    pytest.skip(f"commands cannot be confined here: {reason}", allow_module_level=True)


@pytest.fixture
def box(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return Sandbox(root, Interrupt())


@pytest.fixture
def sh(box):
    """Run a shell script in the sandbox."""

    def run(script, timeout=20):
        return box.run(["/bin/sh", "-c", script], timeout=timeout)

    return run


@pytest.fixture
def py(box):
    """Run a Python program in the sandbox."""

    def run(program, timeout=20):
        python = sandbox.find_python()
        if not python:
            pytest.skip("the system has no Python of its own")
        return box.run([python, "-I", "-c", program], timeout=timeout)

    return run
