"""Files that people attach: what is taken, who sees them, when they go."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from tests.pictures import opened, picture
from tests.workspace.transcripts import conversation_of
from workspace import attachments, blobs, transcript
from workspace.errors import (
    BadInput,
    Conflict,
    NotAllowed,
    NotVisible,
    TooFast,
    TooMuch,
)
from workspace.models import Attachment, Blob, Entry
from workspace.shredding import redact
from workspace.transcript import Draft

pytestmark = pytest.mark.django_db


@pytest.fixture
def talk(workspace, owner):
    cache.clear()
    return conversation_of(workspace, owner, "one")


def put(talk, person, data=b"some text", name="notes.txt"):
    return attachments.attach(conversation=talk, author=person, name=name, data=data)


def say(talk, person, *rows):
    """A message with these attachments, as a post makes it."""
    attachments.mark_sent(rows)
    body = {"text": "look"} | attachments.message_parts(rows)
    [entry] = transcript.append(talk.pk, Draft(Entry.Kind.USER, body, author=person))
    return entry


def address(talk, sha256="", remove=None):
    url = f"{talk.get_absolute_url()}attachments"
    if remove:
        return f"{url}/{remove}/remove"
    return f"{url}/{sha256}" if sha256 else url


def test_an_image_is_kept_by_the_rules_of_images(talk, owner):
    row = put(talk, owner, picture(4000, 1000), "C:\\shots\\wide.png")
    assert (row.kind, row.name, row.width, row.height) == (
        "image",
        "wide.png",
        1568,
        392,
    )
    assert opened(blobs.get(talk.workspace_id, row.sha256)).size == (1568, 392)
    with pytest.raises(TooMuch, match="20971521"):
        put(talk, owner, picture() + b"\0" * (20_971_521 - len(picture())))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("안녕, 세계\n".encode(), "안녕, 세계\n"),
        (b"\xef\xbb\xbfwith a mark", "with a mark"),
        ("안녕하세요 여러분".encode("cp949"), "안녕하세요 여러분"),
        ("utf-16 한글".encode("utf-16"), "utf-16 한글"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"", ""),
    ],
)
def test_a_text_is_read_in_the_encodings_that_people_use(talk, owner, data, text):
    row = put(talk, owner, data)
    assert blobs.get(talk.workspace_id, row.sha256).decode() == text
    assert row.characters == len(text)


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04\0\0",
        b"%PDF-1.7\n\x80\x81\xff\xfe",
        b"\x7fELF\x02\x01\0",
        bytes(range(256)),
    ],
)
def test_other_files_are_sent_to_the_files_page(talk, owner, data):
    with pytest.raises(BadInput, match="Upload it on the Files page"):
        put(talk, owner, data, "thing.bin")


def test_a_text_over_five_megabytes_is_refused(talk, owner):
    with pytest.raises(TooMuch, match="larger than 5 MB"):
        put(talk, owner, b"x" * (attachments.MOST_TEXT + 1))


def test_a_message_carries_twenty_thousand_characters_of_a_text(talk, owner):
    row = put(talk, owner, "가".encode() * 50_000)
    [file] = attachments.message_parts([row])["files"]
    assert len(file["text"]) == 20_000
    assert file["characters"] == 50_000


def test_only_its_author_sees_a_file_that_is_not_sent(talk, owner, member, client):
    row = put(talk, owner)
    for person, status in ((owner, 200), (member, 404)):
        client.force_login(person)
        assert client.get(address(talk, row.sha256)).status_code == status
    say(talk, owner, row)
    assert client.get(address(talk, row.sha256)).status_code == 200


def test_a_file_of_another_conversation_is_not_served_here(
    talk, workspace, owner, client
):
    other = conversation_of(workspace, owner, "other")
    row = put(other, owner)
    client.force_login(owner)
    assert client.get(address(talk, row.sha256)).status_code == 404


def test_a_private_conversations_files_are_hidden_from_members(
    talk, owner, member, client
):
    say(talk, owner, row := put(talk, owner, picture(), "a.png"))
    talk.private = True
    talk.save()
    client.force_login(member)
    assert client.get(address(talk, row.sha256)).status_code == 404


def test_a_file_is_served_so_that_it_can_do_nothing(talk, owner, client):
    evil = put(talk, owner, b"<script>alert(1)</script>", 'a".html')
    shot = put(talk, owner, picture(), "a.png")
    client.force_login(owner)
    text = client.get(address(talk, evil.sha256))
    assert text["Content-Type"] == "text/plain; charset=utf-8"
    image = client.get(address(talk, shot.sha256))
    assert image["Content-Type"] == "image/png"
    for response in (text, image):
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["Content-Security-Policy"] == "sandbox; default-src 'none'"
        assert "private" in response["Cache-Control"]
    assert (
        "attachment"
        in client.get(address(talk, shot.sha256) + "?download")["Content-Disposition"]
    )


def test_a_viewer_attaches_nothing_and_an_outsider_finds_nothing(
    talk, viewer, outsider, client
):
    with pytest.raises(NotAllowed):
        put(talk, viewer)
    for person, status in ((viewer, 403), (outsider, 404)):
        client.force_login(person)
        file = SimpleUploadedFile("a.txt", b"x")
        assert client.post(address(talk), {"file": file}).status_code == status


def test_the_page_uploads_and_removes(talk, owner, client):
    client.force_login(owner)
    file = SimpleUploadedFile("shot.png", picture())
    made = client.post(address(talk), {"file": file}, HTTP_ACCEPT="application/json")
    assert made.json()["about"] == "8 × 6"
    assert "shot.png" in client.get(talk.get_absolute_url()).content.decode()
    gone = client.post(
        address(talk, remove=made.json()["id"]), HTTP_ACCEPT="application/json"
    )
    assert gone.json() == {"ok": True}
    assert not Attachment.objects.exists()
    assert Blob.objects.get().shredded_at


def test_a_refusal_is_a_sentence_for_the_page(talk, owner, client):
    client.force_login(owner)
    file = SimpleUploadedFile("a.png", b"\x89PNG\r\n\x1a\nbroken")
    response = client.post(
        address(talk), {"file": file}, HTTP_ACCEPT="application/json"
    )
    assert response.status_code == 400
    assert "damaged" in response.json()["error"]


def test_only_its_author_removes_a_file_and_only_before_it_is_sent(talk, owner, member):
    row = put(talk, owner)
    for person in (member, owner):
        if person is owner:
            say(talk, owner, row)
        with pytest.raises(NotVisible):
            attachments.remove(conversation=talk, user=person, attachment_id=row.pk)


def test_bytes_that_something_else_names_stay(talk, workspace, owner, member):
    mine, theirs = put(talk, owner), put(talk, member)
    attachments.remove(conversation=talk, user=owner, attachment_id=mine.pk)
    assert blobs.get(workspace.pk, theirs.sha256) == b"some text"
    attachments.remove(conversation=talk, user=member, attachment_id=theirs.pk)
    with pytest.raises(blobs.DamagedBlob):
        blobs.get(workspace.pk, theirs.sha256)


def test_what_is_never_sent_is_forgotten_in_the_end(talk, owner):
    sent, unsent, fresh = (put(talk, owner, text) for text in (b"1", b"2", b"3"))
    say(talk, owner, sent)
    old = timezone.now() - timedelta(days=3)
    Attachment.objects.exclude(pk=fresh.pk).update(created_at=old)
    assert attachments.forget_unsent() == 1
    assert set(Attachment.objects.values_list("pk", flat=True)) == {sent.pk, fresh.pk}


def test_a_message_takes_only_ones_own_files_of_this_conversation(
    talk, workspace, owner, member
):
    mine, theirs = put(talk, owner), put(talk, member, b"theirs")
    elsewhere = put(conversation_of(workspace, owner, "x"), owner, b"elsewhere")
    assert attachments.chosen(talk, owner, [mine.pk, mine.pk]) == [mine]
    for ids in ([theirs.pk], [elsewhere.pk], [mine.pk, uuid4()]):
        with pytest.raises(Conflict, match="no longer there"):
            attachments.chosen(talk, owner, ids)
    with pytest.raises(TooMuch, match="20 files"):
        attachments.chosen(talk, owner, [uuid4() for _ in range(21)])


def test_a_file_that_was_removed_meanwhile_is_not_sent(talk, owner):
    row = put(talk, owner)
    rows = attachments.chosen(talk, owner, [row.pk])
    attachments.remove(conversation=talk, user=owner, attachment_id=row.pk)
    with pytest.raises(Conflict):
        attachments.mark_sent(rows)


def test_forty_unsent_files_are_enough(talk, owner, monkeypatch):
    monkeypatch.setattr(attachments, "MOST_UNSENT", 2)
    put(talk, owner, b"1")
    put(talk, owner, b"2")
    with pytest.raises(TooMuch, match="2 unsent files"):
        put(talk, owner, b"3")


def test_uploads_have_a_pace(talk, owner, monkeypatch):
    monkeypatch.setattr(attachments, "UPLOADS_PER_MINUTE", 1)
    put(talk, owner, b"1")
    with pytest.raises(TooFast):
        put(talk, owner, b"2")


def test_a_full_workspace_takes_no_more(talk, owner, settings):
    settings.WORKSPACE_QUOTA_MB = 1
    put(talk, owner, b"x" * 900_000)
    with pytest.raises(TooMuch, match="quota of 1 MB"):
        put(talk, owner, b"y" * 900_000)


def test_erasing_a_message_takes_its_files_and_leaves_those_of_others(
    talk, workspace, owner, client
):
    row, shared = put(talk, owner, b"secret"), put(talk, owner, picture(), "s.png")
    erased = say(talk, owner, row, shared)
    other = conversation_of(workspace, owner, "other")
    say(other, owner, put(other, owner, picture(), "s.png"))
    redact(talk, [erased.seq], owner, "It was secret.")
    assert not Attachment.objects.filter(conversation=talk).exists()
    client.force_login(owner)
    assert client.get(address(talk, shared.sha256)).status_code == 404
    assert client.get(address(other, shared.sha256)).status_code == 200


def test_erasing_one_of_two_messages_with_a_file_keeps_the_file(talk, owner):
    row = put(talk, owner)
    first, _second = say(talk, owner, row), say(talk, owner, row)
    redact(talk, [first.seq], owner, "Twice.")
    assert attachments.visible(talk, owner, row.sha256)
    assert blobs.get(talk.workspace_id, row.sha256)
