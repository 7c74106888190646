"""What a process does before it counts as ready, so that the first message is quick."""

from __future__ import annotations

import logging
import sys

from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.urls import get_resolver
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from workspace.celery import app

logger = logging.getLogger(__name__)

#: Seconds that a thread may hold the interpreter while others wait. Python's 5 ms made
#: whoever held the database's turn wait for streams that only parse: with 20 at once
#: the first token came a third later.
SWITCH_SECONDS = 0.0005

#: The pages of the first minutes: sign-in, conversations, chat.
FIRST_PAGES = (
    "account/login.html",
    "workspace/setup.html",
    "workspace/conversations.html",
    "workspace/conversation.html",
)


def warm_web() -> None:
    """Import every view, compile the first pages and load the modules of a post."""
    sys.setswitchinterval(SWITCH_SECONDS)
    import agents.actions  # noqa: F401

    get_resolver().url_patterns  # noqa: B018 - reading it imports the views
    for name in FIRST_PAGES:
        try:
            get_template(name)
        except TemplateDoesNotExist as error:
            logger.warning("The page %s has no template %s.", name, error)
    warm_doorbell()


def warm_doorbell() -> None:
    """Connect to the broker, which also loads what publishes to it."""
    try:
        with app.producer_pool.acquire(block=True) as producer:
            producer.maybe_declare(app.amqp.queues["turns"])
        app.backend  # noqa: B018 - the first task looks for it among all packages
    except (OperationalError, RedisError, OSError) as error:
        logger.warning("The broker does not answer yet: %s", error)


def warm_worker() -> None:
    """Import the loop and its tools; load the vocabulary that counts tokens."""
    sys.setswitchinterval(SWITCH_SECONDS)
    from agents import tasks, worker  # noqa: F401

    worker.warm()
