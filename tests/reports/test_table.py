"""The table of the reports names tests that exist, and every row that must be tried."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch

import pytest

import tests.reports
from tests.harness.installation import ROOT

LINE = re.compile(r"^(\d+|-)\s+(tests/\S+\.py)\s+(\S+)$", re.MULTILINE)
TABLE = LINE.findall(tests.reports.__doc__ or "")
ROWS = {1, 2, 4, 5, 7, 9, 10, 11, 13, 15, 16, 18, 20, 22, 23, 24, 25}
NUMBERED = re.compile(r"test_row_(\d+)_")


def functions(path: str) -> list[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in tree.body if isinstance(node, kinds)]


@pytest.mark.parametrize(("row", "path", "pattern"), TABLE)
def test_every_name_in_the_table_exists(row, path, pattern):
    assert [name for name in functions(path) if fnmatch(name, pattern)]


def test_every_row_that_must_be_tried_is_in_the_table():
    assert {int(row) for row, _, _ in TABLE if row != "-"} == ROWS


def test_every_test_that_names_a_row_is_in_the_table():
    for path in sorted((ROOT / "tests" / "reports").glob("test_*.py")):
        place = f"tests/reports/{path.name}"
        for name in functions(place):
            if found := NUMBERED.match(name):
                listed = [
                    pattern
                    for row, where, pattern in TABLE
                    if (row, where) == (found[1], place)
                ]
                assert any(fnmatch(name, pattern) for pattern in listed), name
