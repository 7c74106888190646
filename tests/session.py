"""A folder and a broker for one run of the suite.

pytest loads this plugin first (`-p tests.session`): Django's settings are read before
any conftest.py, and they must find the environment that is made here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.harness.valkey import EmbeddedValkey

SESSION_DIR = Path(tempfile.mkdtemp(prefix="tallyroom-tests-"))
os.environ["VAR_DIR"] = str(SESSION_DIR / "var")
os.environ.setdefault("SECRET_KEY", "only-for-tests-" + "0" * 50)
os.environ.setdefault("RUN_LEASE_SECONDS", "2")
os.environ.setdefault("RUN_LEASE_RENEW_SECONDS", "0.5")
(SESSION_DIR / "var").mkdir(mode=0o700)

_broker: EmbeddedValkey | None = None
if "REDIS_URL" not in os.environ:
    _broker = EmbeddedValkey(SESSION_DIR / "valkey")
    _broker.start()
    os.environ["REDIS_URL"] = _broker.url


def pytest_unconfigure(config: pytest.Config) -> None:
    if _broker is not None:
        _broker.stop()
    shutil.rmtree(SESSION_DIR, ignore_errors=True)
