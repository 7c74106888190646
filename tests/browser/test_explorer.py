"""The context explorer in Chromium: search, open, and what would change."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_chat import finished, script, start

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=document.title='owned'> \"two\"\nlines"


def number(page: Page, selector: str) -> int:
    return int(re.sub(r"\D", "", page.locator(selector).inner_text()))


@pytest.fixture
def explorer(page: Page) -> Page:
    """The explorer of a conversation whose answer means harm, by the command."""
    start(page, script({"text": HOSTILE}))
    finished(page)
    page.fill("#message", "/context")
    page.press("#message", "Enter")
    page.wait_for_url("**/context/")
    return page


def test_a_search_leaves_the_parts_that_hold_the_words(explorer: Page):
    everything = explorer.locator("#tree [data-digest]:not([hidden])").count()
    explorer.keyboard.press("/")
    explorer.keyboard.type("safety and permissions")
    expect(explorer.locator("#tree [data-digest]:visible")).to_have_count(1)
    expect(explorer.locator("#tree-found")).to_contain_text("1")
    explorer.fill("#tree-words", "")
    shown = explorer.locator("#tree [data-digest]:not([hidden])")
    expect(shown).to_have_count(everything)


def test_a_part_shows_its_text_when_opened_and_the_text_does_nothing(explorer: Page):
    explorer.fill("#tree-words", "Assistant message")
    part = explorer.locator("#tree [data-digest]:visible .tree-part")
    expect(part).to_have_count(1)
    part.locator("summary").click()
    text = part.locator("pre")
    expect(text).to_contain_text("<img src=x onerror=document.title='owned'>")
    expect(text).to_contain_text("\\nlines")
    explorer.check("#readable")
    expect(text).not_to_contain_text("\\nlines")
    assert part.locator("img").count() == 0
    assert explorer.title().startswith("Context · ")


def test_ticking_a_tool_counts_anew_at_once_and_saves_nothing(explorer: Page):
    asked: list[str] = []
    explorer.on("request", lambda request: asked.append(request.url))
    before = number(explorer, "#what-total")
    box = explorer.locator("#what-if [data-change]:not(:checked)").first
    change = float(box.get_attribute("data-change") or "0")
    box.check()
    assert abs(number(explorer, "#what-total") - before - change) <= 1
    explorer.locator("#what-if [data-all]").click()
    assert number(explorer, "#what-total") > before + change
    explorer.locator("#what-if [data-reset]").click()
    assert number(explorer, "#what-total") == before
    assert [url for url in asked if "/static/" not in url] == []


def test_the_indicator_leads_to_the_explorer_and_detail_opens_the_tree(explorer: Page):
    explorer.locator(".crumbs a").click()
    explorer.locator("button.gauge").click()
    explorer.locator("#context-popover a").click()
    explorer.wait_for_url("**/context/")
    expect(explorer.locator("#tree [data-group][open]")).to_have_count(0)
    explorer.go_back()
    explorer.fill("#message", "/context detail")
    explorer.press("#message", "Enter")
    explorer.wait_for_url("**/context/?open")
    expect(explorer.locator("#tree [data-group]:not([open])")).to_have_count(0)
    expect(explorer.locator("#tree [data-digest]").first).to_be_visible()


def test_enter_sends_a_command_that_is_written_in_full(page: Page):
    start(page, "hello")
    finished(page)
    page.locator("#message").press_sequentially("/tools")
    expect(page.locator("#completion [role=option]").first).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/tools/")
