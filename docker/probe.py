"""Whether the process of this container is well: exit code 0, else a reason.

    python probe.py web PORT
    python probe.py file FILE SECONDS

A web process is well when it reaches database and broker: without a worker it still
shows pages and accepts messages. Other processes touch a file while they are well.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time


def web(port: str) -> str:
    """ "" if it is well, else what is wrong."""
    client = http.client.HTTPConnection("127.0.0.1", int(port), timeout=4)
    first = os.environ.get("ALLOWED_HOSTS", "").split(",")[0].strip()
    try:
        client.request("GET", "/healthz", headers={"Host": host_of(first)})
        answer = client.getresponse()
        state = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"/healthz does not answer: {error or type(error).__name__}"
    finally:
        client.close()
    missing = [name for name in ("database", "broker") if not state.get(name)]
    return f"not reached: {', '.join(missing)}" if missing else ""


def host_of(allowed: str) -> str:
    """A name that the pattern allows; `*` and nothing allow this machine's."""
    return allowed.lstrip("*").lstrip(".") or "localhost"


def file(path: str, seconds: str) -> str:
    """ "" if it was touched within so many seconds, else what is wrong."""
    try:
        age = time.time() - os.stat(path).st_mtime
    except OSError as error:
        return f"{path}: {error.strerror}"
    return "" if age < float(seconds) else f"{path} was touched {age:.0f} s ago"


def main(arguments: list[str]) -> str:
    match arguments:
        case ["web", port]:
            return web(port)
        case ["file", path, seconds]:
            return file(path, seconds)
    return "usage: probe.py web PORT | file FILE SECONDS"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) or None)
