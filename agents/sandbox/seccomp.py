"""A seccomp filter as the bytes that bubblewrap loads: what confined code may not ask.

The filter refuses a list rather than allowing one: compilers, test runners and
interpreters of every kind must work. What it refuses either reaches past the namespaces
(keys, vsock, kernel modules), widens the kernel's attack surface (bpf, io_uring,
userfaultfd) or holds memory that nobody counts (memfd, SysV shared memory).
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

# Offsets in `struct seccomp_data`, in bytes (little-endian machines only).
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X32_BIT = 0x40000000
_CLONE_NEWUSER = 0x10000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SOCKET_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink; not vsock, packet, alg


@dataclass(frozen=True, slots=True)
class Machine:
    """An architecture: its audit number and its column in the tables below."""

    audit: int
    column: int
    x32: bool = False


MACHINES = {
    "x86_64": Machine(0xC000003E, 0, x32=True),
    "aarch64": Machine(0xC00000B7, 1),
}

#: Answered "operation not permitted": (x86_64, aarch64) numbers.
FORBIDDEN: dict[str, tuple[int | None, int | None]] = {
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "lookup_dcookie": (212, 18),
    "vhangup": (153, 58),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
}

#: Answered "not implemented", on which programs fall back to something older.
MISSING: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),  # its flags lie behind a pointer that a filter cannot follow
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
}

_CLONE, _IOCTL, _SOCKET, _SOCKETPAIR = (56, 220), (16, 29), (41, 198), (53, 199)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _load_argument(index: int) -> bytes:
    """The low 32 bits of a call's argument; the kernel ignores the rest for these."""
    return _step(_LOAD, _ARGUMENTS + 8 * index)


def _same_machine(machine: Machine) -> bytes:
    """Kill whoever calls through another architecture's entry, refuse x32 numbers."""
    program = _step(_LOAD, _ARCHITECTURE)
    program += _step(_JUMP_IF_EQUAL, machine.audit, yes=1)
    program += _step(_RETURN, _KILL)
    program += _step(_LOAD, _NUMBER)
    if machine.x32:
        program += _step(_JUMP_IF_BITS, _X32_BIT, no=1) + _refuse(errno.ENOSYS)
    return program


def _only_for(number: int, body: bytes) -> bytes:
    """Run `body` for one system call; it must end in a return."""
    return _step(_JUMP_IF_EQUAL, number, no=len(body) // 8) + body


def _check_clone() -> bytes:
    return (
        _load_argument(0)
        + _step(_JUMP_IF_BITS, _CLONE_NEWUSER, no=1)
        + _refuse(errno.EPERM)
        + _step(_RETURN, _ALLOW)
    )


def _check_ioctl() -> bytes:
    return (
        _load_argument(1)
        + _step(_JUMP_IF_EQUAL, _TIOCSTI, yes=1)
        + _step(_JUMP_IF_EQUAL, _TIOCLINUX, no=1)
        + _refuse(errno.EPERM)
        + _step(_RETURN, _ALLOW)
    )


def _check_socket() -> bytes:
    program = _load_argument(0)
    for family in _SOCKET_FAMILIES:
        program += _step(_JUMP_IF_EQUAL, family, no=1) + _step(_RETURN, _ALLOW)
    return program + _refuse(errno.EAFNOSUPPORT)


def build(machine_name: str = "") -> bytes:
    """The filter for a machine (default: this one); raises KeyError if unknown."""
    machine = MACHINES[machine_name or platform.machine()]
    program = _same_machine(machine)
    for table, number in ((FORBIDDEN, errno.EPERM), (MISSING, errno.ENOSYS)):
        for columns in table.values():
            call = columns[machine.column]
            if call is not None:
                program += _only_for(call, _refuse(number))
    program += _only_for(_CLONE[machine.column], _check_clone())
    program += _only_for(_IOCTL[machine.column], _check_ioctl())
    for columns in (_SOCKET, _SOCKETPAIR):
        program += _only_for(columns[machine.column], _check_socket())
    return program + _step(_RETURN, _ALLOW)
