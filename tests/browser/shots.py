"""Takes the pages' pictures into screenshots/, for eyes to judge.

    python -m tests.browser.shots [PART-OF-A-NAME ...]

Starts an installation of its own; every state is reached as a person reaches it.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from tests.browser.conftest import PASSWORD
from tests.harness.chromium import launched
from tests.harness.installation import ROOT, Installation

FOLDER = ROOT / "screenshots"
WIDTHS = {"phone": (390, 844), "tablet": (820, 1100), "wide": (1440, 900)}
ANSWER = """원인을 찾았습니다. **세션 쿠키의 `Secure` 속성이 꺼져 있습니다.**

| 설정 | 이전 | 이후 |
|---|---|---|
| `SESSION_COOKIE_SECURE` | `False` | `True` |

```python
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
```
"""


def call(name: str, **arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def script(*steps: dict[str, Any]) -> str:
    return f"[[script: {json.dumps({'steps': list(steps)}, ensure_ascii=False)}]]"


STORIES = {
    "full": "로그인 오류를 고쳐 주세요: 세션 쿠키가 프록시 뒤에서 사라집니다\n"
    + script(
        {
            "text": "먼저 파일을 봅니다.",
            "reasoning": "The cookie is lost behind the proxy.",
            "tool_calls": [
                call("read_file", path="README.md"),
                call("shell", command="ls -la; exit 3"),
            ],
        },
        {
            "tool_calls": [
                call("write_file", path="notes.md", content="# One\n\n# Two\n"),
                call("read_file", path="does/not/exist.py"),
            ]
        },
        {"text": ANSWER},
    ),
    "error": "please answer [[fault:unauthorized]]",
    "streaming": script(
        {"text": "word " * 400, "delays": {"first_ms": 50, "token_ms": 60}}
    ),
}


@contextmanager
def installed() -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="tallyroom-shots-"))
    made = Installation(folder)
    try:
        made.start()
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def enter(page: Page, link: str) -> None:
    page.goto(link)
    page.fill("[name=display_name]", "김민아")
    page.fill("[name=username]", "mina")
    page.fill("[name=password]", PASSWORD)
    page.fill("[name=password_again]", PASSWORD)
    page.click("main button[type=submit]")
    page.wait_for_selector("#message")


def tell(page: Page, text: str, *, wait: bool) -> str:
    """Start a conversation; returns its address."""
    page.goto("/w/first/?new")
    page.fill("#message", text)
    page.press("#message", "Enter")
    page.wait_for_url("**/c/**")
    if wait:
        page.wait_for_selector(
            "#turn-line[data-turn-state=finished], #turn-line[data-turn-state=failed]",
            state="attached",
        )
    return page.url


def places(page: Page) -> dict[str, str]:
    """Every address that is pictured, its state prepared."""
    found = {"empty": "/w/first/?new", "list": "/w/first/"}
    for name, text in STORIES.items():
        found[name] = tell(page, text, wait=name != "streaming")
    return found | {
        "context": found["full"].partition("?")[0] + "context/?open",
        "files": "/w/first/files/",
        "file": "/w/first/files/view/README.md?source",
        "members": "/w/first/settings/members/",
        "agents": "/w/first/settings/agents/",
        "endpoints": "/w/first/settings/endpoints/",
        "permissions": "/w/first/settings/permissions/",
        "runs": "/observability/",
        "account": "/account/",
    }


def take(browser: Browser, base: str, state: Any, wanted: list[str]) -> None:
    context = browser.new_context(base_url=base, storage_state=state)
    addresses = places(context.new_page())
    context.close()
    for language in ("en", "ko"):
        cookie = {"name": "django_language", "value": language, "url": base}
        for theme in ("light", "dark"):
            for width, (x, y) in WIDTHS.items():
                context = browser.new_context(
                    base_url=base,
                    storage_state=state,
                    color_scheme=theme,  # type: ignore[arg-type]
                    viewport={"width": x, "height": y},
                )
                context.add_cookies([cookie])  # type: ignore[list-item]
                page = context.new_page()
                for name, address in addresses.items():
                    file = f"{name}-{width}-{theme}-{language}.png"
                    if wanted and not any(part in file for part in wanted):
                        continue
                    page.goto(address)
                    page.wait_for_timeout(700)  # ms
                    page.screenshot(path=FOLDER / file)
                context.close()


def main(wanted: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    with installed() as installation, launched() as browser:
        context = browser.new_context(base_url=installation.origin)
        enter(context.new_page(), installation.setup_link)
        state = context.storage_state()
        context.close()
        take(browser, installation.origin, state, wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
