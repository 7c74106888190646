"""What the composer offers behind `@` and `/`."""

from __future__ import annotations

import pytest
from django.urls import reverse


@pytest.fixture
def offered(client, workspace):
    """The values that somebody is offered."""

    def offered(who, kind, q):
        client.force_login(who)
        url = reverse("agents:complete", args=[workspace.slug])
        answer = client.get(url, {"kind": kind, "q": q})
        assert answer.status_code == 200
        return [one["value"] for one in answer.json()["offers"]]

    return offered


@pytest.fixture
def files(workspace):
    root = workspace.root
    for path in ("src/app.py", "src/my file.txt", "README.md", ".env", ".git/config"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    return root


def test_files_are_offered_folder_by_folder(offered, member, files):
    assert offered(member, "file", "") == ["@README.md ", "@src/"]
    assert offered(member, "file", "src/") == ["@src/app.py ", '@"src/my file.txt" ']
    assert offered(member, "file", "READ") == ["@README.md "]


@pytest.mark.parametrize("q", ["../", "/etc/", "missing/", "a\0b/", "README.md/"])
def test_nothing_outside_or_missing_is_offered(offered, member, files, q):
    assert offered(member, "file", q) == []


def test_a_folder_that_is_a_link_is_not_looked_into(
    offered, member, files, tmp_path_factory
):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("x")
    (files / "link").symlink_to(outside)
    assert offered(member, "file", "link/") == []


def test_commands_and_skills_are_offered_by_name(offered, member, files):
    folder = files / ".tallyroom/skills/compare"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: compare\ndescription: d\n---\nx")
    assert offered(member, "command", "comp") == ["/compare ", "/compact "]
    assert offered(member, "command", "nothing") == []
    assert offered(member, "command", "mod") == ["/mode "]
