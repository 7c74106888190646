"""How often one person may do something. Counted in the broker: without one nobody is
held back."""

from __future__ import annotations

from functools import lru_cache

import redis
from django.conf import settings
from redis.exceptions import RedisError

from workspace.errors import TooFast

#: Seconds for which a count holds.
PERIOD = 60


def check(key: str, most: int, sentence: str) -> None:
    """Raise TooFast with the sentence at the next one after `most` in a minute."""
    try:
        # Django's cache would open a connection for each request.
        both = _client(settings.REDIS_URL).pipeline(transaction=False)
        both.incr(f"tallyroom:pace:{key}")
        both.expire(f"tallyroom:pace:{key}", PERIOD, nx=True)
        count, _set = both.execute()
    except (RedisError, OSError):
        return
    if count > most:
        raise TooFast(sentence)


@lru_cache(maxsize=2)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=5)
