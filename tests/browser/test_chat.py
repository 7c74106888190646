"""The chat page as a person meets it, in Chromium, against a whole installation."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PASSWORD
from tests.harness.installation import Installation, wait_until

pytestmark = pytest.mark.browser

EXAMPLE = "read README.md and tell me what is in it, then list the files"


def script(*steps: dict) -> str:
    return f"[[script: {json.dumps({'steps': list(steps)})}]]"


def story(tokens: int = 60, pause_ms: int = 40) -> dict:
    return {
        "text": " ".join(f"word{number}" for number in range(tokens)),
        "delays": {"first_ms": 50, "token_ms": pause_ms},
    }


def start(page: Page, text: str) -> None:
    page.goto("/w/first/?new")
    page.fill("#message", text)
    page.press("#message", "Enter")
    page.wait_for_url("**/c/**")


def say(page: Page, text: str) -> None:
    page.fill("#message", text)
    page.press("#message", "Enter")


def finished(page: Page, seconds: float = 20) -> None:
    expect(page.locator("#turn-line")).to_have_attribute(
        "data-turn-state", "finished", timeout=seconds * 1000
    )
    expect(page.locator("#streams > *")).to_have_count(0)


def underway(page: Page, characters: int) -> None:
    """So much of the answer has been streamed."""
    wait_until(
        lambda: len(page.locator("#streams").inner_text()) > characters,
        15,
        "the answer streams",
    )


def answer(page: Page) -> str:
    return page.locator(".message-agent .message-body").last.inner_text()


def streamed(page: Page) -> str:
    return page.evaluate(
        "[...document.querySelectorAll('#streams .message-body,"
        " #entries .message-agent .message-body')].at(-1)?.textContent.trim() ?? ''"
    )


def test_a_newcomer_sees_the_agent_read_run_and_answer(page: Page):
    start(page, EXAMPLE)
    finished(page)
    expect(page.locator(".tool-name")).to_have_text(["read_file", "shell"])
    assert "README.md" in answer(page)
    expect(page.locator("#simulated")).to_contain_text("No language model is answering")
    expect(page.locator("[data-figures]").last).to_contain_text("cached")


def test_a_reload_in_mid_stream_shows_what_was_said_and_goes_on(page: Page):
    start(page, script(story()))
    underway(page, 60)
    page.reload()
    underway(page, 60)
    seen = [streamed(page) for _ in range(5)]
    finished(page)
    whole = streamed(page)
    assert whole == story()["text"]
    assert all(whole.startswith(part) for part in seen)


def test_an_answer_that_ended_while_the_page_was_offline_is_there_at_once(
    page: Page, context: BrowserContext
):
    start(page, script(story(40, 50)))
    underway(page, 20)
    context.set_offline(True)
    page.wait_for_timeout(3500)
    context.set_offline(False)
    finished(page, 4)
    assert answer(page) == story(40)["text"]


def test_a_socket_that_swallows_everything_is_given_up(page: Page):
    swallowing: list[bool] = []

    def relay(socket):
        server = socket.connect_to_server()
        is_first = not swallowing
        swallowing.append(False)

        def to_page(message):
            if not (is_first and swallowing[0]):
                socket.send(message)

        server.on_message(to_page)
        socket.on_message(
            lambda message: None if is_first and swallowing[0] else server.send(message)
        )

    page.route_web_socket("**/ws/c/**", relay)
    start(page, script(story(40, 50)))
    underway(page, 20)
    swallowing[0] = True
    finished(page, 14)
    assert answer(page) == story(40)["text"]


def test_two_tabs_show_the_same_answers_over_several_turns(
    page: Page, context: BrowserContext
):
    start(page, script(story(10, 10)))
    finished(page)
    other = context.new_page()
    other.goto(page.url)
    for number in range(2):
        say(page, script({"text": f"Answer number {number}."}))
        expect(other.locator(".message-agent .message-body").last).to_have_text(
            f"Answer number {number}."
        )
        finished(page)
        finished(other)
    texts = "#entries .message-agent .message-body"
    assert (
        page.locator(texts).all_inner_texts() == other.locator(texts).all_inner_texts()
    )


def test_stop_keeps_what_was_said_and_the_next_message_works(page: Page):
    start(page, script(story(400, 40)))
    underway(page, 20)
    page.keyboard.press("Escape")
    expect(page.locator("#turn-line")).to_have_attribute("data-turn-state", "stopped")
    expect(page.locator(".stopped-mark")).to_be_visible()
    assert answer(page).startswith("word0 word1")
    say(page, script({"text": "Going on."}))
    finished(page)
    assert answer(page) == "Going on."


def test_enter_while_an_input_method_composes_sends_nothing(page: Page):
    start(page, "hello")
    finished(page)
    page.fill("#message", "안녕하세")
    page.dispatch_event(
        "#message", "keydown", {"key": "Enter", "isComposing": True, "keyCode": 229}
    )
    page.dispatch_event("#message", "keydown", {"key": "Process", "keyCode": 229})
    assert page.input_value("#message") == "안녕하세"
    expect(page.locator(".message-user")).to_have_count(1)


def test_a_double_click_and_a_lost_answer_send_one_message(page: Page):
    start(page, "hello")
    finished(page)
    lost = []

    def lose_the_first(route):
        lost.append(route)
        response = route.fetch()
        if len(lost) == 1:
            route.abort()
        else:
            route.fulfill(response=response)

    page.route("**/messages", lose_the_first)
    page.fill("#message", "only once")
    page.dblclick("#composer button.send")
    expect(page.locator(".message-user")).to_have_count(2)
    expect(page.locator("#pending > *")).to_have_count(0)
    page.wait_for_timeout(1500)
    page.reload()
    expect(page.locator(".message-user .message-body")).to_have_text(
        ["hello", "only once"]
    )
    assert len(lost) >= 2


def test_hostile_text_stays_text(page: Page):
    hostile = (
        "<script>window.hacked=1</script> <img src=x onerror=window.hacked=1>"
        " [a](javascript:window.hacked=1) ![b](https://example.invalid/x.png)"
        " <svg onload=window.hacked=1>"
    )
    outside: list[str] = []
    page.on(
        "request",
        lambda asked: outside.append(asked.url) if "invalid" in asked.url else None,
    )
    call = {"name": "shell", "arguments": {"command": f"echo '{hostile[:40]}'"}}
    start(page, script({"text": hostile, "tool_calls": [call]}, {"text": hostile}))
    finished(page)
    page.click(".tool summary")
    assert page.evaluate("window.hacked") is None
    assert (
        page.locator(".message-agent img, .message-agent svg:not(.icon)").count() == 0
    )
    assert page.locator(".message-agent a[href^=javascript]").count() == 0
    assert outside == []


def let_commands_reach_the_network(page: Page, *, reach: bool) -> None:
    """With network, the sandbox alone no longer makes a command harmless."""
    page.goto("/w/first/settings/")
    page.set_checked("[name=network]", reach)
    page.click("main form button[type=submit]")


def test_an_approval_is_shown_with_its_exact_command_and_answered_by_key(page: Page):
    let_commands_reach_the_network(page, reach=True)
    call = {"name": "shell", "arguments": {"command": "rm -rf scratch"}}
    start(page, script({"tool_calls": [call]}, {"text": "Done with it."}))
    card = page.locator("[data-wait]")
    expect(card).to_contain_text("rm -rf scratch")
    page.reload()
    expect(card).to_be_visible()
    page.locator("#scroll").focus()
    page.keyboard.press("a")
    finished(page)
    assert answer(page) == "Done with it."
    let_commands_reach_the_network(page, reach=False)


def test_a_queued_message_waits_and_can_be_taken_back(page: Page):
    start(page, script(story(300, 30)))
    underway(page, 20)
    page.click(".when label:has([value=queue])")
    say(page, "later please")
    queued = page.locator(".message-queued")
    expect(queued).to_contain_text("later please")
    queued.locator("button").click()
    expect(queued).to_have_count(0)
    expect(page.locator("#message")).to_have_value("later please")
    page.locator("#scroll").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#turn-line")).to_have_attribute("data-turn-state", "stopped")


def test_a_draft_survives_a_reload(page: Page):
    start(page, "hello")
    finished(page)
    draft = f"a thought {uuid4()}"
    page.fill("#message", draft)
    page.reload()
    expect(page.locator("#message")).to_have_value(draft)


def test_everything_works_without_scripts(chromium, installation, signed_in):
    context = chromium.new_context(
        base_url=installation.origin, storage_state=signed_in, java_script_enabled=False
    )
    page = context.new_page()
    page.goto("/w/first/?new")
    page.fill("#message", "hello")
    page.click("form.composer button.send")
    page.wait_for_url("**/c/**")
    for _ in range(40):
        page.reload()
        if page.locator(".message-agent .message-body").count():
            break
        page.wait_for_timeout(250)
    assert page.locator(".message-agent .message-body").inner_text()
    page.fill("#message", "and again")
    page.click("form.composer button.send")
    expect(page.locator(".message-user .message-body")).to_have_text(
        ["hello", "and again"]
    )
    context.close()


def test_the_palette_finds_a_conversation_by_keyboard(page: Page):
    title = f"Palette {uuid4().hex[:8]}"
    start(page, title)
    finished(page)
    address = page.url
    page.goto("/w/first/files/")
    page.keyboard.press("Control+k")
    page.fill("#palette-words", title)
    page.keyboard.press("Enter")
    page.wait_for_url(address)


def test_the_reader_is_left_in_peace_and_told_what_is_new(page: Page):
    start(page, script({"text": "\n\n".join(f"Paragraph {n}." for n in range(80))}))
    finished(page)
    page.evaluate("document.querySelector('#scroll').scrollTop = 0")
    page.wait_for_timeout(200)
    say(page, script({"text": "The newest."}))
    finished(page)
    page.evaluate("document.querySelector('#scroll').scrollTop = 0")
    page.wait_for_timeout(200)
    other = page.context.new_page()
    other.goto(page.url)
    say(other, script({"text": "Even newer."}))
    expect(page.locator("#jump")).to_have_text(re.compile("2 new messages"))
    assert page.evaluate("document.querySelector('#scroll').scrollTop") < 50
    page.click("#jump")
    expect(page.locator(".message-agent").last).to_be_in_viewport()


@pytest.mark.parametrize("width", [390, 820, 1440])
def test_no_page_is_wider_than_its_window(page: Page, width: int):
    page.set_viewport_size({"width": width, "height": 800})
    start(page, script({"text": "| a | b |\n|---|---|\n" + f"| {'x' * 300} | 1 |"}))
    finished(page)
    for address in (page.url, "/w/first/", "/w/first/files/", "/observability/"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_several_calls_of_one_round_all_show_their_results_live(page: Page):
    calls = [
        {"name": "read_file", "arguments": {"path": "README.md"}},
        {"name": "list_dir", "arguments": {"path": "."}},
        {"name": "glob", "arguments": {"pattern": "*.md"}},
    ]
    start(page, script({"tool_calls": calls}, {"text": "done"}))
    finished(page)
    expect(page.locator('[data-card][data-state="ok"]')).to_have_count(3)


def test_a_live_edit_counts_what_it_replaced_as_a_reload_does(page: Page):
    start(page, "first")
    finished(page)
    page.hover(".message-user")
    page.click("[data-edit]")
    say(page, "second")
    expect(page.locator(".message-user .message-body")).to_have_text(["second"])
    finished(page)
    live = page.locator("[data-folded]").inner_text()
    page.reload()
    assert page.locator("[data-folded]").inner_text() == live


def test_who_may_no_longer_write_loses_the_message_box_at_once(
    page: Page, chromium: Browser, installation: Installation
):
    start(page, "for both")
    finished(page)
    address = page.url
    page.goto("/w/first/settings/members/")
    page.select_option("form:has([name=email]) [name=role]", "member")
    page.click("form:has([name=email]) button[type=submit]")
    page.wait_for_load_state()
    link = re.search(r"https?://[^\s\"<]+/join/[^\s\"<]+", page.content())
    assert link
    context = chromium.new_context(base_url=installation.origin)
    other = context.new_page()
    other.goto(link[0])
    for name, value in (("display_name", "Ann Miller"), ("username", "ann")):
        other.fill(f"[name={name}]", value)
    for name in ("password", "password_again"):
        other.fill(f"[name={name}]", PASSWORD)
    other.click("main button[type=submit]")
    other.wait_for_url("**/w/first/**")
    other.goto(address)
    other.wait_for_selector("#composer")
    other.wait_for_timeout(500)  # ms; the socket joins
    page.goto("/w/first/settings/members/")
    row = page.locator("tr", has_text="Ann Miller")
    row.locator("select").select_option("viewer")
    row.locator("button").first.click()
    expect(other.locator("#composer")).to_have_count(0, timeout=5000)
    expect(other.locator(".message-user")).to_have_count(1)
    context.close()
