"""Markdown of models and tools: useful marks stay, nothing that acts does."""

from __future__ import annotations

import pytest

from workspace.diffs import rows_of
from workspace.markdown import LARGEST, render

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:msgbox)",
    '[x](https://e.example "onmouseover=alert(1)")',
    "![x](javascript:alert(1))",
    '```"><script>alert(1)</script>\ncode\n```',
    "<style>body{display:none}</style>",
    "<iframe src=https://e.example></iframe>",
    "| a |\n|:-:|\n| <b onclick=alert(1)> |",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_acts_comes_through(text):
    page = render(text)
    for forbidden in ("<script", "<img", "<svg", "<style", "<iframe", "style="):
        assert forbidden not in page
    for attribute in ('href="javascript', 'href="data', 'href="vbscript', "<b "):
        assert attribute not in page.lower()


def test_a_picture_elsewhere_becomes_a_link_that_nobody_follows_by_reading():
    assert render("![map](https://e.example/m.png)") == (
        '<p><a href="https://e.example/m.png"'
        ' rel="noopener noreferrer nofollow">map</a></p>\n'
    )


def test_code_is_highlighted_with_classes_and_can_be_copied():
    page = render("```python\ndef f(): pass\n```")
    assert '<span class="k">def</span>' in page
    assert 'data-copy="code"' in page


def test_code_of_an_unknown_language_is_shown_as_it_is():
    assert "&lt;b&gt;" in render("```no-such-language\n<b>\n```")


def test_headings_stand_below_the_pages_own():
    assert render("# Title") == "<h3>Title</h3>\n"
    page = render("### a\n\n##### b\n\n## c\n\n### d")
    assert [line[1:3] for line in page.split()] == ["h3", "h4", "h3", "h4"]


def test_a_table_keeps_its_alignment_without_a_style():
    assert 'data-align="right"' in render("| a |\n|--:|\n| 1 |")


def test_a_huge_text_is_shown_plainly_and_escaped():
    page = render("<" * (LARGEST + 1))
    assert page.startswith('<pre class="plain">&lt;')


def test_a_diff_numbers_both_sides():
    rows = rows_of("--- a\n+++ b\n@@ -3,2 +3,2 @@\n same\n-old\n+new\n")
    assert [(r.kind, r.text, r.old, r.new) for r in rows[1:]] == [
        ("same", "same", 3, 3),
        ("del", "old", 4, None),
        ("add", "new", None, 4),
    ]
