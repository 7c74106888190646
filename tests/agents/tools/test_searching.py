from __future__ import annotations

import os
import time

import pytest


@pytest.fixture
def tree(agent):
    for path, text in {
        "README.md": "Hello\nworld\n",
        "src/app.py": "def main():\n    pass\n",
        "src/deep/util.py": "def help():\r\n    return 'def'\r\n",
        "src/한글.py": "# 안녕하세요\n",
        "node_modules/x/index.js": "def\n",
        ".git/config": "def\n",
    }.items():
        file = agent.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, newline="")
    return agent


def test_glob_finds_by_name_at_any_depth_and_skips_dependencies(tree):
    assert tree.call("glob", pattern="*.py").output.split("\n") == [
        "src/app.py",
        "src/한글.py",
        "src/deep/util.py",
    ]
    assert tree.call("glob", pattern="src/*.py").meta["matches"] == 2
    assert tree.call("glob", pattern="**/*.{md,js}").output == "README.md"


def test_glob_says_when_nothing_matches_and_when_it_stopped(tree):
    assert "no file matches" in tree.call("glob", pattern="*.rb").output
    result = tree.call("glob", pattern="*.py", max_results=1)
    assert "stopped at 1" in result.output
    assert result.meta["truncated"]


def test_glob_with_many_stars_ends_quickly(tree):
    (tree.root / ("a" * 200)).write_text("")
    begin = time.monotonic()
    tree.call("glob", pattern="**/" * 20 + "*a" * 60 + "b")
    assert time.monotonic() - begin < 5


def test_list_dir_marks_folders_and_links_and_escapes_names(agent):
    (agent.root / "folder").mkdir()
    (agent.root / "a\nb").write_text("")
    os.symlink("/etc/passwd", agent.root / "link")
    assert agent.call("list_dir").output.split("\n") == [
        "a\\nb",
        "folder/",
        "link -> /etc/passwd",
    ]
    assert "is empty" in agent.call("ls", path="folder").output


def test_grep_prints_each_path_once_with_its_lines(tree):
    result = tree.call("grep", pattern="def")
    assert result.output.split("\n") == [
        "src/app.py",
        "1\tdef main():",
        "src/deep/util.py",
        "1\tdef help():",
        "2\t    return 'def'",
    ]


def test_grep_finds_korean_ignores_case_and_takes_a_file_or_a_glob(tree):
    assert "한글.py" in tree.call("grep", pattern="안녕").output
    assert tree.call("grep", pattern="HELLO", ignoreCase=True).meta["matches"] == 1
    assert tree.call("grep", pattern="def", path="src/app.py").meta["matches"] == 1
    assert tree.call("grep", pattern="def", glob="u*.py").meta["matches"] == 2


def test_grep_without_match_is_an_answer_and_a_limit_is_named(tree):
    assert tree.call("grep", pattern="zzz").output.startswith("no match in")
    assert "stopped at 1" in tree.call("grep_search", pattern="def", limit=1).output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"pattern": "("}, "bad_pattern"),
        ({"pattern": ""}, "bad_pattern"),
        ({"pattern": "x", "path": "nowhere"}, "not_found"),
        ({"pattern": "x", "path": "/etc"}, "bad_path"),
        ({"pattern": "x", "glob": "src/*.py"}, "bad_pattern"),
    ],
)
def test_a_bad_search_gets_a_sentence(tree, arguments, code):
    assert tree.call("grep", **arguments).error.code == code


def test_grep_shows_only_the_surroundings_of_a_match_in_a_long_line(agent):
    (agent.root / "a").write_text("x" * 5_000_000 + "needle" + "y" * 100)
    output = agent.call("grep", pattern="needle").output
    assert "needle" in output
    assert len(output) < 400


def test_a_search_that_runs_away_is_stopped(agent, monkeypatch):
    monkeypatch.setattr("agents.tools.search._TIMEOUT", 1.0)
    (agent.root / "a").write_text("a" * 40 + "b\n")
    assert agent.call("grep", pattern="(a+)+$").error.code == "timeout"


def test_grep_does_not_follow_links_out(agent, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/s.txt").write_text("needle\n")
    os.symlink(tmp_path / "secret", agent.root / "folder")
    os.symlink(tmp_path / "secret/s.txt", agent.root / "file")
    os.mkfifo(agent.root / "pipe")
    assert agent.call("grep", pattern="needle").output.startswith("no match")
    assert not agent.call("glob", pattern="s.txt").meta["matches"]


@pytest.mark.parametrize("pattern", ["", ".", "/workspace"])
def test_a_pattern_that_names_nothing_is_refused(agent, pattern):
    (agent.root / "a").write_text("x")
    assert agent.call("glob", pattern=pattern).error.code == "bad_pattern"
