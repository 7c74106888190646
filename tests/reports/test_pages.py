"""Reports about pages, in Chromium: lost sockets, reloads, hidden tabs, hostile text."""

from __future__ import annotations

import contextlib
import http.server
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.harness.installation import wait_until
from tests.reports.live import SLUG, Rows, Talk, Visitor, script, shell, story, told
from tests.reports.proxy import Proxy

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SAID = (
    "[...document.querySelectorAll('#streams .message-body,"
    " #entries .message-agent .message-body')].at(-1)?.textContent.trim() ?? ''"
)
#: Milliseconds within which a page that is back must show everything.
BACK = 2000


def window(chromium: Browser, visitor: Visitor, origin: str = "") -> BrowserContext:
    """A browser of a visitor who is signed in."""
    origin = origin or visitor.origin
    made = chromium.new_context(
        base_url=origin, viewport={"width": 1280, "height": 860}
    )
    made.set_default_timeout(20_000)
    made.add_cookies(
        [
            {"name": name, "value": value, "url": origin}
            for name, value in visitor.client.cookies.items()
        ]
    )
    return made


@pytest.fixture
def context(chromium: Browser, boss: Visitor) -> Iterator[BrowserContext]:
    made = window(chromium, boss)
    yield made
    made.close()


def underway(page: Page, characters: int) -> None:
    wait_until(lambda: len(page.evaluate(SAID)) > characters, 15, "the answer streams")


def complete(page: Page, text: str, milliseconds: int = BACK) -> None:
    """The whole answer, its end, and nothing that still turns."""
    line = page.locator("#turn-line")
    expect(line).to_have_attribute("data-turn-state", "finished", timeout=milliseconds)
    expect(page.locator("#streams > *")).to_have_count(0)
    assert page.evaluate(SAID) == text


def test_row_1_a_swallowed_socket_is_given_up_and_the_end_is_shown(
    chromium, boss, rows
):
    talk = boss.converse()
    with Proxy(int(boss.origin.rsplit(":", 1)[1])) as proxy:
        context = window(chromium, boss, proxy.origin)
        page = context.new_page()
        page.goto(boss.path(talk))
        boss.say(talk, script(story(120, 40)))
        underway(page, 40)
        proxy.swallow()
        assert rows.wait_ended(talk) == "finished"
        page.wait_for_timeout(1000)
        assert page.evaluate(SAID) != told(120)
        page.evaluate("dispatchEvent(new Event('offline'))")
        page.evaluate("dispatchEvent(new Event('online'))")
        complete(page, told(120))
        context.close()


def test_row_1_a_swallowed_socket_is_noticed_without_any_sign_from_the_system(
    chromium, boss, rows
):
    talk = boss.converse()
    with Proxy(int(boss.origin.rsplit(":", 1)[1])) as proxy:
        context = window(chromium, boss, proxy.origin)
        page = context.new_page()
        page.goto(boss.path(talk))
        boss.say(talk, script(story(60, 40)))
        underway(page, 40)
        proxy.swallow()
        complete(page, told(60), 25_000)
        context.close()


def test_row_2_reloads_at_any_moment_show_a_beginning_of_the_stored_answer(
    context, boss, rows
):
    page, chance = context.new_page(), random.Random(2)
    for _ in range(5):
        talk = boss.converse("auto")
        page.goto(boss.path(talk))
        boss.say(talk, script(story(100, 30)))
        seen = []
        for _ in range(3):
            underway(page, 10)
            page.wait_for_timeout(chance.randrange(50, 700))
            page.reload()
            seen += [page.evaluate(SAID) for _ in range(3)]
        assert rows.wait_ended(talk) == "finished"
        complete(page, told(100), 5000)
        assert all(told(100).startswith(part) for part in seen), seen
        level = page.locator("[name=level][aria-current]")
        assert level.get_attribute("value") == "auto"


def test_row_5_a_phone_that_slept_through_a_command_shows_its_result_without_reload(
    context, boss, rows
):
    page, talk = context.new_page(), boss.converse("auto")
    page.goto(boss.path(talk))
    page.evaluate("window.sameDocument = true")
    boss.say(talk, script(shell("sleep 4; echo rested"), {"text": "Good morning."}))
    rows.wait_state(talk, "running")
    page.wait_for_timeout(500)
    context.set_offline(True)
    assert rows.wait_ended(talk) == "finished"
    context.set_offline(False)
    complete(page, "Good morning.", 4000)
    assert "rested" in page.locator("#entries").text_content()
    assert page.evaluate("window.sameDocument")


def test_row_9_enter_and_a_click_at_once_send_one_message(context, boss, rows):
    page, talk = context.new_page(), boss.converse()
    page.goto(boss.path(talk))
    page.fill("#message", script({"text": "Once."}))
    page.evaluate(
        "() => { const key = new KeyboardEvent('keydown',"
        " {key: 'Enter', bubbles: true, cancelable: true});"
        " document.querySelector('#message').dispatchEvent(key);"
        " document.querySelector('#composer .send').click(); }"
    )
    wait_until(lambda: rows.runs(talk), 10, "the message is there")
    assert rows.wait_ended(talk) == "finished"
    page.wait_for_timeout(1000)
    assert len(rows.bodies(talk, "user")) == len(rows.runs(talk)) == 1


def test_a_hidden_frozen_tab_writes_nothing_and_is_complete_when_shown(
    context, boss, rows
):
    page, talk = context.new_page(), boss.converse()
    page.goto(boss.path(talk))
    boss.say(talk, script(story(80, 40)))
    underway(page, 20)
    tools = context.new_cdp_session(page)
    tools.send("Page.setWebLifecycleState", {"state": "frozen"})
    assert rows.wait_ended(talk) == "finished"
    tools.send("Page.setWebLifecycleState", {"state": "active"})
    complete(page, told(80), 4000)
    [(head,)] = rows.all(
        "SELECT head_seq FROM workspace_conversation WHERE id = ?", talk.pk.hex
    )
    kinds = rows.all(
        "SELECT kind FROM workspace_entry WHERE conversation_id = ? ORDER BY seq",
        talk.pk.hex,
    )
    assert [kind for (kind,) in kinds][2:] == ["user", "assistant"]
    assert head == 4
    assert page.locator("#entries .is-failed, #entries [role=alert]").count() == 0


@dataclass
class Canary:
    """A server that nobody should ever ask."""

    port: int = 0
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def bird() -> Iterator[Canary]:
    canary = Canary()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            canary.asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        canary.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield canary
        server.shutdown()


def payloads(url: str) -> str:
    """What each of these would do: call `hacked`, or ask the canary."""
    return "\n\n".join(
        (
            f"<script>hacked();fetch('{url}/script')</script>",
            f"<img src=x onerror=hacked()> <img src={url}/img>",
            f"<svg onload=hacked()><image href={url}/svg /></svg>",
            f"![picture]({url}/markdown.png) [![a]({url}/b.png)](javascript:hacked())",
            "[link](javascript:hacked()) [data](data:text/html,<script>hacked()</script>)",
            "<a href='java\tscript:hacked()'>x</a> [vb](vbscript:hacked)",
            f"<iframe src={url}/frame></iframe><object data={url}/object></object>",
            f"<link rel=stylesheet href={url}/css><style>@import '{url}/style'</style>",
            f"<meta http-equiv=refresh content='0;url={url}/meta'><base href={url}/>",
            f'<form action={url}/form><button autofocus onfocus="hacked()">b</button>',
            '```mermaid\ngraph TD; A-->B; click A "javascript:hacked()"\n```',
            f"$\\href{{javascript:hacked()}}{{x}}$ $\\includegraphics{{{url}/katex}}$",
            "</textarea></script></title><script>hacked()</script>",
            '" autofocus onfocus="hacked()" x="',
            "<!--><img src=x onerror=hacked()>--> &lt;script&gt;hacked()&lt;/script&gt;",
        )
    )


NAME = "<img src=x onerror=hacked()>"
INSTALL = (
    "window.hacks = []; window.hacked = () => window.hacks.push(document.title);"
    "document.addEventListener('securitypolicyviolation', (event) =>"
    " window.hacks.push(`${event.violatedDirective} ${event.blockedURI}`));"
)


def hostile_talk(boss: Visitor, rows: Rows, url: str) -> Talk:
    """A conversation in which everything that can hold text holds payloads."""
    guest = boss.invite(f"guest-{uuid4().hex[:6]}", name=f"{NAME} guest")
    talk, evil = guest.converse("auto"), payloads(url)
    write = {"name": "write_file", "arguments": {"path": "evil.md", "content": evil}}
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload='hacked()'><image href='{url}/file'/></svg>"
    picture = {"name": "write_file", "arguments": {"path": "evil.svg", "content": svg}}
    command = "cat evil.md; touch '<img src=x onerror=hacked()>.txt' '\" onfocus=hacked() \".md'"
    guest.say(
        talk,
        script(
            {"text": evil, "reasoning": evil, "tool_calls": [write, picture]},
            shell(command, evil),
            {"text": "", "tool_calls": [{"name": NAME, "arguments": {"a": evil}}]},
            {"text": evil},
            words=evil,
        ),
    )
    assert rows.wait_ended(talk) == "finished"
    guest.send(guest.path(talk, "rename"), {"title": f"{NAME} title"})
    return talk


def addresses(boss: Visitor, rows: Rows, talk: Talk) -> list[str]:
    files = f"/w/{SLUG}/files/"
    names = ("evil.md", "evil.svg", f"{NAME}.txt", '" onfocus=hacked() ".md')
    runs = [UUID(run_id) for _, _, run_id in rows.runs(talk)]
    return [
        boss.path(talk),
        f"/w/{SLUG}/",
        files,
        *(f"{files}view/{quote(name)}" for name in names),
        f"{files}view/evil.md?source=1",
        f"/w/{SLUG}/settings/members/",
        f"/w/{SLUG}/settings/agents/assistant/logs/",
        *(f"/w/{SLUG}/runs/{run}/" for run in runs),
        "/observability/",
        boss.path(talk, "waits"),
        boss.path(talk, "entries"),
    ]


def test_row_23_hostile_text_names_and_files_are_inert_on_every_page(
    context, boss, rows, bird
):
    context.add_init_script(INSTALL)
    page = context.new_page()
    dialogs: list[str] = []
    page.on("dialog", lambda one: (dialogs.append(one.message), one.dismiss()))
    said: list[str] = []
    page.on("console", lambda one: said.append(one.text))
    talk = hostile_talk(boss, rows, bird.url)
    for address in addresses(boss, rows, talk):
        answer = page.goto(address)
        assert answer.status == 200, address
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        for one in page.locator("summary").all()[:60]:
            with contextlib.suppress(Exception):
                one.click(timeout=300)
        page.wait_for_timeout(200)
        assert page.evaluate("window.hacks") == [], address
    assert (dialogs, bird.asked) == ([], [])
    assert [one for one in said if "Content Security Policy" in one] == []


def test_row_23_hostile_text_is_inert_while_it_streams(context, boss, rows, bird):
    context.add_init_script(INSTALL)
    page, talk = context.new_page(), boss.converse()
    page.goto(boss.path(talk))
    evil = payloads(bird.url)
    delays = {"first_ms": 50, "token_ms": 15}
    boss.say(talk, script({"text": evil, "reasoning": evil, "delays": delays}))
    underway(page, 100)
    assert rows.wait_ended(talk) == "finished"
    page.wait_for_timeout(500)
    assert page.evaluate("window.hacks") == []
    assert bird.asked == []


def test_row_23_a_hostile_file_is_downloaded_or_sandboxed(boss, rows, bird):
    hostile_talk(boss, rows, bird.url)
    answer = boss.client.get(f"/w/{SLUG}/files/raw/evil.svg")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_row_23_no_script_reads_the_session_and_storage_holds_no_secret(context, boss):
    phone = Visitor(boss.origin).sign_in("boss")
    [sent] = [one for one in phone.cookies_set if one.startswith("sessionid=")]
    assert "HttpOnly" in sent
    assert "SameSite=Lax" in sent
    page = context.new_page()
    page.goto(boss.path(boss.converse()))
    page.wait_for_timeout(500)
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    for name in ("sessionid", "csrftoken"):
        assert boss.client.cookies[name] not in stored
