"""Starts the processes of one machine, waits until they answer, keeps them alive.

Ends with all of them: on Ctrl-C or SIGTERM they drain; if the supervisor itself is
killed, the kernel kills them (see tether.py).
"""

from __future__ import annotations

import errno
import http.client
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from django.conf import settings
from django.db import DatabaseError, connection

from agents import sweeper
from agents.supervisor.beat import beat
from agents.supervisor.broker import answers, private_folder, tidy, valkey_command
from agents.supervisor.children import Child
from agents.supervisor.folder import CannotStart
from workspace.var import broker_socket

logger = logging.getLogger(__name__)

#: Seconds: between two looks at the children; for all of them to become ready.
LOOK, READY_WITHIN = 0.2, 60.0
#: Starts of a child before the installation first answered; then it is hopeless.
HOPELESS = 3
BROKER_WITHIN = 10.0


class Supervisor:
    def __init__(
        self, listener: socket.socket, *, crashed: Callable[[str], None]
    ) -> None:
        self.listener = listener
        self.host, self.port = listener.getsockname()[:2]
        self.broker = embedded_broker() if settings.EMBEDDED_BROKER else None
        environment = {"SIMULATOR_URL": self.simulator_url}
        if given := os.environ.get("SQLITE_SYNCHRONOUS"):
            environment["SQLITE_SYNCHRONOUS"] = given
        self.web = Child(
            "web",
            [
                sys.executable,
                *("-m", "agents.supervisor.web"),
                str(listener.fileno()),
                listener.family.name.removeprefix("AF_"),
            ],
            environment,
            descriptors=[listener.fileno()],
        )
        self.worker = Child(
            "worker",
            [sys.executable, "-m", "agents.supervisor.worker"],
            {"SQLITE_SYNCHRONOUS": "normal", **environment},
            crashed=crashed,
        )
        self.stopping = threading.Event()
        self._beat = threading.Thread(
            target=beat, args=(f"{os.uname().nodename}:up:{os.getpid()}", self.stopping)
        )

    @property
    def children(self) -> list[Child]:
        return [
            child for child in (self.broker, self.web, self.worker) if child is not None
        ]

    @property
    def reachable_host(self) -> str:
        """The host under which this machine reaches its own listener."""
        host = str(self.host)
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104

    @property
    def simulator_url(self) -> str:
        """Where the worker finds the simulator, unless the environment says it."""
        given = os.environ.get("SIMULATOR_URL")
        return given or f"{base_url(self.reachable_host, self.port)}/simulator"

    def start(self) -> None:
        """Returns once everything answers; raises CannotStart if something does not."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._asked_to_stop)
        if self.broker is not None:
            self.broker.start()
            self._wait_for_broker(self.broker)
        self.web.start()
        self.worker.start()
        self._wait_until_ready()
        if not self.stopping.is_set():
            self._beat.start()

    def watch(self) -> None:
        """Keep the children alive until asked to stop."""
        while not self.stopping.wait(LOOK):
            for child in self.children:
                child.watch()

    def stop(self) -> None:
        """Drain the worker while pages still answer; then the rest."""
        self.stopping.set()
        self.worker.ask_to_stop()
        self.worker.stop(settings.DRAIN_SECONDS + 5)
        if self._beat.is_alive():
            self._beat.join(5)
        self.web.ask_to_stop()
        self.web.stop(5)
        if self.broker is not None:
            self.broker.ask_to_stop()
            self.broker.stop(5)
            tidy(settings.VAR_DIR)
        self.listener.close()

    def _asked_to_stop(self, number: int, frame: object) -> None:
        if self.stopping.is_set():  # asked twice: at once, then
            for child in self.children:
                if child.process is not None and child.running:
                    child.process.kill()
        self.stopping.set()

    def _wait_for_broker(self, broker: Child) -> None:
        deadline = time.monotonic() + BROKER_WITHIN
        while not answers(broker_socket(settings.VAR_DIR)):
            if not broker.running or time.monotonic() > deadline:
                raise CannotStart(
                    "The embedded Valkey did not start; valkey.log beside its socket "
                    "says why. Set REDIS_URL to use another server."
                )
            time.sleep(0.005)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not self.stopping.is_set() and not self._is_ready():
            for child in self.children:
                child.watch()
                if child.starts > HOPELESS and child.process is not None:
                    raise CannotStart(
                        f"The {child.name} process ended {HOPELESS} times before it "
                        "was ready; its message stands above."
                    )
            if time.monotonic() > deadline:
                raise CannotStart(
                    f"The installation did not answer within {READY_WITHIN:.0f} s; "
                    "look for the reason in the lines above."
                )
            self.stopping.wait(0.05)

    def _is_ready(self) -> bool:
        client = http.client.HTTPConnection(self.reachable_host, self.port, timeout=2)
        host = settings.ALLOWED_HOSTS[0] if settings.ALLOWED_HOSTS else "localhost"
        try:
            client.request("GET", "/healthz", headers={"Host": host.lstrip(".*")})
            return client.getresponse().status == 200
        except OSError:
            return False
        finally:
            client.close()


def embedded_broker() -> Child:
    """Valkey on its socket; a stale one of a killed installation is removed first."""
    address = broker_socket(settings.VAR_DIR)
    try:
        private_folder(address.parent)
        address.unlink(missing_ok=True)
    except OSError as error:
        raise CannotStart(
            f"The broker's socket {str(address)!r} cannot be made: "
            f"{error.strerror or error}."
        ) from None
    return Child("valkey", valkey_command(address))


def base_url(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def listen(host: str, port: int, *, or_next: bool) -> socket.socket:
    """A listening socket. With `or_next` a taken port leads to the next free one."""
    last = min(port + 100, 65_535) if or_next and port else port
    for candidate in range(port, last + 1):
        try:
            return bind(host, candidate)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or candidate == last:
                raise CannotStart(cannot_listen(host, candidate, error)) from None
    raise AssertionError("the loop returns or raises at its last candidate")


def bind(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def cannot_listen(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} is taken on {host}. Stop what uses it, or choose another one "
            "with --port."
        )
    return (
        f"Cannot listen on {host} port {port}: {error.strerror}. Choose another "
        "address with --host, or a port above 1023 with --port."
    )


def free_leases(worker: str) -> None:
    """Let other workers take what a dead one held, now rather than at its lease's end."""
    try:
        sweeper.free_worker(worker)
    except DatabaseError:
        logger.exception("The leases of %s end by themselves.", worker)
    finally:
        connection.close()
