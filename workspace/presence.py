"""Who is here and who types: kept in the broker, forgotten when nobody renews it."""

from __future__ import annotations

import logging
import time
from uuid import UUID

from redis.exceptions import RedisError

from workspace.live import client, conversation_group, push
from workspace.models import User

logger = logging.getLogger(__name__)

#: Seconds after which a page that says nothing counts as gone.
HERE_SECONDS = 45
MOST_SHOWN = 30


def _key(conversation_id: UUID) -> str:
    return f"tallyroom:here:{conversation_id}"


def _member(user: User) -> str:
    return f"{user.pk}:{user}"


async def arrive(conversation_id: UUID, user: User) -> None:
    await _renew(conversation_id, user)
    push(conversation_group(conversation_id), {"type": "presence.changed"})


async def leave(conversation_id: UUID, user: User) -> None:
    """Another tab of the same person renews itself with its next catch-up."""
    try:
        await client().zrem(_key(conversation_id), _member(user))
    except (RedisError, OSError, TimeoutError) as error:
        logger.warning("Presence cannot be written: %s", error)
    push(conversation_group(conversation_id), {"type": "presence.changed"})


async def typing(conversation_id: UUID, user: User) -> None:
    message = {"type": "presence.typing", "user": str(user.pk), "name": str(user)}
    push(conversation_group(conversation_id), message)


async def people(conversation_id: UUID, user: User | None = None) -> list[str]:
    """The names of those whose page is open; `user` renews their own place."""
    try:
        if user is not None:
            await _renew(conversation_id, user)
        oldest = time.time() - HERE_SECONDS
        found = await client().zrangebyscore(
            _key(conversation_id), oldest, "+inf", start=0, num=MOST_SHOWN
        )
    except (RedisError, OSError, TimeoutError) as error:
        logger.warning("Presence cannot be read: %s", error)
        return []
    names = [member.decode() for member in found if isinstance(member, bytes)]
    return sorted({name.partition(":")[2] for name in names})


async def _renew(conversation_id: UUID, user: User) -> None:
    try:
        pipeline = client().pipeline(transaction=False)
        pipeline.zadd(_key(conversation_id), {_member(user): time.time()})
        pipeline.zremrangebyscore(
            _key(conversation_id), "-inf", time.time() - HERE_SECONDS
        )
        pipeline.expire(_key(conversation_id), HERE_SECONDS * 2)
        await pipeline.execute()
    except (RedisError, OSError, TimeoutError) as error:
        logger.warning("Presence cannot be written: %s", error)
