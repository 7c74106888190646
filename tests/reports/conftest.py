"""One installation for everything here that is tried on the running product."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.conftest import conversation, script, stage, start_turn
from tests.harness.installation import Installation
from tests.reports.canaries import ENVIRONMENT
from tests.reports.live import Rows, Visitor

__all__ = ["conversation", "script", "stage", "start_turn"]

#: Short leases, so that a run whose worker is gone goes on while a test waits.
SETTINGS = {
    "RUN_LEASE_SECONDS": "4",
    "RUN_LEASE_RENEW_SECONDS": "1",
    "WORKER_SWEEP_SECONDS": "1",
    "SWEEP_SECONDS": "2",
    "DRAIN_SECONDS": "5",
}


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """`manage.py up` with secrets in its environment that nobody may ever see."""
    folder = Path(tempfile.mkdtemp(prefix="tallyroom-reports-"))
    made = Installation(folder, **SETTINGS, **ENVIRONMENT)
    try:
        made.start()
        yield made
    finally:
        for client in Visitor.clients:
            client.close()
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def boss(installation: Installation) -> Visitor:
    """The installation's administrator."""
    visitor = Visitor(installation.origin)
    return visitor.come_in(installation.setup_link, "boss", "Mina Park")


@pytest.fixture(scope="session")
def rows(installation: Installation) -> Rows:
    return Rows(installation)
