"""One installation for the browser tests; tests/conftest.py has the Chromium."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.harness.chromium import CHROMIUM
from tests.harness.installation import Installation

PASSWORD = "a quiet harbour in June"


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    if not Path(CHROMIUM).exists():
        pytest.skip("Chromium is not installed")
    folder = Path(tempfile.mkdtemp(prefix="tallyroom-browser-"))
    made = Installation(folder)
    try:
        made.start()
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def signed_in(installation: Installation, chromium: Browser, tmp_path_factory) -> Path:
    """The administrator's cookies, made as a newcomer makes them: by the link."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(installation.setup_link)
    page.fill("[name=display_name]", "Mina Park")
    page.fill("[name=username]", "mina")
    page.fill("[name=password]", PASSWORD)
    page.fill("[name=password_again]", PASSWORD)
    page.click("main button[type=submit]")
    page.wait_for_selector("#message")
    state = tmp_path_factory.mktemp("browser") / "state.json"
    context.storage_state(path=state)
    context.close()
    return state


@pytest.fixture
def context(
    installation: Installation, chromium: Browser, signed_in: Path
) -> Iterator[BrowserContext]:
    made = chromium.new_context(
        base_url=installation.origin,
        storage_state=signed_in,
        viewport={"width": 1280, "height": 860},
    )
    made.set_default_timeout(20_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page on which no script fails and nothing breaks the content policy."""
    made = context.new_page()
    wrong: list[str] = []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on(
        "console",
        lambda said: (
            wrong.append(said.text) if "Content Security Policy" in said.text else None
        ),
    )
    yield made
    assert wrong == []
