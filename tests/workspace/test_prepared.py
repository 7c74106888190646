"""Prepared statements give what the ORM gives, and change what it would change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from workspace.models import Conversation, Entry, Membership, Turn, User
from workspace.prepared import Select, Update, given, insert

pytestmark = pytest.mark.django_db

TURNS = Select(
    lambda: (
        Turn.objects.filter(
            conversation=given("conversation", Turn, "conversation"), ended_at=None
        )
        .select_related("author", "conversation__workspace")
        .order_by("created_at")
    )
)


@pytest.fixture
def conversation(workspace, owner):
    return Conversation.objects.create(workspace=workspace, created_by=owner)


def test_rows_are_the_models_that_the_orm_gives(conversation, owner):
    Turn.objects.create(conversation=conversation, author=owner, message="one")
    Turn.objects.create(conversation=conversation, author=None, message="two")
    plain = Turn.objects.filter(conversation=conversation).order_by("created_at")
    found = TURNS.all(conversation=conversation.pk)
    assert found == list(plain)
    for ours, theirs in zip(found, plain, strict=True):
        for field in Turn._meta.concrete_fields:
            assert getattr(ours, field.attname) == getattr(theirs, field.attname)
    with CaptureQueriesContext(connection) as asked:
        assert found[0].author == owner
        assert found[0].conversation.workspace == conversation.workspace
        assert found[1].author is None
    assert not asked


def test_each_call_brings_its_own_values(conversation, workspace, owner):
    other = Conversation.objects.create(workspace=workspace, created_by=owner)
    turn = Turn.objects.create(conversation=other, author=owner)
    assert TURNS.all(conversation=conversation.pk) == []
    assert TURNS.first(conversation=other.pk) == turn
    assert TURNS.first(conversation=conversation.pk) is None


def test_one_query_each_and_a_missing_value_is_refused(conversation):
    TURNS.all(conversation=conversation.pk)
    with CaptureQueriesContext(connection) as asked:
        TURNS.all(conversation=conversation.pk)
    assert len(asked) == 1
    with pytest.raises(KeyError):
        TURNS.all(turn=conversation.pk)


def test_values_come_as_python_has_them(conversation, owner):
    turn = Turn.objects.create(conversation=conversation, author=owner)
    rows = Select(
        lambda: Turn.objects.filter(pk=given("pk", Turn, "id")).values_list(
            "id", "conversation", "created_at", "ended_at"
        )
    )
    assert rows.all(pk=turn.pk) == [(turn.pk, conversation.pk, turn.created_at, None)]


def test_null_equals_nothing(conversation):
    Turn.objects.create(conversation=conversation, author=None)
    by_author = Select(lambda: Turn.objects.filter(author=given("who", Turn, "author")))
    assert by_author.all(who=None) == []


def test_an_update_changes_only_what_fits(workspace, owner):
    role = Update(
        lambda: Membership.objects.filter(
            user=given("user", Membership, "user"),
            role=given("role", Membership, "role"),
        )
    )
    assert role.run({"role": "admin"}, user=owner.pk, role="viewer") == 0
    assert role.run({"role": "admin"}, user=owner.pk, role="owner") == 1
    assert Membership.objects.get(user=owner, workspace=workspace).role == "admin"


def test_an_update_may_change_other_fields_each_time(conversation):
    row = Update(
        lambda: Conversation.objects.filter(pk=given("pk", Conversation, "id"))
    )
    row.run({"title": "one"}, pk=conversation.pk)
    row.run({"title": "two", "head_digest": "x"}, pk=conversation.pk)
    conversation.refresh_from_db()
    assert (conversation.title, conversation.head_digest) == ("two", "x")


def test_inserted_rows_have_their_keys_in_order(conversation, owner):
    turn = Turn(conversation=conversation, author=owner)
    insert(turn)
    assert Turn.objects.get(pk=turn.pk).author == owner
    assert not turn._state.adding
    stamp = {"body_digest": "", "digest": "", "created_at": turn.created_at}
    rows = [
        Entry(conversation=conversation, seq=seq, kind="user", turn=turn, **stamp)
        for seq in (1, 2, 3)
    ]
    insert(*rows)
    stored = Entry.objects.filter(conversation=conversation).order_by("seq")
    assert [row.pk for row in rows] == [row.pk for row in stored]
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(Entry(conversation=conversation, seq=3, kind="user", **stamp))


def test_threads_may_meet_at_the_first_use(real_transactions):
    User.objects.create_user("ada")
    by_name = Select(
        lambda: User.objects.filter(username=given("name", User, "username"))
    )

    def look(_number: int) -> str:
        try:
            return by_name.all(name="ada")[0].username
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(look, range(16))) == ["ada"] * 16
