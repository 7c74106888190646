"""Imports point down: across the apps, and inside agents."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("workspace", "agents", "observability")
#: What each app may import besides itself.
BELOW = {
    "workspace": set(),
    "agents": {"workspace"},
    "observability": {"workspace", "agents"},
}
#: The only files that know all three apps: they put the product together.
WIRING = {
    "workspace/settings.py",
    "workspace/urls.py",
    "workspace/asgi.py",
    "workspace/celery.py",
}
#: Inside agents, from the top down. A part may import those after it, not before.
LAYERS = (
    (
        "views",
        "consumers",
        "forms",
        "urls",
        "settings_views",
        "settings_urls",
        "config_views",
        "server_views",
        "config_forms",
        "explorer_views",
        "memory_views",
        "erase_views",
        "policy_views",
        "instruction_views",
        "help_views",
        "completion_views",
        "instruction_forms",
        "policy_page",
        "model_views",
        "mode_views",
        "group_views",
        "typed",
    ),
    (
        "actions",
        "settings_actions",
        "endpoint_actions",
        "config_actions",
        "server_actions",
        "memory_actions",
        "erase_actions",
        "compact_actions",
        "mode_actions",
        "policy_actions",
        "answer_actions",
        "instruction_actions",
    ),
    ("tasks",),
    ("loop",),
    ("context", "surface", "mcp", "tools", "providers", "simulator", "sandbox"),
    ("config",),
    ("models", "events", "errors", "interrupts"),
)
#: The supervisor and the commands stand above all layers: they start what is there.
ABOVE = {"supervisor", "management", "apps", "admin"}
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def sources(app: str) -> list[Path]:
    return [
        path
        for path in sorted((ROOT / app).rglob("*.py"))
        if "migrations" not in path.parts
    ]


def imported(path: Path) -> Iterator[str]:
    """The dotted names that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*package, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def part_of(name: str) -> str | None:
    """The part of agents that a dotted name lies in."""
    parts = name.split(".")
    return parts[1] if parts[0] == "agents" and len(parts) > 1 else None


@pytest.mark.parametrize("app", APPS)
def test_an_app_imports_only_what_lies_below_it(app):
    files = [path for path in sources(app) if name_of(path) not in WIRING]
    upward = {
        f"{name_of(path)}: {name}"
        for path in files
        for name in imported(path)
        if (top := name.split(".")[0]) in APPS and top not in BELOW[app] | {app}
    }
    assert files
    assert upward == set()


def test_inside_agents_calls_go_down():
    upward = set()
    for path in sources("agents"):
        part = Path(*path.relative_to(ROOT / "agents").parts[:1]).stem
        rank = None if part in ABOVE else RANK.get(part)
        for name in imported(path):
            other = part_of(name)
            if other in ABOVE and part not in ABOVE:
                upward.add(f"{name_of(path)}: {name}")
            if rank is not None and RANK.get(other or "", rank) < rank:
                upward.add(f"{name_of(path)}: {name}")
    assert upward == set()


def test_products_never_import_their_tests():
    importing = {
        name_of(path)
        for app in APPS
        for path in sources(app)
        for name in imported(path)
        if name.split(".")[0] == "tests"
    }
    assert importing == set()


def test_the_checks_see_an_import_that_points_up(tmp_path, monkeypatch):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "bad.py").write_text(
        "def late():\n    from agents.models import Run\n"
    )
    monkeypatch.setattr("tests.test_architecture.ROOT", tmp_path)
    with pytest.raises(AssertionError, match=r"agents\.models\.Run"):
        test_an_app_imports_only_what_lies_below_it("workspace")
