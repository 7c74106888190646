"""Files in the composer and below messages, in Chromium."""

from __future__ import annotations

import base64

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_chat import finished, start
from tests.pictures import noise, picture, saved

pytestmark = pytest.mark.browser

#: Pastes what it gets as an event that a browser would send.
PASTE = """([name, data, text]) => {
  const carried = new DataTransfer();
  if (text) carried.setData("text/plain", text);
  else carried.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name));
  const event = new ClipboardEvent("paste", { clipboardData: carried, bubbles: true, cancelable: true });
  document.querySelector("#message").dispatchEvent(event);
}"""


def paste_file(page: Page, name: str, data: bytes) -> None:
    page.evaluate(PASTE, [name, base64.b64encode(data).decode(), ""])


def items(page: Page):
    return page.locator("#attached [data-attachment]")


def test_images_are_chosen_pasted_kept_over_a_reload_removed_and_sent(page: Page):
    start(page, "say hi")
    finished(page)
    shot = saved(noise(900, 500, "RGB"), "PNG")
    page.set_input_files(
        "#composer input[type=file]",
        [
            {"name": "first.png", "mimeType": "image/png", "buffer": shot},
            {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"one two"},
        ],
    )
    expect(items(page)).to_have_count(2)
    paste_file(page, "second.png", picture(300, 200))
    expect(items(page)).to_have_count(3)
    page.reload()
    expect(items(page)).to_have_count(3)
    notes = items(page).filter(has_text="notes.txt")
    notes.get_by_role("button", name="Remove the file").click()
    expect(items(page)).to_have_count(2)
    page.fill("#message", "what is on these?")
    page.press("#message", "Enter")
    finished(page)
    expect(items(page)).to_have_count(0)
    thumbs = page.locator("#entries .message-user").last.locator(".thumb img")
    expect(thumbs).to_have_count(2)
    thumbs.first.click()
    box = page.locator("#lightbox")
    expect(box.locator("bdi")).to_have_text("first.png")
    page.keyboard.press("ArrowRight")
    expect(box.locator("bdi")).to_have_text("second.png")
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()


def test_a_long_paste_becomes_a_file_and_comes_back_as_text(page: Page):
    start(page, "say hi")
    finished(page)
    page.evaluate(PASTE, ["", "", "long text " * 900])
    expect(items(page)).to_have_count(1)
    expect(page.locator("#message")).to_have_value("")
    page.get_by_role("button", name="Put back as text").click()
    expect(items(page)).to_have_count(0)
    assert page.input_value("#message") == "long text " * 900


def test_a_file_that_is_refused_says_why_and_stands_in_nobodys_way(page: Page):
    start(page, "say hi")
    finished(page)
    paste_file(page, "broken.png", picture()[:40])
    refused = page.locator("#attached .is-refused")
    expect(refused).to_contain_text("damaged")
    refused.get_by_role("button", name="Remove the file").click()
    expect(refused).to_have_count(0)
    page.fill("#message", "/attach")
    with page.expect_file_chooser():
        page.press("#message", "Enter")
    assert page.input_value("#message") == ""
