"""The short version of `make chaos`: every promise, on a few kills of each kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.installation import clean_environment

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = [pytest.mark.kill, pytest.mark.timeout(420)]


@pytest.mark.parametrize(
    "scenarios", [["kills"], ["viewers", "broker", "drain"], ["stops", "faults"]]
)
def test_no_promise_breaks_under_a_tenth_of_the_chaos(scenarios):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.chaos", *scenarios),
            *("--scale", "0.1", "--seed", "1", "--minutes", "6"),
        ],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "0 violations" in done.stdout
