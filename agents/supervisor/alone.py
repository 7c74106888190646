"""What a web, a worker or a beat needs that runs without `up` beside it."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from django.conf import settings
from django.db import connection

from agents.supervisor.folder import CannotStart
from workspace import environment
from workspace.health import database_answers
from workspace.var import read_key

logger = logging.getLogger(__name__)

#: Seconds between two touches; probes should allow for several missed ones.
TOUCH_SECONDS = 5.0


def require_keys() -> None:
    """Refuse keys of this process alone: another replica could not read its sessions."""
    given = environment.secret("SECRET_KEY") or read_key(
        settings.VAR_DIR / "secret_key"
    )
    if not given or not settings.FERNET_KEYS:
        raise CannotStart(
            f"There are no keys in {str(settings.VAR_DIR)!r}. Run `manage.py prepare` "
            "first, and give every process the same VAR_DIR."
        )


def keep_touching(path: Path, stop: threading.Event) -> threading.Thread:
    """A thread that touches the file while the database answers, until `stop` is set."""
    thread = threading.Thread(
        target=_touch, args=(path, stop), name="alive", daemon=True
    )
    thread.start()
    return thread


def _touch(path: Path, stop: threading.Event) -> None:
    while True:
        try:
            if database_answers():
                path.touch()
        except OSError as error:
            logger.warning("The file %s cannot be touched: %s", path, error)
        finally:
            connection.close()  # it belongs to a pool, or is opened anew
        if stop.wait(TOUCH_SECONDS):
            return
