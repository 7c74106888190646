"""The Celery app: a doorbell between web and worker, and nothing that must last."""

import os
import threading
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_ready, worker_shutting_down

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workspace.settings")

app = Celery("tallyroom")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

_leaving = threading.Event()


@setup_logging.connect
def keep_django_logging(**kwargs: Any) -> None:
    """Celery leaves logging alone when somebody listens: Django has set it up."""


@worker_ready.connect
def show_alive(**kwargs: Any) -> None:
    from workspace.health import keep_showing_worker_alive

    keep_showing_worker_alive(_leaving)


@worker_shutting_down.connect
def show_leaving(**kwargs: Any) -> None:
    _leaving.set()
