"""The conversations list, the chat page and the files page."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils.formats import date_format
from django.utils.translation import override

from workspace import folder, thread, transcript
from workspace.errors import NotVisible
from workspace.models import Conversation, Entry, Turn
from workspace.templatetags.chat import outcome
from workspace.transcript import Draft


@pytest.fixture
def conversation(workspace, member):
    return Conversation.objects.create(
        workspace=workspace, created_by=member, title="Talk"
    )


@pytest.fixture
def say(conversation, member):
    """Appends an entry to a turn; starts a finished one if none is given."""

    def append(kind: str, turn: Turn | None = None, **body) -> Entry:
        turn = turn or Turn.objects.create(
            conversation=conversation, author=member, state=Turn.State.FINISHED
        )
        author = member if kind == Entry.Kind.USER else None
        draft = Draft(kind=Entry.Kind(kind), body=body, turn=turn, author=author)
        [entry] = transcript.append(conversation.pk, draft)
        conversation.refresh_from_db()
        return entry

    return append


@pytest.fixture
def as_person(client):
    def sign_in(user):
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return sign_in


def address(conversation, part: str = "") -> str:
    return conversation.get_absolute_url() + part


def items(shown: thread.Thread) -> list[tuple[str, int]]:
    return [(item.kind, item.seq) for item in shown.items]


PARTS = ["", "entries", "tail", "entries/1/raw"]


@pytest.mark.parametrize("part", PARTS)
def test_a_viewer_reads_and_an_outsider_learns_nothing(
    part, conversation, say, as_person, viewer, outsider
):
    say("user", text="hello")
    assert as_person(viewer).get(address(conversation, part)).status_code == 200
    assert as_person(outsider).get(address(conversation, part)).status_code == 404


def test_a_stranger_is_asked_to_sign_in(conversation, client):
    assert client.get(address(conversation)).status_code == 302


def test_a_private_conversation_is_on_nobody_elses_list(
    conversation, workspace, as_person, admin, member
):
    Conversation.objects.filter(pk=conversation.pk).update(private=True)
    assert b"Talk" not in as_person(admin).get(workspace.get_absolute_url()).content
    assert as_person(admin).get(address(conversation)).status_code == 404
    assert b"Talk" in as_person(member).get(workspace.get_absolute_url()).content


def test_a_viewer_gets_no_composer(conversation, say, as_person, viewer, member):
    say("user", text="hello")
    assert b'id="composer"' not in as_person(viewer).get(address(conversation)).content
    assert b'id="composer"' in as_person(member).get(address(conversation)).content


def test_hostile_text_is_escaped_everywhere(conversation, say, as_person, member):
    hostile = "<script>alert(1)</script>"
    Conversation.objects.filter(pk=conversation.pk).update(title=hostile)
    entry = say("user", text=hostile)
    call = {"call_id": hostile, "name": hostile, "arguments": hostile}
    say("assistant", entry.turn, text=hostile, reasoning=hostile, tool_calls=[call])
    say(
        "tool_result",
        entry.turn,
        call_id=hostile,
        name=hostile,
        output=hostile,
        ok=False,
        error={"code": "x", "message": hostile},
        meta={"diff": hostile},
    )
    page = as_person(member).get(address(conversation))
    assert b"<script>alert" not in page.content
    assert b"unsafe" not in page["Content-Security-Policy"].encode()
    assert not re.search(rb"<[^>]+ style=", page.content)


def test_what_is_no_longer_sent_whole_is_a_line_that_opens(
    conversation, say, as_person, member
):
    turn = say("user", text="Go").turn
    say("notice", turn, type="prune", cause="pays", stubs={"1": "x"}, saved_tokens=310)
    say("notice", turn, type="prune", cause="literal", stubs={"2": "x"}, saved_tokens=7)
    hostile = "<script>alert(1)</script>"
    say("summary", turn, text=hostile, before=6100, after=2400)
    page = as_person(member).get(address(conversation)).content.decode()
    assert page.count("Older outputs pruned") == 1
    assert "about 310 tokens less" in page
    assert "Compacted here: about 6,100 → 2,400 tokens" in page
    assert "<script>alert" not in page


def test_a_compaction_line_says_what_was_kept(conversation, say, as_person, member):
    skills = [
        {"name": "<b>sail</b>", "text": "Set the sail."},
        {"name": "moor", "text": "[SKILL_PRUNED: content lost in compaction]"},
    ]
    more = {"kept": [3, 9], "skills": skills, "source": "mechanical", "focus": "boats"}
    say("summary", text="## Goal", before=6100, after=2400, **more)
    page = as_person(member).get(address(conversation)).content.decode()
    assert "2 earlier entries are still sent word for word" in page
    assert "Skill &lt;b&gt;sail&lt;/b&gt;: kept word for word." in page
    assert "Skill moor: to be loaded again when it is needed." in page
    assert "The model gave no usable summary" in page
    assert "Asked to keep in particular: boats" in page


def test_a_long_conversation_opens_at_its_end_with_few_queries(
    conversation, say, as_person, member, django_assert_max_num_queries
):
    turn = say("user", text="first").turn
    drafts = [
        Draft(kind=Entry.Kind.ASSISTANT, body={"text": f"n{n}", "round": n}, turn=turn)
        for n in range(300)
    ]
    transcript.append(conversation.pk, *drafts)
    client = as_person(member)
    client.get(address(conversation))
    with django_assert_max_num_queries(26):
        page = client.get(address(conversation))
    assert b"n299" in page.content
    assert b"n100<" not in page.content
    earlier = client.get(address(conversation, "entries"), {"before": 242})
    assert earlier["X-First"] == "182"


def test_what_is_new_comes_once_and_in_order(conversation, say, as_person, member):
    first = say("user", text="hello")
    second = say("assistant", first.turn, text="hi", round=1)
    client = as_person(member)
    new = client.get(address(conversation, "entries"), {"after": first.seq})
    assert (new["X-Last"], new["X-Head"]) == (str(second.seq), str(second.seq))
    assert new.content.count(b"data-seq") == 1
    none = client.get(address(conversation, "entries"), {"after": second.seq})
    assert none["X-Last"] == "0"


@pytest.mark.parametrize("wrong", ["x", "-1", "1.5", "९", "9" * 30])
def test_a_wrong_number_is_answered_with_a_sentence(
    wrong, conversation, as_person, member
):
    client = as_person(member)
    answer = client.get(address(conversation, "entries"), {"after": wrong})
    assert answer.status_code == 400


def test_a_result_joins_its_call_and_comes_alone_as_an_update(conversation, say):
    turn = say("user", text="go").turn
    calls = [{"call_id": "same", "name": "shell", "arguments": "{}"}] * 2
    asked = say("assistant", turn, text="", tool_calls=calls, round=1)
    say("tool_result", turn, call_id="same", ok=True, output="one")
    result = say("tool_result", turn, call_id="same", ok=False, output="two")
    [card_one, card_two] = thread.newest(conversation).items[-1].cards
    assert (card_one.output, card_two.output) == ("one", "two")
    [update] = thread.after(conversation, result.seq - 1).items
    assert update.update
    assert [card.key for card in update.cards] == [f"card-{asked.seq}-1"]


def test_results_that_come_together_each_update_their_card(conversation, say):
    turn = say("user", text="go").turn
    calls = [{"call_id": c, "name": "shell", "arguments": "{}"} for c in "abc"]
    asked = say("assistant", turn, text="", tool_calls=calls, round=1)
    for call_id in "abc":
        say("tool_result", turn, call_id=call_id, ok=True, output=call_id)
    updates = thread.after(conversation, asked.seq).items
    assert [one.update for one in updates] == [True, True, True]
    assert [card.output for one in updates for card in one.cards] == ["a", "b", "c"]


def test_a_window_never_begins_between_a_call_and_its_result(conversation, say):
    turn = say("user", text="go").turn
    call = {"call_id": "c", "name": "shell", "arguments": "{}"}
    asked = say("assistant", turn, text="", tool_calls=[call], round=1)
    result = say("tool_result", turn, call_id="c", ok=True, output="out")
    shown = thread.before(conversation, result.seq + 1, limit=1)
    assert shown.first == asked.seq
    assert shown.items[0].cards[0].output == "out"


def test_what_a_retry_replaced_is_folded_and_can_be_shown(conversation, say):
    first = say("user", text="go")
    say("assistant", first.turn, text="bad", round=1)
    say("notice", first.turn, type="rewind", to_seq=first.seq, text="again")
    say("assistant", first.turn, text="good", round=1)
    kinds = [item.kind for item in thread.newest(conversation).items]
    assert kinds == ["user", "folded", "notice", "assistant"]
    whole = thread.newest(conversation, everything=True)
    assert [i.text for i in whole.items] == ["go", "bad", "again", "good"]


def test_a_bridged_call_shows_the_tool_that_it_reaches(conversation, say):
    turn = say("user", text="go").turn
    given = '{"name": "list_dir", "arguments": {"path": "notes"}}'
    call = {"call_id": "c", "name": "tool_call", "arguments": given}
    say("assistant", turn, text="", tool_calls=[call], round=1)
    [card] = thread.newest(conversation).items[-1].cards
    assert (card.name, card.argument, card.arguments) == ("list_dir", "notes", "notes")
    meta = {"tool": "list_dir"}
    say("tool_result", turn, call_id="c", ok=True, output="a", meta=meta)
    [card] = thread.newest(conversation).items[-1].cards
    assert (card.name, card.state) == ("list_dir", "ok")


@pytest.mark.parametrize("given", ["no JSON", '{"name": 3}', "[1]", None])
def test_a_bridged_call_that_names_nothing_stays_what_it_is(given):
    call = {"call_id": "c", "name": "tool_call", "arguments": given}
    assert thread.card_of("card-1-0", call, "running").name == "tool_call"


def test_a_search_shows_what_it_found_and_a_result_its_notes(
    conversation, say, as_person, member
):
    turn = say("user", text="go").turn
    call = {"call_id": "c", "name": "tool_search", "arguments": '{"query": "weather"}'}
    say("assistant", turn, text="", tool_calls=[call], round=1)
    say(
        "tool_result",
        turn,
        call_id="c",
        ok=True,
        output="",
        meta={"hits": [["<b>rain", 0.5], ["snow", 0.4]]},
        notes=["loaded rain for this session"],
    )
    page = as_person(member).get(address(conversation)).content.decode()
    assert "weather → &lt;b&gt;rain, snow" in page
    assert "loaded rain for this session" in page


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        ("interrupted", "ended", "stopped"),
        ("not_run", "ended", "not run"),
        ("denied", "ended", "not allowed"),
        ("approval_expired", "ended", "not approved in time"),
        ("not_answered", "ended", "not answered"),
        ("not_found", "failed", "failed"),
    ],
)
def test_a_call_that_people_ended_is_no_failure(conversation, say, code, state, words):
    turn = say("user", text="go").turn
    call = {"call_id": "c", "name": "shell", "arguments": "{}"}
    say("assistant", turn, text="", tool_calls=[call], round=1)
    error = {"code": code, "message": "why"}
    say("tool_result", turn, call_id="c", ok=False, output="", error=error)
    [card] = thread.newest(conversation).items[-1].cards
    assert card.state == state
    assert outcome(card) == words


def test_a_live_edit_counts_as_many_replaced_parts_as_a_reload(conversation, say):
    first = say("user", text="one")
    say("assistant", first.turn, text="1", round=1)
    say("notice", first.turn, type="rewind", to_seq=first.seq - 1, text="back")
    second = say("user", text="two", supersedes_seq=first.seq)
    say("assistant", second.turn, text="2", round=1)
    shown = conversation.head_seq
    say("notice", second.turn, type="rewind", to_seq=second.seq - 1, text="back")
    say("user", text="three", supersedes_seq=second.seq)
    whole, live = thread.newest(conversation), thread.after(conversation, shown)
    for items_of in (whole.items, live.items):
        assert [item.kind for item in items_of] == ["folded", "user"]
        assert (items_of[0].seq, items_of[0].count) == (first.seq, 6)


def test_a_live_retry_folds_what_it_replaced(conversation, say):
    first = say("user", text="one")
    bad = say("assistant", first.turn, text="bad", round=1)
    say("notice", first.turn, type="rewind", to_seq=first.seq, text="back")
    [fold, notice] = thread.after(conversation, bad.seq).items
    assert (fold.kind, fold.count, notice.kind) == ("folded", 1, "notice")


def test_dates_are_the_same_day_for_every_reader():
    at = datetime(2026, 12, 1, 0, 31, tzinfo=UTC)
    with override("en"):
        assert date_format(at, "SHORT_DATETIME_FORMAT") == "2026-12-01 00:31"
        assert date_format(at, "DATETIME_FORMAT") == "1 December 2026, 00:31"
    with override("ko"):
        assert date_format(at, "SHORT_DATETIME_FORMAT") == "2026. 12. 1. 00:31"
        assert date_format(at, "DATETIME_FORMAT") == "2026년 12월 1일 00:31"


def test_a_turn_that_failed_says_so_before_the_next_message(
    conversation, say, as_person, member
):
    failed = say("user", text="one")
    Turn.objects.filter(pk=failed.turn_id).update(
        state=Turn.State.FAILED, message="The service refused the key."
    )
    assert b"Try again" in as_person(member).get(address(conversation, "tail")).content
    after = say("user", text="two")
    assert items(thread.after(conversation, after.seq - 1)) == [
        ("turn", failed.seq),
        ("user", after.seq),
    ]
    assert b"refused the key" in as_person(member).get(address(conversation)).content


def test_new_messages_are_counted_until_they_are_read(
    conversation, say, workspace, as_person, member, viewer
):
    turn = say("user", text="hello").turn
    say("assistant", turn, text="hi", round=1)
    client = as_person(viewer)
    fresh = re.compile(rb'class="count">2')
    assert fresh.search(client.get(workspace.get_absolute_url()).content)
    client.get(address(conversation))
    assert not fresh.search(client.get(workspace.get_absolute_url()).content)


def test_the_list_is_searched_and_costs_the_same_for_many(
    workspace, member, as_person, django_assert_max_num_queries
):
    for number in range(30):
        Conversation.objects.create(
            workspace=workspace, created_by=member, title=f"보고서 {number}"
        )
    client = as_person(member)
    with django_assert_max_num_queries(5):
        whole = client.get(workspace.get_absolute_url(), {"part": "1"})
    assert whole.content.count(b"data-conversation=") == 30
    page = client.get(workspace.get_absolute_url(), {"part": "1", "q": "보고서 29"})
    assert page.content.count(b"data-conversation=") == 1


@pytest.fixture
def root(workspace):
    workspace.root.mkdir(parents=True, exist_ok=True)
    return workspace.root


def test_files_are_listed_shown_and_downloaded_safely(
    workspace, root, as_person, viewer
):
    (root / "page.html").write_text("<script>alert(1)</script>")
    (root / "보고서.md").write_text("# 안녕")
    client = as_person(viewer)
    base = f"/w/{workspace.slug}/files/"
    assert "보고서.md" in client.get(base).content.decode()
    assert "<h3>안녕</h3>" in client.get(base + "view/보고서.md").content.decode()
    assert b"<script>alert" not in client.get(base + "view/page.html").content
    raw = client.get(base + "raw/page.html")
    assert raw["Content-Disposition"].startswith("attachment")
    assert raw["X-Content-Type-Options"] == "nosniff"
    assert raw["Content-Type"] == "application/octet-stream"
    assert raw.getvalue() == b"<script>alert(1)</script>"


@pytest.mark.parametrize(
    "path",
    ["../secret", "a/../../secret", "link", "linked/file", "pipe", "hard", "/etc"],
)
def test_no_path_and_no_link_leads_out(path, root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    (root / "link").symlink_to(outside / "file")
    (root / "linked").symlink_to(outside)
    os.mkfifo(root / "pipe")
    os.link(outside / "file", root / "hard")
    with pytest.raises(NotVisible):
        folder.opened(root, path)


def test_an_upload_overwrites_nothing_unless_told_to(
    workspace, root, as_person, member, viewer
):
    (root / "a.txt").write_text("old")
    address = f"/w/{workspace.slug}/files/upload"

    def upload(user, **more):
        file = SimpleUploadedFile("a.txt", b"new")
        return as_person(user).post(address, {"files": file, **more})

    assert upload(viewer).status_code == 403
    refused = upload(member)
    assert refused.status_code == 409
    assert (root / "a.txt").read_text() == "old"
    assert upload(member, replace="on").status_code == 302
    assert (root / "a.txt").read_text() == "new"
    assert sorted(os.listdir(root))[0] != ".a.txt"
    assert not [name for name in os.listdir(root) if name.endswith(".part")]


def test_an_upload_that_exceeds_the_workspaces_room_is_refused(
    as_person, workspace, root, owner, settings
):
    settings.WORKSPACE_QUOTA_MB = 1
    address = f"/w/{workspace.slug}/files/upload"
    browser = as_person(owner)
    small = SimpleUploadedFile("small.bin", b"x" * 1000)
    assert browser.post(address, {"files": small}).status_code == 302
    large = SimpleUploadedFile("large.bin", b"x" * (1 << 20))
    refused = browser.post(address, {"files": large}, HTTP_ACCEPT="application/json")
    assert refused.status_code == 413
    assert "quota of 1 MB" in refused.json()["error"]
    assert not (workspace.root / "large.bin").exists()
