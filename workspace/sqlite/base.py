"""SQLite with writers that queue, instead of ones that sleep and try again.

SQLite's own busy handler sleeps up to 100 ms between two tries and knows no order, so
under load a writer may wait for seconds while others pass. Here every transaction takes
its turn first: one lock among the threads of a process, one `flock` among processes,
which the kernel hands on at once and frees when a process dies. SQLite's own locking
stays in force beneath it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from functools import lru_cache
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

#: Seconds a thread waits for its turn; as long as SQLite's own timeout.
PATIENCE = 20.0


class Turns:
    """Whose turn it is to write to one database file, among this machine's processes."""

    def __init__(self, path: str) -> None:
        self._threads = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> None:
        if not self._threads.acquire(timeout=PATIENCE):
            raise OperationalError("database is locked: another write takes too long")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except BaseException:
            self._threads.release()
            raise

    def give_back(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()


_turns: dict[str, Turns] = {}
_lock = threading.Lock()


def turns_of(database: str) -> Turns:
    """The turns of a database file; one object for all connections of the process."""
    with _lock:
        if database not in _turns:
            _turns[database] = Turns(f"{database}-turns")
        return _turns[database]


@lru_cache(maxsize=1024)
def in_sqlite_style(query: str) -> str:
    """The query with SQLite's placeholders. Most queries come again and again."""
    return base.FORMAT_QMARK_REGEX.sub("?", query).replace("%%", "%")


class Cursor(base.SQLiteCursorWrapper):
    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        if param_names is None:
            return in_sqlite_style(query)
        converted: str = super().convert_query(query, param_names=param_names)
        return converted


class DatabaseWrapper(base.DatabaseWrapper):
    """Takes its turn before BEGIN, gives it back after COMMIT or ROLLBACK."""

    _turn: Turns | None = None

    def create_cursor(self, name: str | None = None) -> Any:
        return self.connection.cursor(factory=Cursor)

    def _start_transaction_under_autocommit(self) -> None:
        if self._turn is None and not self.is_in_memory_db():
            turn = turns_of(str(self.settings_dict["NAME"]))
            turn.take()
            self._turn = turn
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._give_back()
            raise

    def _give_back(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.give_back()

    def _commit(self) -> Any:
        try:
            return super()._commit()  # type: ignore[misc]
        finally:
            if not self.connection.in_transaction:
                self._give_back()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]
        finally:
            self._give_back()

    def _close(self) -> Any:
        try:
            return super()._close()  # type: ignore[misc]
        finally:
            self._give_back()
