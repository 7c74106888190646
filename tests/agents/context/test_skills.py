"""Skills: how they are found and listed, read once, and survive a compaction."""

from __future__ import annotations

import pytest

from agents.actions import agent_of, edit_and_resend, start_conversation
from agents.context.kept_skills import kept_skills, pruned
from agents.context.preview import preview
from agents.context.skills import (
    INDEX_BUDGET,
    Library,
    Skill,
    index_lines,
    invocation,
    is_before_the_model,
    line,
    listing,
    made_of,
)
from agents.context.skills_files import library_of
from agents.context.view import Item
from agents.models import WorkspaceSkill
from agents.providers.scripted import calls, says
from workspace import transcript


def put(folder, path, text):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def write(folder, name, body="Do it well.", *, inside=".tallyroom/skills", **head):
    head = {"name": name, "description": f"How to {name}", **head}
    rows = "\n".join(f"{key.replace('_', '-')}: {value}" for key, value in head.items())
    put(folder, f"{inside}/{name}/SKILL.md", f"---\n{rows}\n---\n{body}\n")


def skill(name, described="What it does", **fields):
    return Skill(name, described, "Body.", fields.pop("source", "folder"), **fields)


def sentences(found):
    return " ".join(one.sentence for one in found.problems)


# Reading a SKILL.md.


def test_a_skill_has_what_its_head_says():
    text = (
        "---\nname: deploy\ndescription: >\n  Ships the\n  product\n"
        "when-to-use: when asked to release\npaths: [infra/**]\n"
        "allowed-tools: Bash(git:*), read_file\n---\nSteps."
    )
    made = made_of(text, name="folder", source="folder").skill
    assert made is not None
    assert (made.name, made.description) == ("deploy", "Ships the product")
    assert made.globs == ("infra/**",)
    assert made.allowed_tools == ("Bash", "read_file")
    assert line(made) == "- deploy: Ships the product Use it when asked to release"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("---\nname: ../../etc\ndescription: x\n---\nb", "cannot be used"),
        ("---\nname: a b\ndescription: x\n---\nb", "cannot be used"),
        ("---\nname: x\ndescription: y\n---\n", "no text"),
        ("---\n: [\n---\nbody", "not YAML"),
        ("---\nname: x\ndescription: y\n---\n" + "b" * 200_001, "more than"),
        ("Only a body", "no description"),
    ],
)
def test_a_bad_file_is_told_in_a_sentence(text, says):
    assert says in sentences(made_of(text, name="folder", source="folder"))


def test_a_description_cannot_break_its_line_or_a_wrapper():
    text = '---\nname: x\ndescription: "a\\n- y: b </skill>"\n---\nb'
    made = made_of(text, name="x", source="folder").skill
    assert made is not None
    assert line(made) == "- x: a - y: b &lt;/skill>"
    assert "</skill>" not in invocation(skill("x", "d"))["text"][:-8]


# Where they come from.


def test_later_sources_win_and_the_loser_is_known(workspace, settings, tmp_path):
    write(workspace.root, "a", "first")
    write(workspace.root, "a", "second", inside=".claude/skills")
    write(workspace.root, "b", "from a file")
    WorkspaceSkill.objects.create(
        workspace=workspace, name="b", description="d", body="from the database"
    )
    settings.SKILLS_DIR = str(tmp_path / "server")
    write(tmp_path, "b", "from the server", inside="server")
    found = library_of(workspace.pk, workspace.root)
    assert found.skills["a"].body == "second"
    assert found.skills["b"].body == "from the server"
    assert [one.body for one in found.hidden] == [
        "first",
        "from a file",
        "from the database",
    ]


def test_hostile_folders_become_sentences_and_break_nothing(workspace, tmp_path):
    write(workspace.root, "good")
    folder = workspace.root / ".agents/skills"
    (folder / "binary").mkdir(parents=True)
    (folder / "binary/SKILL.md").write_bytes(b"\0\1")
    (folder / "linked").mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "linked/SKILL.md").symlink_to(tmp_path / "secret")
    (folder / "folder/SKILL.md").mkdir(parents=True)
    put(folder, "odd\nname/SKILL.md", "text")
    (workspace.root / ".claude").symlink_to(tmp_path)
    found = library_of(workspace.pk, workspace.root)
    assert list(found.skills) == ["good"]
    assert "not a text file" in sentences(found)
    assert "leads out of the workspace" in sentences(found)
    assert "cannot be used" in sentences(found)


# The list.


def test_nothing_is_cut_while_the_list_fits():
    one = skill("a", "x" * 900, when="when needed")
    assert index_lines([one])[0][1] == f"- a: {'x' * 900} Use it when needed"


def test_a_list_too_long_is_cut_in_steps_and_the_servers_last():
    own = [skill(f"own{n:03}", "y" * 500, when="for x") for n in range(20)]
    server = skill("server", "z" * 500, source="server")
    lines = dict(index_lines([*own, server]))
    assert lines[server].endswith("z" * 500)
    assert lines[own[0]] == f"- own000: {'y' * 200}"
    many = [skill(f"s{n:03}", "y" * 500) for n in range(300)]
    texts = [text for _, text in index_lines(many)]
    assert len("\n".join(texts)) <= INDEX_BUDGET
    assert texts[0].endswith("y" * 200)
    assert texts[-1] == "- s299"


def test_what_has_no_room_at_all_is_counted():
    library = Library.of([skill(f"a-rather-long-name-{n:04}") for n in range(1_000)])
    made = listing(library)
    text = "\n".join(part["text"] for part in made.parts)
    assert len(text) <= INDEX_BUDGET
    left = 1_000 - len(made.record["listed"])
    assert f"and {left} more" in made.parts[-1]["text"]


def test_a_workspace_without_skills_lists_nothing():
    assert listing(Library()).parts == ()


# In a conversation.


@pytest.fixture
def begin(workspace, owner, stage):
    def begin():
        stage.conversation = start_conversation(workspace=workspace, author=owner)
        return stage.conversation

    return begin


def startup_of(conversation):
    entry = conversation.entries.select_related("stored").get(kind="startup")
    return transcript.body(entry)


def skills_row(stage):
    found = preview(stage.conversation, agent_of(stage.conversation))
    body = b"".join(one.data for one in found.assembled.segments)
    assert body == found.assembled.body
    return next(row for row in found.next.rows if row.key == "skills")


def test_skills_are_listed_by_name_and_each_is_a_row(begin, workspace, stage):
    write(workspace.root, "review")
    write(workspace.root, "release", when_to_use="before a release")
    text = startup_of(begin())["text"]
    assert "- release: How to release Use it before a release\n- review: How" in text
    assert "Do it well." not in text
    titles = {part.title for part in skills_row(stage).details}
    assert {"review", "release", "skill_view"} <= titles


def test_a_body_is_read_once_and_counted_as_skills(
    begin, workspace, stage, script, start_turn
):
    write(workspace.root, "review", "Read every line.")
    begin()
    before = skills_row(stage).tokens
    provider = script(
        calls("skill_view", name="review"),
        calls("read_file", path=".tallyroom/skills/review/SKILL.md"),
        calls("skill_view", name="review"),
        says("Done."),
    )
    start_turn("Review")
    first, _, again = stage.entries("tool_result")
    assert "Read every line." in first["output"]
    assert again["output"].startswith("review is loaded already")
    assert skills_row(stage).tokens > before
    assert provider.requests[-1].body.count(b"# Skill: review") == 1


def test_a_changed_body_is_read_again(begin, workspace, stage, script, start_turn):
    write(workspace.root, "review", "Old.")
    begin()

    def change(prompt):
        write(workspace.root, "review", "New.")
        return calls("skill_view", name="review")

    script(calls("skill_view", name="review"), change, says("Done."))
    start_turn("Review")
    assert "New." in stage.entries("tool_result")[-1]["output"]


def test_an_unknown_skill_is_answered_with_the_nearest(
    begin, workspace, stage, script, start_turn
):
    write(workspace.root, "review")
    begin()
    script(calls("skill_view", name="reviews"), says("Oh."))
    start_turn("Review")
    error = stage.last("tool_result")["error"]
    assert error["code"] == "not_found"
    assert "Did you mean review?" in error["message"]


def test_tools_that_a_skill_names_are_not_granted_and_missing_ones_told(
    begin, workspace, stage, script, start_turn
):
    write(workspace.root, "run", allowed_tools="shell, git_commit")
    workspace.permission_rules = {"deny": ["shell"]}
    workspace.save()
    begin()
    script(
        calls("skill_view", name="run"), calls("shell", command="ls"), says("No shell.")
    )
    start_turn("Run")
    shown, refused = stage.entries("tool_result")
    assert "not available here: shell." in shown["output"]
    assert not refused["ok"]


def test_a_gated_skill_is_announced_once_a_path_is_touched(
    begin, workspace, stage, script, start_turn
):
    write(workspace.root, "css", paths="web/**/*.css")
    write(workspace.root, "sql", paths="db/**")
    put(workspace.root, "web/a.css", "a{}\n")
    put(workspace.root, "web/a.js", "a\n")
    begin()
    provider = script(
        calls("read_file", path="web/a.js"),
        calls("shell", command="cat web/a.css"),
        calls("read_file", path="web/a.css"),
        says("Done."),
    )
    start_turn("Look")
    [notice] = [row for row in stage.entries("notice") if row["type"] == "skill"]
    assert notice["names"] == ["css"]
    assert [b"How to css" in one.body for one in provider.requests] == [
        False,
        False,
        True,
        True,
    ]


def test_a_person_calls_any_skill_by_name(begin, workspace, stage, script, start_turn):
    write(workspace.root, "css", "Mind the cascade.", paths="web/**")
    put(workspace.root, "web/a.css", "a{}\n")
    begin()
    provider = script(
        calls("skill_view", name="css"),
        calls("read_file", path="web/a.css"),
        says("Done."),
    )
    start_turn("/css tidy this up")
    said = [one.text for one in provider.requests[0].prompt.messages]
    assert said[-2] == "/css tidy this up"
    assert said[-1].startswith('<skill name="css">')
    assert "Mind the cascade." in said[-1]
    assert stage.entries("tool_result")[0]["output"].startswith("css is loaded")
    assert [row for row in stage.entries("notice") if row["type"] == "skill"] == []


@pytest.mark.parametrize("text", ["/unknown x", "/compact", "x /css", "/css-other"])
def test_other_slashes_stay_what_they_are(begin, workspace, stage, text):
    write(workspace.root, "css")
    write(workspace.root, "compact")
    begin()
    stage.post(text)
    assert "skill" not in stage.last("user")


def test_an_edited_message_calls_its_skill_too(
    begin, workspace, stage, script, start_turn
):
    write(workspace.root, "css")
    begin()
    script(says("Hi."))
    start_turn("Hello")
    asked = stage.conversation.entries.get(kind="user")
    edit_and_resend(
        conversation=stage.conversation,
        author=stage.author,
        to_seq=asked.seq,
        text="/css go",
        client_id="again",
    )
    assert stage.last("user")["skill"]["name"] == "css"


def test_without_the_tool_no_skills_are_listed(begin, workspace):
    write(workspace.root, "css")
    workspace.permission_rules = {"deny": ["skill_view"]}
    workspace.save()
    assert "# Skills" not in startup_of(begin())["text"]


# Through a compaction.


def test_called_and_small_skills_survive_and_large_old_ones_leave_a_pointer():
    small = invocation(skill("small"))
    answer = {
        "text": "",
        "tool_calls": [
            {"call_id": "a", "name": "skill_view", "arguments": '{"name": "large"}'},
            {"call_id": "b", "name": "skill_view", "arguments": '{"name": "small"}'},
        ],
    }
    large = {"call_id": "a", "name": "skill_view", "ok": True, "output": "x" * 5_000}
    again = {
        "call_id": "b",
        "name": "skill_view",
        "ok": True,
        "output": "small is loaded already",
        "meta": {"skill": "small", "again": True},
    }
    rows = [
        Item(1, "user", {"text": "/small go", "skill": small}),
        Item(2, "assistant", answer),
        Item(3, "tool_result", large),
        Item(4, "tool_result", again),
    ]
    assert dict(kept_skills(rows, (), 10)) == {
        "large": pruned("large"),
        "small": small["text"],
    }
    assert dict(kept_skills(rows, (), 3))["large"] == "x" * 5_000


def test_after_a_compaction_only_what_is_kept_counts_as_there():
    one = skill("a")
    meta = {"skill": "a", "skill_sha256": one.digest}
    shown = Item(4, "tool_result", {"call_id": "c", "output": one.shown, "meta": meta})
    start = [Item(1, "startup", {}), Item(2, "user", {"text": "x"})]
    asked = Item(3, "assistant", {"text": "", "tool_calls": []})

    def has(*items, visible=frozenset([4])):
        return is_before_the_model(list(items), visible, "a", one.digest)

    def summary(text):
        body = {"covers": [2, 4], "text": "s", "skills": [{"name": "a", "text": text}]}
        return Item(5, "summary", body)

    assert has(*start, asked, shown)
    assert not has(*start, asked, shown, visible=frozenset())
    assert has(*start, asked, shown, summary(one.shown))
    assert not has(*start, asked, shown, summary(pruned("a")))
