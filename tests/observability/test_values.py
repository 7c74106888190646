"""What an event holds, made fit for storing."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observability.values import MOST_DATA, MOST_RAW, fit_data, fit_text, size

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3000),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=20)
    ),
    max_leaves=30,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=20))
def test_whatever_an_event_holds_fits_and_can_be_stored(data):
    fitted = fit_data(data)
    assert size(fitted) <= MOST_DATA
    text = json.dumps(fitted, ensure_ascii=False, allow_nan=False)
    assert "\x00" not in text
    text.encode()


def test_values_that_json_has_no_type_for_become_strings():
    data = {
        "id": UUID(int=5),
        "cost": Decimal("0.1"),
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "names": ("a", "b"),
        "rate": float("nan"),
        "bytes": b"abc",
    }
    assert fit_data(data) == {
        "id": "00000000-0000-0000-0000-000000000005",
        "cost": "0.1",
        "at": "2026-01-02T00:00:00+00:00",
        "names": ["a", "b"],
        "rate": "nan",
        "bytes": f"3 bytes, sha256 {hashlib.sha256(b'abc').hexdigest()}",
    }


def test_a_long_string_is_cut_and_its_size_and_digest_named():
    output = "x" * 200_000
    fitted = fit_data({"tool": "shell", "output": output})
    assert fitted["tool"] == "shell"
    assert "(200000 characters" in fitted["output"]
    assert hashlib.sha256(output.encode()).hexdigest() in fitted["output"]


def test_data_of_too_many_small_values_leaves_an_outline_with_its_size():
    fitted = fit_data({f"key{number}": "value" for number in range(5000)})
    assert fitted["truncated"]["keys"] == 5000
    assert size(fitted) <= MOST_DATA


@pytest.mark.parametrize("start", [MOST_RAW - 30, 4096 - 30, 2000 - 30, 0])
def test_a_secret_across_any_cut_leaves_no_half_behind(start):
    secret = "sk-" + "S3cr3t" * 10
    text = " " * start + secret + "y " * 40_000
    assert "S3cr3t" not in fit_data({"arguments": text})["arguments"]
    assert "S3cr3t" not in fit_text(text)


def test_nul_and_lone_surrogates_are_replaced():
    assert fit_text("a\x00b\ud800") == "a␀b�"
