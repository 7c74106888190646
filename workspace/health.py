"""Whether this installation can answer: for `up`, probes and load balancers."""

from __future__ import annotations

import logging
import threading
import time

from django.core.cache import cache
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

BEAT_SECONDS = 2.0
#: A worker that was silent for this long counts as gone.
FRESH_SECONDS = 10.0
WORKER_KEY = "worker-heartbeat"


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 when database, broker and at least one worker answer; 503 otherwise."""
    state = {
        "database": database_answers(),
        "broker": broker_answers(),
        "worker": worker_answers(),
    }
    return JsonResponse(state, status=200 if all(state.values()) else 503)


def database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def broker_answers() -> bool:
    try:
        cache.get(WORKER_KEY)
    except RedisError:
        return False
    return True


def worker_answers() -> bool:
    try:
        return cache.get(WORKER_KEY) is not None
    except RedisError:
        return False


def show_worker_alive() -> None:
    """Say that a worker takes tasks; silence means none does."""
    cache.set(WORKER_KEY, time.time(), FRESH_SECONDS)


def keep_showing_worker_alive(stop: threading.Event) -> threading.Thread:
    """A thread that repeats `show_worker_alive` until `stop` is set."""

    def repeat() -> None:
        while True:
            try:
                show_worker_alive()
            except RedisError as error:
                logger.warning("The broker does not answer: %s", error)
            if stop.wait(BEAT_SECONDS):
                return

    thread = threading.Thread(target=repeat, name="heartbeat", daemon=True)
    thread.start()
    return thread
