"""Search over what people and agents wrote, in all conversations a person may see.

The texts of messages are copied into `MessageText` by the beat, a minute after they were
written: posting costs nothing for it. What is newer is read as it stands. SQLite finds
words by an FTS5 table of trigrams, PostgreSQL by pg_trgm; words of fewer than three
characters, which no trigram covers, are looked for in the plain text.

With `triggers.py` this is the only module with SQL of one database alone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import DatabaseError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Max, QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone

from workspace import transcript
from workspace.models import (
    Conversation,
    Entry,
    EntryBody,
    MessageText,
    User,
    Workspace,
)

logger = logging.getLogger(__name__)

TABLE = "workspace_messagetext"
#: Entries get their numbers before they are committed: younger ones may lie in between.
SETTLED = timedelta(minutes=1)
BATCH = 500
#: Messages that are not in the table yet and are read one by one.
MOST_UNINDEXED = 500
MOST_WORDS = 12
TRIGRAM = 3  # characters
#: Characters shown around the first word found.
BEFORE, AROUND = 60, 220
MESSAGES = (Entry.Kind.USER, Entry.Kind.ASSISTANT)


@dataclass(frozen=True)
class Hit:
    """A message that has all the words. `parts` are its text around the first of them,
    each with whether it is one of the words."""

    entry: Entry
    parts: tuple[tuple[str, bool], ...]

    @property
    def url(self) -> str:
        return f"{self.entry.conversation.get_absolute_url()}?at={self.entry.seq}"


def words_of(query: str) -> list[str]:
    """What must all occur: words, and "phrases in quotation marks"."""
    found = re.findall(r'"([^"]+)"|([^\s"]+)', query)
    words = [(phrase or word).strip() for phrase, word in found]
    return [word for word in words if word][:MOST_WORDS]


def search(
    workspace: Workspace,
    viewer: User,
    query: str,
    *,
    before: int | None = None,
    limit: int = 20,
) -> list[Hit]:
    """The newest messages with all the words, older than the entry `before`."""
    words = words_of(query)
    if not words:
        return []
    visible = Conversation.objects.visible_to(viewer).filter(workspace=workspace)
    messages = Entry.objects.filter(
        conversation__in=visible.values("pk"), kind__in=MESSAGES
    )
    if before is not None:
        messages = messages.filter(pk__lt=before)
    hits = [*_unindexed(messages, words), *_indexed(messages, words, limit)]
    return hits[:limit]


def _indexed(messages: QuerySet[Entry], words: Sequence[str], limit: int) -> list[Hit]:
    found = messages.filter(**_fitting(words)) if words else messages
    for word in words:
        if connection.vendor == "postgresql" or len(word) < TRIGRAM:
            found = found.filter(searched__text__icontains=word)
    found = found.select_related("conversation__workspace", "author", "searched")
    return [
        Hit(entry, excerpt(entry.searched.text, words))
        for entry in found.order_by("-pk")[:limit]
    ]


def _fitting(words: Sequence[str]) -> dict[str, RawSQL]:
    """SQLite's answer to the words that its trigrams cover."""
    phrases = [f'"{word}"' for word in words if len(word) >= TRIGRAM]
    if connection.vendor != "sqlite" or not phrases:
        return {}
    return {
        "pk__in": RawSQL(
            "SELECT rowid FROM workspace_search WHERE workspace_search MATCH %s",
            (" AND ".join(phrases),),
        )
    }


def _unindexed(messages: QuerySet[Entry], words: Sequence[str]) -> list[Hit]:
    """The newest messages, which no table has yet."""
    newest = messages.filter(pk__gt=_last()).select_related(
        "conversation__workspace", "author", "stored"
    )
    hits = []
    for entry in newest.order_by("-pk")[:MOST_UNINDEXED]:
        text = text_of(entry)
        if all(word.casefold() in text.casefold() for word in words):
            hits.append(Hit(entry, excerpt(text, words)))
    return hits


def text_of(entry: Entry) -> str:
    """What a message says to people; "" once it was erased."""
    body = transcript.body(entry)
    return str(body.get("text") or "")


def excerpt(text: str, words: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """The text around the first word found, cut at the words."""
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
    first = pattern.search(text)
    start = max(0, (first.start() if first else 0) - BEFORE)
    shown = text[start : start + AROUND]
    parts = [("…", False)] if start else []
    end = 0
    for match in pattern.finditer(shown):
        parts += [(shown[end : match.start()], False), (match[0], True)]
        end = match.end()
    parts.append((shown[end:], False))
    if start + AROUND < len(text):
        parts.append(("…", False))
    return tuple(part for part in parts if part[0])


def index_messages() -> int:
    """Copy settled messages into the table, a batch at a time; returns how many."""
    count = 0
    while entries := _settled():
        texts = {entry.pk: text_of(entry) for entry in entries}
        with transaction.atomic():
            # Whoever shreds one of these waits for the lock, and then finds the copy.
            stored = EntryBody.objects.select_for_update().filter(pk__in=texts)
            shredded = {pk for pk, text in stored.values_list("pk", "text") if not text}
            rows = [
                MessageText(entry_id=pk, text="" if pk in shredded else text)
                for pk, text in texts.items()
            ]
            MessageText.objects.bulk_create(rows, ignore_conflicts=True)
        count += len(entries)
    return count


def _settled() -> list[Entry]:
    settled = Entry.objects.filter(
        pk__gt=_last(), kind__in=MESSAGES, created_at__lt=timezone.now() - SETTLED
    )
    return list(settled.select_related("stored").order_by("pk")[:BATCH])


def _last() -> int:
    return MessageText.objects.aggregate(last=Max("pk"))["last"] or 0


def forget(entries: Iterable[int]) -> None:
    """Blank the copies of entries whose bodies were shredded; once that is committed,
    also what SQLite's index keeps of deleted words until its pages are merged."""
    blanked = MessageText.objects.filter(pk__in=list(entries)).update(text="")
    if blanked and connection.vendor == "sqlite":
        transaction.on_commit(_merge)


def _merge() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO workspace_search(workspace_search) VALUES ('optimize')"
        )


SQLITE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS workspace_search USING fts5("
    "text, content='workspace_messagetext', content_rowid='entry_id', "
    "tokenize='trigram')",
    "CREATE TRIGGER IF NOT EXISTS workspace_search_added "
    "AFTER INSERT ON workspace_messagetext BEGIN "
    "INSERT INTO workspace_search(rowid, text) VALUES (NEW.entry_id, NEW.text); END",
    "CREATE TRIGGER IF NOT EXISTS workspace_search_gone "
    "AFTER DELETE ON workspace_messagetext BEGIN "
    "INSERT INTO workspace_search(workspace_search, rowid, text) "
    "VALUES ('delete', OLD.entry_id, OLD.text); END",
    "CREATE TRIGGER IF NOT EXISTS workspace_search_changed "
    "AFTER UPDATE ON workspace_messagetext BEGIN "
    "INSERT INTO workspace_search(workspace_search, rowid, text) "
    "VALUES ('delete', OLD.entry_id, OLD.text); "
    "INSERT INTO workspace_search(rowid, text) VALUES (NEW.entry_id, NEW.text); END",
)
REBUILD = "INSERT INTO workspace_search(workspace_search) VALUES ('rebuild')"
POSTGRESQL = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX IF NOT EXISTS workspace_search ON workspace_messagetext "
    "USING gin (UPPER(text) gin_trgm_ops)",
)


def install(database: BaseDatabaseWrapper) -> None:
    """Make the index after every migrate; Django's table rebuild drops its triggers.

    A PostgreSQL whose owner may not create pg_trgm searches without an index.
    """
    if TABLE not in database.introspection.table_names():
        return
    statements = SQLITE if database.vendor == "sqlite" else POSTGRESQL
    whole = database.vendor != "sqlite" or _is_whole(database)
    try:
        with transaction.atomic(using=database.alias), database.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    except DatabaseError:
        if database.vendor == "sqlite":
            raise
        logger.warning("Search works without an index: pg_trgm cannot be created.")
        return
    if not whole:
        with database.cursor() as cursor:
            cursor.execute(REBUILD)


def _is_whole(database: BaseDatabaseWrapper) -> bool:
    """Whether SQLite's table and its three triggers were all there."""
    with database.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM sqlite_master WHERE name IN ('workspace_search', "
            "'workspace_search_added', 'workspace_search_gone', "
            "'workspace_search_changed')"
        )
        return bool(cursor.fetchone()[0] == len(SQLITE))
