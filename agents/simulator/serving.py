"""The simulator as a process of its own, for tests and benches. Needs no database."""

from __future__ import annotations

import socket
from collections.abc import Callable

from agents.simulator.app import make_application
from agents.simulator.service import Simulator


def serve(host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` gets the base URL.

    Port 0 means any free one. Raises `OSError` when the port cannot be had.
    """
    # Daphne installs its reactor on import, so not before it is wanted.
    from daphne.endpoints import build_endpoint_description_strings
    from daphne.server import Server

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=512) as listener:
        number = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        Server(
            make_application(Simulator(), open_requests=True),
            endpoints=build_endpoint_description_strings(
                file_descriptor=listener.fileno()
            ),
            application_close_timeout=2,
            ready_callable=lambda: on_ready(f"http://{shown}:{number}/simulator/v1"),
        ).run()
