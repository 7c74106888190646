"""Leads clients inside the sandbox to the proxy's socket, then becomes the command.

    python3 -c PROGRAM SOCKET PORT COMMAND [ARGUMENT...]

It is listening before the command begins. Only the standard library is used: it runs
in the sandbox, where nothing of the server is.
"""

import contextlib
import os
import socket
import sys
import threading


def main() -> None:
    path, port, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    listener = socket.create_server(("127.0.0.1", port))
    child = os.fork()
    if not child:
        # Forked twice: a command that waits for its children must not wait for this.
        if not os.fork():
            serve(listener, path)
        os._exit(0)
    os.waitpid(child, 0)
    listener.close()
    try:
        os.execvp(command[0], command)  # noqa: S606 - becoming the command is the point
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def serve(listener: socket.socket, path: str) -> None:
    """Forward connections for ever; the end of the sandbox ends it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=forward, args=(client, path), daemon=True).start()


def forward(client: socket.socket, path: str) -> None:
    with client, socket.socket(socket.AF_UNIX) as proxy:
        try:
            proxy.connect(path)
        except OSError:
            return
        answers = threading.Thread(target=copy, args=(proxy, client), daemon=True)
        answers.start()
        copy(client, proxy)
        answers.join()


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
