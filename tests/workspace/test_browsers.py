"""Browsers in words."""

from __future__ import annotations

import pytest
from django.utils.translation import override

from workspace.browsers import in_words
from workspace.templatetags.people import browser

CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        (f"Mozilla/5.0 (X11; Linux x86_64) {CHROME}", "Chrome on Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0) {CHROME} Edg/131.0.0.0", "Edge on Windows"),
        (f"Mozilla/5.0 (Linux; Android 10; K) {CHROME}", "Chrome on Android"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Version/17.0 "
            "Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:133.0) Firefox/133.0",
            "Firefox on macOS",
        ),
        ("curl/8.5.0", "curl"),
        ("", ""),
    ],
)
def test_a_browser_is_named_with_its_system(user_agent, words):
    assert in_words(user_agent) == words


def test_an_unknown_one_is_shown_in_short():
    assert browser("Strange " * 30) == ("Strange " * 30)[:60]


def test_korean_puts_the_system_first():
    with override("ko"):
        assert in_words(f"(X11; Linux x86_64) {CHROME}") == "Linux의 Chrome"
