"""The tables name tests that exist, and every case that must be tried or reasoned about."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from functools import cache

import pytest

import tests.reports
from tests.harness.installation import ROOT
from tests.reports import acceptance

#: The page of a row without one.
SERVER = "server"
LINE = re.compile(r"^(?:([a-z]+) )?(\S+)\s+(tests/\S+\.py)\s+(\S+)$", re.MULTILINE)
REASON = re.compile(r"^! ([a-z]+) (\S+): (\S.+)$", re.MULTILINE)


def rows(text: str | None) -> list[tuple[str, str, str, str]]:
    """Page, case, file and pattern of each line."""
    return [(page or SERVER, *rest) for page, *rest in LINE.findall(text or "")]


TABLE = [*rows(tests.reports.__doc__), *rows(acceptance.__doc__)]
REASONS = REASON.findall(acceptance.__doc__ or "")


def numbers(text: str) -> set[str]:
    """ "1 3-5 E1-2" are 1, 3, 4, 5, E1, E2; "CTX-1..3" are CTX-1 to CTX-3."""
    found: set[str] = set()
    for word in text.split():
        if dotted := re.fullmatch(r"([A-Z]+-)(\d+)\.\.(\d+)", word):
            name, first, last = dotted.groups()
            found |= {f"{name}{one}" for one in range(int(first), int(last) + 1)}
        elif span := re.fullmatch(r"([xE]?)(\d+)-(\d+)", word):
            name, first, last = span.groups()
            found |= {f"{name}{one}" for one in range(int(first), int(last) + 1)}
        else:
            found.add(word)
    return found


#: What each page holds.
CASES = {
    SERVER: numbers("1 2 4 5 7 9-11 13 15 16 18 20 22-25 -"),
    "snowpea": numbers("1-25 x1-6"),
    "control": numbers("1-25"),
    "qwen": numbers(
        "CTX-1..8 IDLE-1 THR-1..5 4.6 SRCH-1..9 CALL-1..11 DIR-1..2 STAB-1..3 "
        "RES-1..4 SUB-1..5 SKL-1..3 MEM-1..3 MCPF-1..3 GOAL-1..2 PLAN-1..2 BOB-1..7"
    ),
    "context": numbers(
        "1-5 7 8 10 12 13 15 16 19 20 22 24-26 28 29 31 32 34 35 37 39 40 42 44 46 49 50 "
        "E1-3 E5"
    ),
}

#: Tests whose names carry a case: where they are, what the name says, and of which page.
NAMED = (
    ("tests/reports/test_*.py", r"test_row_(\d+)_", SERVER, "{}"),
    ("tests/agents/test_guard.py", r"test_case_(\d+)_", "snowpea", "{}"),
    ("tests/agents/context/test_pruning.py", r"test_case_(\d+)_", "snowpea", "{}"),
    ("tests/agents/test_reported_faults.py", r"test_(\d+)_", "context", "{}"),
    ("tests/agents/test_reported_faults.py", r"test_control_(\d+)_", "control", "{}"),
    ("tests/agents/test_*.py", r"test_ctx_(\d+)_", "qwen", "CTX-{}"),
    ("tests/agents/test_*.py", r"test_bob_(\d+)_", "qwen", "BOB-{}"),
)


@cache
def functions(path: str) -> list[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in tree.body if isinstance(node, kinds)]


@pytest.mark.parametrize("row", TABLE, ids=" ".join)
def test_every_name_in_a_table_exists(row):
    _page, _case, path, pattern = row
    assert [name for name in functions(path) if fnmatch(name, pattern)]


@pytest.mark.parametrize("page", [*CASES])
def test_every_case_of_a_page_is_tried_or_has_a_reason(page):
    tried = {case for of, case, _, _ in TABLE if of == page}
    reasoned = {case for of, case, _ in REASONS if of == page}
    assert tried | reasoned == CASES[page]


def test_no_page_is_in_a_table_that_is_not_known():
    assert {of for of, *_ in [*TABLE, *REASONS]} == {*CASES}
    lines = (acceptance.__doc__ or "").splitlines()
    written = [line for line in lines if "tests/" in line or line.startswith("!")]
    assert len(written) == len(rows(acceptance.__doc__)) + len(REASONS)


@pytest.mark.parametrize(("where", "name_of_case", "page", "form"), NAMED)
def test_every_test_that_names_a_case_is_in_a_table(where, name_of_case, page, form):
    named = 0
    for file in sorted(ROOT.glob(where)):
        place = file.relative_to(ROOT).as_posix()
        for name in functions(place):
            if not (found := re.match(name_of_case, name)):
                continue
            named += 1
            key = (page, form.format(found[1]), place)
            listed = [pattern for *of, pattern in TABLE if tuple(of) == key]
            assert any(fnmatch(name, pattern) for pattern in listed), name
    assert named
