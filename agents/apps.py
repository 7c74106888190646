from typing import Any

from celery.signals import worker_ready, worker_shutting_down
from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        worker_ready.connect(_start_worker, dispatch_uid="agents.worker")
        worker_shutting_down.connect(_drain_worker, dispatch_uid="agents.worker")


def _start_worker(**kwargs: Any) -> None:
    from agents import worker

    worker.start()


def _drain_worker(**kwargs: Any) -> None:
    import threading

    from agents import worker

    threading.Thread(target=worker.drain, name="drain").start()
