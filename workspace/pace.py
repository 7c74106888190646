"""How often one person may do something. Counted in the cache: without a broker nobody
is held back."""

from __future__ import annotations

from django.core.cache import cache
from redis.exceptions import RedisError

from workspace.errors import TooFast


def check(key: str, most: int, sentence: str) -> None:
    """Raise TooFast with the sentence at the next one after `most` in a minute."""
    try:
        cache.add(key, 0, timeout=60)
        count = cache.incr(key)
    except (RedisError, ValueError):
        return
    if count > most:
        raise TooFast(sentence)
