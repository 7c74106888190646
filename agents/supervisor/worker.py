"""The worker process: Celery with threads, ready to claim runs.

python -m agents.supervisor.worker [QUEUE...]
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

QUEUES = ("turns", "children", "background")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workspace.settings")
    import django

    django.setup(set_prefix=False)
    work(sys.argv[1:] or QUEUES)


def work(queues: Sequence[str]) -> None:
    """Serve the queues until SIGTERM or SIGINT; Django is set up already."""
    # Celery warns of root because of pickled messages, which it refuses here.
    warnings.filterwarnings("ignore", message=".*superuser privileges.*")
    from celery.signals import worker_ready, worker_shutting_down

    from agents.supervisor.warm import warm_worker
    from workspace.celery import app

    warm_worker()
    worker_ready.connect(begin)
    worker_shutting_down.connect(leave)
    app.worker_main(
        [
            "--quiet",
            "worker",
            *("--pool", "threads"),
            *("--queues", ",".join(queues)),
            *("--loglevel", "WARNING"),
            *("--hostname", os.environ.get("WORKER_NAME", "") or "worker@%h"),
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
    )


def begin(**kwargs: Any) -> None:
    """Renew leases, sweep and hear stops from now on."""
    from agents import worker

    worker.start()


def leave(**kwargs: Any) -> None:
    """Hand the runs back. Celery calls this in its signal handler, hence the thread."""
    from agents import worker

    threading.Thread(target=worker.drain, name="drain", daemon=True).start()


if __name__ == "__main__":
    main()
