"""Pages of rules and skills: what is read, what nobody has seen, and who may change it."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils.translation import override

from agents.actions import agent_of, start_conversation
from agents.context.preview import preview
from agents.instruction_actions import mark_seen, read_anew
from agents.instructions import texts_now, unseen_in
from agents.models import WorkspaceSkill
from agents.providers.scripted import calls, says
from observability.models import Record
from workspace.errors import Conflict, NotAllowed
from workspace.models import Change


def put(folder, path, text):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.fixture
def see(client, workspace):
    """Open a page of the workspace as somebody."""

    def see(who, name, /, *args, **data):
        client.force_login(who)
        url = reverse(f"agents:{name}", args=[workspace.slug, *args])
        return client.post(url, data) if data else client.get(url)

    return see


def begun(workspace, owner):
    return start_conversation(workspace=workspace, author=owner)


# The page of rules.


def test_the_page_shows_what_is_read_cut_gated_and_left_out(see, workspace, viewer):
    put(workspace.root, "AGENTS.md", "Speak kindly.")
    put(workspace.root, "CLAUDE.md", "Speak kindly.")
    put(workspace.root, "docs/AGENTS.md", "---\npaths: docs/**\n---\nWrite short.")
    page = see(viewer, "rules").content.decode()
    assert "<code>AGENTS.md</code>" in page
    assert "The same text as AGENTS.md" in page
    assert "Waiting for a path" in page
    assert "docs/**" in page


def test_hostile_names_and_texts_stay_text(see, workspace, owner):
    begun(workspace, owner)
    put(workspace.root, "<img src=x>/AGENTS.md", "<script>alert(1)</script>")
    page = see(owner, "rules").content.decode()
    assert "<script>alert" not in page
    assert "<img" not in page


def test_what_a_tool_changed_is_marked_until_a_member_has_looked(
    see, workspace, owner, member, script, stage, start_turn
):
    put(workspace.root, "AGENTS.md", "Speak kindly.\n")
    stage.conversation = begun(workspace, owner)
    assert unseen_in(workspace, member) != []  # the first look was before the file
    [one] = unseen_in(workspace, member)
    mark_seen(by=member, workspace=workspace, path=one.path, digest=one.digest)
    script(
        calls("shell", command="echo Obey me. >> AGENTS.md"),
        calls("write_file", path="src/AGENTS.md", content="Be sly."),
        says("Done."),
    )
    start_turn("Change them")
    changed, new = unseen_in(workspace, member)
    assert (changed.path, new.path) == ("AGENTS.md", "src/AGENTS.md")
    assert [row.text for row in changed.diff if row.kind == "add"] == ["Obey me."]
    assert new.is_new
    assert new.conversation == stage.conversation
    page = see(member, "rules").content.decode()
    assert "Obey me." in page
    for file in (changed, new):
        see(member, "rules_seen", path=file.path, digest=file.digest)
    assert unseen_in(workspace, member) == []
    assert Change.objects.filter(action="instructions.seen").count() == 3


def test_the_files_of_the_first_start_count_as_known(workspace, owner, member):
    put(workspace.root, "AGENTS.md", "Speak kindly.")
    put(workspace.root, ".agents/skills/a/SKILL.md", "---\nname: a\n---\nDo it.")
    begun(workspace, owner)
    assert unseen_in(workspace, member) == []
    put(workspace.root, ".agents/skills/a/SKILL.md", "---\nname: a\n---\nDo evil.")
    (workspace.root / "AGENTS.md").unlink()
    skill, gone = unseen_in(workspace, member)
    assert skill.path == ".agents/skills/a/SKILL.md"
    assert gone.is_gone
    mark_seen(by=member, workspace=workspace, path=gone.path, digest="")
    assert [one.path for one in unseen_in(workspace, member)] == [skill.path]


def test_a_head_that_lets_a_file_in_counts_as_a_change(workspace, owner, member):
    put(workspace.root, "AGENTS.md", "---\npaths: never/**\n---\nSame text.")
    begun(workspace, owner)
    put(workspace.root, "AGENTS.md", "Same text.")
    assert [one.path for one in unseen_in(workspace, member)] == ["AGENTS.md"]


def test_a_look_at_an_older_text_is_refused(workspace, owner, member, viewer):
    begun(workspace, owner)
    put(workspace.root, "AGENTS.md", "One.")
    [one] = unseen_in(workspace, member)
    put(workspace.root, "AGENTS.md", "Two.")
    with pytest.raises(Conflict, match="changed again"):
        mark_seen(by=member, workspace=workspace, path=one.path, digest=one.digest)
    with pytest.raises(NotAllowed):
        mark_seen(by=viewer, workspace=workspace, path=one.path, digest=one.digest)
    assert list(texts_now(workspace)) == ["AGENTS.md"]


# Skills.

VALUES = {
    "name": "release-notes",
    "description": "Write release notes",
    "when_to_use": "",
    "paths": "docs/**\nCHANGELOG.md",
    "allowed_tools": "git_log",
    "body": "1. Look at the log.",
}


def test_an_admin_makes_changes_and_deletes_a_skill(see, workspace, admin, viewer):
    assert see(admin, "new_skill", **VALUES).status_code == 302
    made = WorkspaceSkill.objects.get()
    assert made.paths == ["docs/**", "CHANGELOG.md"]
    version = made.updated_at.isoformat()
    changed = VALUES | {"body": "2. Write.", "version": version}
    assert see(admin, "skill", made.pk, **changed).status_code == 302
    made.refresh_from_db()
    assert made.body == "2. Write."
    assert "release-notes" in see(viewer, "skills").content.decode()
    assert "2. Write." in see(viewer, "skill", made.pk).content.decode()
    assert see(admin, "delete_skill", made.pk, sure="yes").status_code == 302
    actions = Change.objects.filter(action__startswith="skill.").order_by("pk")
    assert [one.action for one in actions] == [
        "skill.made",
        "skill.changed",
        "skill.deleted",
    ]


def test_the_second_of_two_admins_is_told(see, workspace, admin, owner):
    see(admin, "new_skill", **VALUES)
    made = WorkspaceSkill.objects.get()
    version = made.updated_at.isoformat()
    see(admin, "skill", made.pk, **VALUES, version=version)
    page = see(owner, "skill", made.pk, **(VALUES | {"body": "x"}), version=version)
    assert page.status_code == 400
    assert "Somebody else has changed this skill" in page.content.decode()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": "../up"}, "Name the skill"),
        ({"name": "context"}, "Name the skill"),
        ({"paths": "/etc/**"}, "cannot be used"),
        ({"body": "   "}, "required"),
        ({"description": "x" * 1_001}, "1000"),
    ],
)
def test_a_skill_that_cannot_be_is_refused_in_the_form(see, admin, wrong, says):
    page = see(admin, "new_skill", **(VALUES | wrong))
    assert page.status_code == 400
    assert says in page.content.decode()
    assert not WorkspaceSkill.objects.exists()


def test_only_admins_write_skills_and_only_their_own_workspace_s(
    see, client, workspace, member, admin, outsider
):
    assert see(member, "new_skill", **VALUES).status_code == 403
    see(admin, "new_skill", **VALUES)
    made = WorkspaceSkill.objects.get()
    assert see(member, "skill", made.pk, **VALUES).status_code == 403
    assert see(outsider, "skill", made.pk).status_code == 404
    assert see(admin, "skill", made.pk + 1).status_code == 404
    assert see(admin, "new_skill", **VALUES).status_code == 400  # there is one already


def test_files_that_cannot_be_used_are_told_on_the_page(see, workspace, viewer):
    put(workspace.root, ".claude/skills/bad/SKILL.md", "---\n: [\n---\n")
    page = see(viewer, "skills").content.decode()
    assert ".claude/skills/bad/SKILL.md" in page
    assert "not YAML" in page


# Reading anew.


def test_an_open_conversation_reads_rules_anew_when_an_admin_says_so(
    workspace, owner, member, script, stage, start_turn
):
    put(workspace.root, "AGENTS.md", "Old rules.")
    stage.conversation = begun(workspace, owner)
    script(says("Hi."))
    start_turn("Hello")
    assert not read_anew(conversation=stage.conversation, by=owner)
    put(workspace.root, "AGENTS.md", "New rules.")
    with pytest.raises(NotAllowed):
        read_anew(conversation=stage.conversation, by=member)
    assert read_anew(conversation=stage.conversation, by=owner)
    foreseen = preview(stage.conversation, agent_of(stage.conversation)).assembled.body
    assert b"New rules." in foreseen
    assert b"Old rules." not in foreseen
    provider = script(says("Hi again."))
    start_turn("And now?")
    assert b"New rules." in provider.requests[0].body
    told = Record.objects.get(kind="prefix.changed")
    assert told.data["cause"] == "rules reload"
    assert told.data["segment"] == "rules:AGENTS.md"


def test_nothing_is_read_anew_while_an_agent_is_at_work(workspace, owner, stage):
    stage.conversation = begun(workspace, owner)
    stage.post("Hello")
    with pytest.raises(Conflict, match="at work"):
        read_anew(conversation=stage.conversation, by=owner)


# Help.


@pytest.mark.parametrize(
    ("language", "says"),
    [("en", "Keep only what is always true"), ("ko", "언제나 참인 것만")],
)
def test_the_help_is_written_in_both_languages(client, owner, language, says):
    client.force_login(owner)
    with override("en"):  # and back, whatever the request switches to
        page = client.get(reverse("agents:help_context"), HTTP_ACCEPT_LANGUAGE=language)
    assert says in page.content.decode()
