"""Runs the whole product on this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.supervisor import options as up_options
from agents.supervisor.database import prepare_database
from agents.supervisor.folder import CannotStart, prepare
from agents.supervisor.supervisor import Supervisor, base_url, free_leases, listen
from workspace.accounts import administrator_exists, make_setup_link

DEFAULT_PORT = 8000


class Command(BaseCommand):
    help = "Run the product: database, broker, web, worker and beat, until stopped."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name, subcommand, allow_abbrev=False, **kwargs
        )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Where to listen.")
        parser.add_argument(
            "--port",
            type=int,
            metavar="PORT",
            help=f"Exactly this port; without it {DEFAULT_PORT} or the next free one.",
        )
        up_options.declare(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.run(options["host"], options["port"])
        except CannotStart as error:
            raise CommandError(str(error)) from None

    def run(self, host: str, port: int | None) -> None:
        check_files()
        lock = prepare(settings.VAR_DIR)
        try:
            listener = self.listen(host, port)
            allow_host(host)
            prepare_database()
            self.supervise(listener)
        finally:
            os.close(lock)

    def listen(self, host: str, port: int | None) -> socket.socket:
        if port is not None and not 0 <= port <= 65_535:
            raise CannotStart(f"{port} is not a port; choose one from 0 to 65535.")
        wanted = DEFAULT_PORT if port is None else port
        listener = listen(host, wanted, or_next=port is None)
        got = listener.getsockname()[1]
        if port is None and got != wanted:
            self.stdout.write(f"Port {wanted} is taken; using {got} instead.")
        return listener

    def supervise(self, listener: socket.socket) -> None:
        supervisor = Supervisor(listener, crashed=free_leases)
        try:
            supervisor.start()
            if not supervisor.stopping.is_set():
                self.greet(supervisor)
                supervisor.watch()
            self.stdout.write("Stopping: running turns go on at the next start.")
        finally:
            supervisor.stop()

    def greet(self, supervisor: Supervisor) -> None:
        """Print the one address to open: the set-up link until somebody used it."""
        url = settings.PUBLIC_URL or base_url(
            supervisor.reachable_host, supervisor.port
        )
        if administrator_exists():
            self.stdout.write(f"{settings.PRODUCT_NAME} is ready: {url}/")
        else:
            self.stdout.write(
                f"{settings.PRODUCT_NAME} is ready. Open this link once to create the "
                f"administrator:\n{make_setup_link(url)}"
            )
        self.stdout.flush()


def check_files() -> None:
    """Refuse a system prompt that no agent could be given."""
    if not settings.SYSTEM_PROMPT_FILE:
        return
    try:
        Path(settings.SYSTEM_PROMPT_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise CannotStart(
            f"The system prompt {settings.SYSTEM_PROMPT_FILE!r} cannot be read: "
            f"{reason}."
        ) from None


def allow_host(host: str) -> None:
    """Let browsers use the name that was asked for, unless ALLOWED_HOSTS says more.

    Listening on every address allows this machine's own name and addresses.
    """
    if "ALLOWED_HOSTS" in os.environ:
        return
    names = {host}
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - the operator asked for it
        own = socket.gethostname()
        names = {own, f"{own}.local", *addresses_of(own)}
    shown = [f"[{name}]" if ":" in name else name for name in sorted(names)]
    allowed = list(dict.fromkeys([*settings.ALLOWED_HOSTS, *shown]))
    os.environ["ALLOWED_HOSTS"] = ",".join(allowed)


def addresses_of(name: str) -> set[str]:
    """The addresses that this machine's name stands for; empty if for none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(entry[4][0]) for entry in found}
