"""Writers to SQLite queue: none is refused, and a dead one holds nobody up."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.db.utils import OperationalError

from workspace.models import Workspace
from workspace.sqlite import base
from workspace.sqlite.base import Turns

HOLDER = """
import sys, time
from workspace.sqlite.base import Turns
turns = Turns(sys.argv[1])
turns.take()
print("held", flush=True)
time.sleep(60)
"""


def test_another_process_waits_and_a_killed_holder_frees_its_turn(tmp_path: Path):
    path = str(tmp_path / "turns")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    with holder.stdout:
        assert holder.stdout.readline() == "held\n"
        turns, taken = Turns(path), threading.Event()

        def take() -> None:
            turns.take()
            taken.set()

        thread = threading.Thread(target=take)
        thread.start()
        assert not taken.wait(0.3)
        holder.kill()
        assert taken.wait(10)
        thread.join()
        holder.wait()
    turns.give_back()


def test_a_thread_that_waits_too_long_is_told_so(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(base, "PATIENCE", 0.05)
    turns = Turns(str(tmp_path / "turns"))
    turns.take()
    with pytest.raises(OperationalError, match="takes too long"):
        turns.take()
    turns.give_back()
    turns.take()
    turns.give_back()


@pytest.mark.usefixtures("real_transactions")
def test_many_threads_write_at_once_and_none_is_refused(workspace):
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL locks rows, not the database")
    failures: list[Exception] = []

    def write(number: int) -> None:
        try:
            for _ in range(10):
                with transaction.atomic():
                    row = Workspace.objects.get(pk=workspace.pk)
                    time.sleep(0.001)  # widens the window between read and write
                    row.name = str(int(row.name) + 1)
                    row.save(update_fields=["name"])
        except Exception as error:  # noqa: BLE001 - whatever it is fails the test
            failures.append(error)
        finally:
            connection.close()

    Workspace.objects.filter(pk=workspace.pk).update(name="0")
    threads = [threading.Thread(target=write, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert Workspace.objects.get(pk=workspace.pk).name == "120"


@pytest.mark.django_db
def test_a_rolled_back_transaction_gives_its_turn_back(workspace):
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL locks rows, not the database")
    with suppress(ZeroDivisionError), transaction.atomic():
        Workspace.objects.filter(pk=workspace.pk).update(name="lost")
        raise ZeroDivisionError
    with transaction.atomic():
        Workspace.objects.filter(pk=workspace.pk).update(name="kept")
    workspace.refresh_from_db()
    assert workspace.name == "kept"
