"""What a command may use, and what came of it."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Self

from django.conf import settings

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes, counts and seconds that one command and all it starts may use."""

    memory: int = 2048 * _MEGABYTE
    processes: int = 256
    file_size: int = 1024 * _MEGABYTE
    open_files: int = 1024
    output: int = 20_000_000  # stdout and stderr together; the rest is dropped
    temporary: int = 256 * _MEGABYTE  # private /tmp, which is memory
    quota: int = 5120 * _MEGABYTE
    free_space: int = 512 * _MEGABYTE

    @classmethod
    def from_settings(cls) -> Self:
        """What the operator grants to the commands of agents."""
        return cls(
            memory=settings.SANDBOX_MEMORY_MB * _MEGABYTE,
            processes=settings.SANDBOX_PROCESSES,
            file_size=settings.SANDBOX_FILE_MB * _MEGABYTE,
            temporary=settings.SANDBOX_TEMPORARY_MB * _MEGABYTE,
            quota=settings.WORKSPACE_QUOTA_MB * _MEGABYTE,
            free_space=settings.FREE_SPACE_MB * _MEGABYTE,
        )

    def of_process(self, timeout: float) -> dict[int, int]:
        """The kernel's limits on each single process.

        Data, not address space: runtimes reserve far more than they ever touch.
        """
        return {
            resource.RLIMIT_DATA: self.memory,
            resource.RLIMIT_NPROC: self.processes,
            resource.RLIMIT_FSIZE: self.file_size,
            resource.RLIMIT_NOFILE: self.open_files,
            resource.RLIMIT_CPU: int(timeout * 4) + 1,  # several threads, one clock
            resource.RLIMIT_CORE: 0,
        }


@dataclass(slots=True)
class Visit:
    """A request for a way out of the sandbox, and its fate; bytes as they went by."""

    method: str = ""
    host: str = ""
    port: int = 0
    refused: str = ""  # why, as a sentence
    sent: int = 0
    received: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended.

    `exit` is its exit code, 128 + N after signal N, None when it was cut short;
    `cut_short` then is one of the words of `Cut` and `reason` the sentence for it.
    `dropped` counts the bytes of output beyond the limit. `visits` are the first of the
    `asked` requests that the command made over the network.
    """

    exit: int | None
    stdout: bytes
    stderr: bytes
    dropped: int = 0
    cut_short: str = ""
    reason: str = ""
    seconds: float = 0.0
    visits: tuple[Visit, ...] = ()
    asked: int = 0
