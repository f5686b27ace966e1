"""A PostgreSQL server of a test's own, from Debian's packages: made in a temporary folder, on a free port of this machine, and stopped."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

USER, LOCKED = "penstock", "locked"
_SYSTEM_USERS = ("postgres", "nobody")


@dataclass
class Server:
    """A server that trusts whoever connects from this machine, but for the role `locked`, which needs its password."""

    programs: Path
    folder: Path
    port: int

    def address(self, what: str = "", database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}{f'#{what}' if what else ''}"

    def run(self, *statements: str) -> None:
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.address(), autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def start(self) -> None:
        quick = "-c fsync=off -c full_page_writes=off -c shared_buffers=8MB -c timezone=Asia/Tokyo"
        options = f"-k {self.folder} -p {self.port} -c listen_addresses=127.0.0.1 {quick}"
        self._as_user("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-o", options, "-w", "start")

    def stop(self) -> None:
        self._as_user("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")

    def _as_user(self, program: str, *arguments: str) -> None:
        """A server refuses to run as root, so it has a user of its own."""
        command = [str(self.programs / program), *arguments]
        if os.getuid() == 0:
            command = ["setpriv", f"--reuid={_user().pw_uid}", f"--regid={_user().pw_gid}", "--clear-groups", *command]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, timeout=60, env=environment)


@contextmanager
def server() -> Iterator[Server]:
    """A server that runs; where PostgreSQL is not there and cannot be installed the test is skipped, and in CI it fails."""
    programs = _programs() or _installed()
    if programs is None:
        told = "PostgreSQL is not installed, and only root may install it: apt-get install postgresql"
        pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # short: a socket lies in it
    try:
        if os.getuid() == 0:
            os.chown(folder, _user().pw_uid, _user().pw_gid)
        own = Server(programs, folder, _free_port())
        own._as_user("initdb", "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        rules = folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {LOCKED} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        own.start()
        try:
            yield own
        finally:
            own.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """The newest of Debian's folders that has a server, or where PATH finds one."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]), reverse=True)
    found = shutil.which("initdb")
    return versions[0].parent if versions else Path(found).resolve().parent if found else None


def _installed() -> Path | None:
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        return None
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "postgresql"]):
        subprocess.run(["apt-get", *arguments], check=False, timeout=600, **quiet)
    return _programs()


def _user() -> pwd.struct_passwd:
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in _SYSTEM_USERS if name in known)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
