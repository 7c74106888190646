"""When memory agents work: after a conversation has rested, and once a night."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import redis
from celery import current_app
from django.db import IntegrityError, transaction
from django.db.models import F, Max, Q
from django.db.models.functions import Coalesce
from django.utils import timezone
from kombu.exceptions import OperationalError

from agents.config.layers import effective
from agents.endpoints import choose
from agents.errors import ProviderError
from agents.memory_agents import MOST_TRIES
from agents.models import Endpoint, Memory, MemoryRun, Run
from agents.seeding import seed_workspace
from workspace.models import Conversation, Entry, Workspace

logger = logging.getLogger(__name__)

#: How long nothing must have been said; how far back is looked.
IDLE = timedelta(minutes=5)
REACH_BACK = timedelta(days=2)
#: Local hours in which notes are tidied, and how few are not worth it.
NIGHT = range(3, 5)
FEWEST = 4
MOST_AT_ONCE = 20


def remember(now: datetime | None = None) -> int:
    """One look: queue what is due and ring for it; returns how many runs were rung for."""
    now = now or timezone.now()
    recover(now)
    for conversation in rested(now):
        _queue_extraction(conversation)
    for workspace in Workspace.objects.filter(deleted_at=None):
        if now.astimezone(_zone(workspace)).hour in NIGHT:
            _queue_consolidation(workspace, now)
    waiting = MemoryRun.objects.filter(state=MemoryRun.State.QUEUED)
    keys = list(waiting.order_by("created_at").values_list("pk", flat=True))
    for key in keys[:MOST_AT_ONCE]:
        ring(str(key))
    return len(keys[:MOST_AT_ONCE])


def ring(key: str) -> None:
    """Ask a worker. Never raises: the next look asks again."""
    try:
        current_app.send_task(
            "agents.remember", args=[key], queue="background", ignore_result=True
        )
    except (OperationalError, redis.RedisError, OSError) as error:
        logger.warning("Memory run %s was not rung for: %s", key, error)


def recover(now: datetime) -> None:
    """Queue again what a worker has lost; after some tries it has failed."""
    lost = MemoryRun.objects.filter(
        state=MemoryRun.State.RUNNING, claimed_until__lt=now
    )
    lost.filter(tries__gte=MOST_TRIES).update(
        state=MemoryRun.State.FAILED,
        message="Its worker was lost several times.",
        ended_at=now,
    )
    lost.filter(tries__lt=MOST_TRIES).update(state=MemoryRun.State.QUEUED)


def rested(now: datetime) -> list[Conversation]:
    """Conversations in which nothing happened for a while, answers nobody looked at."""
    busy = Run.objects.filter(state__in=Run.OPEN).values("conversation")
    quiet = Conversation.objects.of_people().filter(
        deleted_at=None,
        workspace__deleted_at=None,
        updated_at__lt=now - IDLE,
        updated_at__gt=now - REACH_BACK,
    )
    counted = quiet.exclude(pk__in=busy).annotate(
        answered=Max("entries__seq", filter=Q(entries__kind=Entry.Kind.ASSISTANT)),
        looked=Coalesce(Max("memory_runs__upto_seq"), 0),
    )
    found = counted.filter(answered__gt=F("looked")).order_by("updated_at")
    return list(found.select_related("workspace", "created_by"))


def _last_answer(conversation: Conversation) -> int:
    answers = conversation.entries.filter(kind=Entry.Kind.ASSISTANT)
    return answers.aggregate(last=Max("seq"))["last"] or 0


def _queue_extraction(conversation: Conversation) -> None:
    chosen = effective(conversation).settings.memory
    if not (chosen.enabled and chosen.extraction) or _is_simulated(conversation):
        return
    _queue(
        workspace=conversation.workspace,
        kind=MemoryRun.Kind.EXTRACTION,
        conversation=conversation,
        user=conversation.created_by,
        upto_seq=_last_answer(conversation),
    )


def _queue_consolidation(workspace: Workspace, now: datetime) -> None:
    """One run for the shared notes and one for each person's, if some changed."""
    chosen = effective(workspace).settings.memory
    blank = Conversation(workspace=workspace, agent_name="assistant")
    if not (chosen.enabled and chosen.consolidation) or _is_simulated(blank):
        return
    notes = Memory.objects.filter(workspace=workspace).exclude(scope=Memory.Scope.AGENT)
    done = MemoryRun.objects.filter(
        workspace=workspace, kind=MemoryRun.Kind.CONSOLIDATION
    )
    for owner in set(notes.values_list("user", flat=True)):
        theirs = notes.filter(user=owner)
        last = done.filter(user=owner).aggregate(at=Max("created_at"))["at"]
        if last and last > now - timedelta(hours=12):
            continue
        newest = theirs.aggregate(at=Max("updated_at"))["at"]
        if theirs.count() >= FEWEST and (last is None or newest > last):
            _queue(
                workspace=workspace,
                kind=MemoryRun.Kind.CONSOLIDATION,
                user_id=owner,
                created_at=now,
            )


def _queue(**fields: object) -> None:
    try:
        with transaction.atomic():
            MemoryRun.objects.create(**fields)
    except IntegrityError:
        return  # another beat was first


def _is_simulated(conversation: Conversation) -> bool:
    """Whether no language model would answer: rules learn nothing from a talk."""
    agent = conversation.workspace.agents.filter(
        name=conversation.agent_name, deleted_at=None
    ).first()
    try:
        model = choose(conversation, agent or seed_workspace(conversation.workspace))
    except ProviderError:
        return True
    return model.endpoint.kind == Endpoint.Kind.SIMULATOR


def _zone(workspace: Workspace) -> ZoneInfo:
    try:
        return ZoneInfo(workspace.time_zone)
    except (KeyError, ValueError):
        return ZoneInfo("UTC")
