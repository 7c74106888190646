"""No secret in what is stored for reading, or written to a log."""

from __future__ import annotations

import io
import json
import logging
import time

import pytest

from workspace import redaction
from workspace.logs import JSONFormatter
from workspace.redaction import MARK, RedactingFilter, redact, redact_data, register

CANARY = "c4nary0Q9x7Zk2Lm"

LEAKS = [
    f"Authorization: Bearer {CANARY}",
    f"authorization: basic {CANARY}==",
    f'{{"api_key": "{CANARY}"}}',
    f'{{"arguments": "{{\\"password\\": \\"{CANARY}\\"}}"}}',
    f"OPENAI_API_KEY={CANARY}",
    f"export DB_PASSWORD='{CANARY}'",
    f"postgres://tally:{CANARY}@db.internal:5432/tally",
    f"postgres://tally:p@{CANARY}@db.internal/tally",
    f"https://x-access-token:{CANARY}@github.com/a/b.git",
    f"GET /v1?access_token={CANARY}&page=2",
    f"Cookie: theme=dark; sessionid={CANARY}",
    f"curl --password {CANARY} https://example.org",
    f"sk-proj-{CANARY}{CANARY}",
    f"ghp_{CANARY}{CANARY}",
    f"xoxb-{CANARY}",
    f"AIza{CANARY}{CANARY}",
    f"eyJhbGciOiJI.eyJzdWIiOiIx.{CANARY}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}",
    f"client_secret: {CANARY}",
    f"token => {CANARY}",
]
HARMLESS = [
    "[context] 1200 of 270000 tokens",
    "[model] m: 900 in (800 cached), 12 out, 340 ms",
    '{"tokens": 900, "max_tokens": 20000, "first_token_ms": 12}',
    "the secret of good tea is patience",
    "see https://example.org:8443/a@b and mail me@example.org",
    "비밀번호를 잊었습니다: 다시 설정하세요",
]


@pytest.fixture(autouse=True)
def _forget():
    yield
    redaction._known.clear()
    redaction._known_pattern = None


@pytest.mark.parametrize("text", LEAKS)
def test_a_secret_is_found_by_its_shape(text):
    assert CANARY not in redact(text)
    assert MARK in redact(text)


@pytest.mark.parametrize("text", LEAKS)
def test_redacting_twice_changes_nothing(text):
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_a_little_like_a_secret_stays(text):
    assert redact(text) == text


def test_a_registered_value_is_found_whatever_surrounds_it():
    secret = 'odd "key"/with=signs'
    register(secret)
    assert secret not in redact(f"before{secret}after")
    assert "with=signs" not in redact(json.dumps({"x": secret}))
    assert "with%3Dsigns" not in redact("https://h/?k=odd%20%22key%22%2Fwith%3Dsigns")


def test_a_short_value_is_not_registered_because_it_would_blank_out_words():
    register("abc")
    assert redact("abc abcdef") == "abc abcdef"


def test_the_oldest_values_are_forgotten_and_the_newest_kept(monkeypatch):
    monkeypatch.setattr(redaction, "MOST_SECRETS", 3)
    register(*(f"value-number-{number}" for number in range(5)))
    assert redact("value-number-4") == MARK
    assert redact("value-number-0") == "value-number-0"


def test_a_field_with_a_secrets_name_is_blank_whatever_it_holds():
    data = {"api_key": "x", "headers": [{"X-Api-Key": 12}], "tokens": 5, "token": None}
    assert redact_data(data) == {
        "api_key": MARK,
        "headers": [{"X-Api-Key": MARK}],
        "tokens": 5,
        "token": None,
    }


@pytest.mark.parametrize(
    "unit", ["a", 'token="', "token=", "://a:", "eyJaaaaaaaaa.", "bearer ", "token=\\"]
)
def test_hostile_text_of_64_kib_takes_no_time_that_anyone_notices(unit):
    text = (unit * 65536)[:65536]
    started = time.perf_counter()
    redact(text)
    assert time.perf_counter() - started < 1.0


@pytest.mark.parametrize(
    "formatter", [JSONFormatter(), logging.Formatter("%(message)s")]
)
def test_neither_a_log_line_nor_its_arguments_nor_its_trace_holds_a_secret(formatter):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(RedactingFilter())
    logger = logging.Logger("leaky")
    logger.addHandler(handler)
    try:
        raise ValueError(f"password={CANARY}")
    except ValueError:
        logger.exception("Calling with %s", f"Bearer {CANARY}")
    assert CANARY not in stream.getvalue()
    assert "ValueError" in stream.getvalue()
