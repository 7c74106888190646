"""What an operator can set and a listener can hear is described."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from workspace import environment
from workspace.events import Event

ROOT = Path(__file__).resolve().parent.parent
READERS = {
    name
    for name, member in inspect.getmembers(environment, inspect.isfunction)
    if next(iter(inspect.signature(member).parameters), "") == "name"
}


def read_variables() -> set[str]:
    """Every variable that settings.py reads, by the first argument of its readers."""
    tree = ast.parse((ROOT / "workspace" / "settings.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in READERS
        and isinstance(call.args[0], ast.Constant)
    }


def described_variables() -> set[str]:
    rows = re.findall(
        r"^\| `([A-Z_]+)` \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.M
    )
    assert len(rows) == len(set(rows)), "each setting has one row"
    return set(rows)


def test_every_setting_has_a_row_in_the_readme_and_every_row_is_a_setting():
    variables = read_variables()
    assert {"VAR_DIR", "REDIS_URL", "SIMULATOR", "RUN_LEASE_SECONDS"} <= variables
    assert variables == described_variables()


def kinds_of(event: type[Event]) -> set[str]:
    own = {event.kind} if "kind" in vars(event) else set()
    return own.union(*map(kinds_of, event.__subclasses__()))


def test_every_event_kind_is_described():
    import agents.events  # noqa: F401 - so that its kinds are known

    kinds = {kind for kind in kinds_of(Event) if not kind.startswith("test.")}
    text = (ROOT / "agents" / "README.md").read_text(encoding="utf-8")
    assert "run.started" in kinds
    assert {kind for kind in kinds if f"`{kind}`" not in text} == set()


def test_the_readme_shows_both_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake run\n" in text
    assert "\nmake test\n" in text
