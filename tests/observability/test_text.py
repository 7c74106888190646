"""Text that nobody vouches for, made fit to be shown."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from observability.text import json_line, visible

HIDDEN = "\x1b\x00\x9b\u202e\u2066\u200b\ufeff\x7f\u2028"


def test_every_hidden_character_becomes_visible():
    assert visible("\x1b[31mred\x1b[0m") == "␛[31mred␛[0m"
    assert visible("user\u202etxt.exe") == "user⟨U+202E⟩txt.exe"
    assert not set(visible(HIDDEN)) & set(HIDDEN)


def test_words_lines_and_emoji_stay_as_they_are():
    text = "두 줄\n\tand a 👍"
    assert visible(text) == text


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_a_json_line_is_one_line_says_the_same_and_hides_nothing(value):
    line = json_line(value)
    assert json.loads(line) == value
    assert "\n" not in line
    assert not set(line) & set(HIDDEN)
