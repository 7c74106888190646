"""Waking workers. Every message may be lost: the database says what there is to do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from uuid import UUID

import redis
from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

_STOPS = "tallyroom:stops"


def ring_on_commit(run_id: UUID, trigger: str = "") -> None:
    """Ask a worker to take a queued run, once the transaction holds."""
    transaction.on_commit(lambda: ring(run_id, trigger))


def ring(run_id: UUID, trigger: str = "") -> None:
    """Ask a worker to take a queued run. Never raises: the sweeper asks again.

    Children have a queue of their own, so that they cannot keep people waiting.
    """
    queue = "children" if trigger == "delegation" else "turns"
    try:
        current_app.send_task(
            "agents.play", args=[str(run_id)], queue=queue, ignore_result=True
        )
    except (OperationalError, redis.RedisError, OSError) as error:
        logger.warning("Doorbell for run %s not rung: %s", run_id, error)


@lru_cache(maxsize=1)
def _client() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1
    )


def announce_stop(run_id: UUID) -> None:
    """Tell all workers that a run has to stop. The flag in the database is the fact."""
    try:
        _client().publish(_STOPS, str(run_id))
    except redis.RedisError as error:
        logger.warning("Stop of run %s not announced: %s", run_id, error)


def listen_for_stops(on_stop: Callable[[UUID], None], ended: threading.Event) -> None:
    """Call back for each announced stop until `ended`; reconnects after a fault."""
    while not ended.is_set():
        try:
            _listen_once(on_stop, ended)
        except redis.RedisError as error:
            logger.warning("Lost the stop channel (%s); trying again.", error)
            ended.wait(1)


def _listen_once(on_stop: Callable[[UUID], None], ended: threading.Event) -> None:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1)
    channel: Any = client.pubsub(  # type: ignore[no-untyped-call]
        ignore_subscribe_messages=True
    )
    with channel:
        channel.subscribe(_STOPS)
        while not ended.is_set():
            message = channel.get_message(timeout=1)
            if message:
                on_stop(UUID(message["data"].decode()))
