"""Unified diffs as rows that a template can colour."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
#: Rows shown; a larger change is read in the file itself.
MOST_ROWS = 2000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a diff. `old` and `new` are its numbers; None where it is absent."""

    kind: Literal["add", "del", "same", "hunk", "file"]
    text: str
    old: int | None = None
    new: int | None = None


def rows_of(diff: str) -> list[Row]:
    """The lines of a unified diff; whatever is not one is shown as it is."""
    rows: list[Row] = []
    old = new = 0
    in_hunk = False
    for line in diff.splitlines()[:MOST_ROWS]:
        if match := HUNK.match(line):
            old, new, in_hunk = int(match[1]), int(match[2]), True
            rows.append(Row("hunk", line))
        elif in_hunk and line.startswith("+"):
            rows.append(Row("add", line[1:], None, new))
            new += 1
        elif in_hunk and line.startswith("-"):
            rows.append(Row("del", line[1:], old, None))
            old += 1
        elif in_hunk and (line.startswith(" ") or not line):
            rows.append(Row("same", line[1:], old, new))
            old, new = old + 1, new + 1
        elif not line.startswith(("---", "+++", "diff ", "index ")):
            rows.append(Row("file", line))
    return rows
