"""The web process: Daphne on the socket that the supervisor listens on.

    python -m agents.supervisor.web DESCRIPTOR INET|INET6

The supervisor keeps the socket open, so a crash of this process refuses nobody: who
comes meanwhile waits until the next one is there. `manage.py web` is the same process
on an address of its own, for installations of many machines.
"""

from __future__ import annotations

import os
import sys

#: Where the systemd protocol expects the first descriptor.
FIRST_DESCRIPTOR = 3


def adopt(descriptor: int, family: str) -> str:
    """Twisted's description of an inherited, listening socket."""
    os.dup2(descriptor, FIRST_DESCRIPTOR)
    os.environ |= {
        "LISTEN_PID": str(os.getpid()),
        "LISTEN_FDS": "1",
        "LISTEN_FDNAMES": "web",
    }
    return f"systemd:domain={family}:name=web"


def main() -> None:
    serve([adopt(int(sys.argv[1]), sys.argv[2])])


def serve(endpoints: list[str]) -> None:
    """Answer on Twisted's endpoints until SIGTERM or SIGINT."""
    from daphne.server import Server  # installs its reactor, so it comes first

    from agents.supervisor.warm import warm_web
    from workspace.asgi import application

    warm_web()
    Server(
        application,
        endpoints=endpoints,
        http_timeout=None,
        websocket_timeout=-1,
        verbosity=1,
        server_name="",
    ).run()


if __name__ == "__main__":
    main()
