"""The canonical text and the digests over it."""

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as some

from workspace.chain import GENESIS, Link, Walk, canonical, check_body, stamp
from workspace.errors import BrokenChain

texts = some.text(some.characters(exclude_categories=[]))  # surrogates, too
numbers = some.floats(allow_nan=False, allow_infinity=False)
values = some.recursive(
    some.none() | some.booleans() | some.integers() | numbers | texts,
    lambda inner: some.lists(inner) | some.dictionaries(texts, inner),
    max_leaves=20,
)


@given(values)
def test_canonical_text_is_stable_and_survives_a_round_trip(value):
    text = canonical(value)
    assert canonical(json.loads(text)) == text
    assert "\0" not in text
    text.encode()  # raises for what UTF-8 cannot hold


@given(some.dictionaries(some.text(), some.integers()))
def test_the_order_of_keys_does_not_matter(value):
    assert canonical(dict(reversed(value.items()))) == canonical(value)
    assert json.loads(canonical(value)) == value


def test_canonical_text_has_no_spaces_and_sorted_keys():
    assert canonical({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'


@pytest.mark.parametrize("value", [{1: "a"}, {"a": {2}}, {"a": b"x"}, {"a": object()}])
def test_what_json_has_no_word_for_is_refused(value):
    with pytest.raises(TypeError):
        canonical(value)


def test_the_digest_is_the_documented_one():
    link = Link(1, "user", None, "someone", "2026-01-02T03:04:05.000000+00:00", "ff")
    text = (
        '{"author":"someone","body_digest":"ff",'
        '"created_at":"2026-01-02T03:04:05.000000+00:00",'
        '"kind":"user","seq":1,"turn":null}'
    )
    wanted = hashlib.sha256((GENESIS + text).encode()).hexdigest()
    assert link.digest(GENESIS) == wanted


def test_moments_are_written_in_utc_with_six_decimals():
    seoul = timezone(timedelta(hours=9))
    assert stamp(datetime(2026, 1, 1, 9, tzinfo=seoul)) == (
        "2026-01-01T00:00:00.000000+00:00"
    )
    assert stamp(datetime(2026, 1, 1, tzinfo=UTC)).endswith("00.000000+00:00")


def test_a_walk_names_the_entry_that_is_missing():
    walk = Walk()
    link = Link(2, "user", None, None, "", "")
    with pytest.raises(BrokenChain, match="Entry 1: it is missing"):
        walk.step(link, link.digest(GENESIS))


def test_a_body_is_checked_with_its_nonce():
    digest = hashlib.sha256(b"abc{}").hexdigest()
    check_body(1, "abc", "{}", digest)
    with pytest.raises(BrokenChain, match="Entry 1"):
        check_body(1, "abd", "{}", digest)
