"""What the transcript's tests share: a conversation, and hands that tamper."""

from __future__ import annotations

from contextlib import contextmanager

from django.db import connection

from workspace import triggers
from workspace.models import Conversation, Entry
from workspace.transcript import Draft, append


def note(text, **more):
    return Draft(Entry.Kind.NOTICE, {"text": text}, **more)


def conversation_of(workspace, user, *texts):
    """A conversation with one notice per text."""
    made = Conversation.objects.create(workspace=workspace, created_by=user)
    if texts:
        append(made.pk, *(note(text) for text in texts))
    return made


def execute(sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


@contextmanager
def tampering():
    """Without the triggers, as somebody who owns the database would work."""
    triggers.drop(connection)
    yield execute
    triggers.install(connection)
