"""Kill a join and those around it at random moments of chosen batches, and bring it to its end nevertheless."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from places import SUPPORT

LOCAL = "local[2,4]"
PATIENCE = 1800.0
"""Seconds after which what is awaited will not come."""
_NAMES = {"worker": "pyspark.daemon", "executor": "CoarseGrainedExecutorBackend"}

Event = tuple[int, str]
"""A batch that must have begun, and what to kill then: driver, worker or executor."""
Death = tuple[int, str]
"""A batch that must be committed, and where the settlement after it dies (see chaos_settle.py)."""


def run(script: str, folder: Path, *arguments: object) -> subprocess.Popen[bytes]:
    """A script of this folder in a process group of its own; what it says is in FOLDER/<script>.log."""
    with (folder / f"{script}.log").open("ab") as log:
        command = [sys.executable, str(SUPPORT / f"{script}.py"), str(folder), *map(str, arguments)]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def told(script: str, folder: Path) -> str:
    return (folder / f"{script}.log").read_text()[-3000:]


def children(pid: int) -> list[tuple[int, str]]:
    """All processes below one, with their command lines."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                found.append((int(folder.name), parent, (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
            except (FileNotFoundError, ProcessLookupError):
                continue
    below, out = {pid}, []
    for _ in range(8):
        for child, parent, command in found:
            if parent in below and child not in below:
                below.add(child)
                out.append((child, command))
    return out


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """A process and all below it."""
    for pid in [process.pid, *(child for child, _ in children(process.pid))]:
        kill(pid)
    process.wait(60)


@contextmanager
def patience(what: str) -> Iterator[Any]:
    """A function to call while nothing has come yet."""
    end = time.monotonic() + PATIENCE

    def wait() -> None:
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)

    yield wait


def last(folder: Path, log: str) -> int:
    """The last batch in a log of the checkpoint."""
    return max((int(path.name) for path in (folder / "checkpoint" / log).glob("[0-9]*")), default=-1)


class Job:
    """The query, as often as it has to be started."""

    def __init__(self, folder: Path, query: str, master: str = LOCAL, shards: int = 2) -> None:
        self.folder, self.arguments, self.lives = folder, (query, master, shards), 0
        self.start()

    def start(self) -> None:
        self.lives += 1
        self.process = run("chaos_job", self.folder, *self.arguments)

    def alive(self) -> bool:
        """Whether it runs; one that a kill made fail is started again."""
        if self.process.poll() == 3:
            assert self.lives < 20, told("chaos_job", self.folder)
            self.start()
        assert self.process.poll() in (None, 0), told("chaos_job", self.folder)
        return self.process.poll() is None

    def until(self, batch: int, log: str = "offsets") -> None:
        """Wait until it has begun a batch."""
        with patience(f"batch {batch} in {log}") as wait:
            while last(self.folder, log) < batch:
                assert self.alive(), f"it ended before batch {batch}"
                wait()

    def below(self, who: str, parents: Sequence[int] = ()) -> list[int]:
        """Processes of a kind that there are, or come."""
        with patience(who) as wait:
            while True:
                assert self.alive(), f"it ended without a {who}"
                found = [pid for parent in parents or [self.process.pid] for pid, command in children(parent) if _NAMES[who] in command]
                if found:
                    return found
                wait()

    def end(self) -> None:
        with patience("the end of the query") as wait:
            while self.alive():
                wait()


def disturbed(
    job: Job, seed: int, events: Sequence[Event], deaths: Sequence[Death] = (), *, settle: bool = False, parents: Sequence[int] = ()
) -> Counter[str]:
    """Run the query to its end, with all these kills on the way; `parents` are those of executors. What was killed, how often."""
    chance, killed = Random(f"{job.arguments[0]} {seed}"), Counter[str]()
    settler = Settler(job.folder, deaths, killed) if settle else None
    try:
        for batch, who in events:
            job.until(batch)
            found = [] if who == "driver" else job.below(who, parents)
            time.sleep(chance.uniform(0.0, 1.0))  # anywhere in the batch, which takes about that
            assert job.alive(), f"it ended before the {who} was killed"
            if who == "driver":
                kill_all(job.process)
                job.start()
            else:
                kill(chance.choice(found))
            killed[who] += 1
        job.end()
        if settler is not None:
            settler.end()
    finally:
        kill_all(job.process)
        if settler is not None:
            settler.stop()
    return killed


class Settler(threading.Thread):
    """Settles beside the query, all the time; killed, it is started again."""

    def __init__(self, folder: Path, deaths: Sequence[Death], killed: Counter[str]) -> None:
        super().__init__(daemon=True)
        self.folder, self.deaths, self.killed = folder, deaths, killed
        self.trouble: BaseException | None = None
        self.over = False
        self.process = run("chaos_settle", folder)
        self.start()

    def run(self) -> None:
        try:
            for batch, point in self.deaths:
                with patience(f"a settlement that dies {point}") as wait:
                    while last(self.folder, "commits") < batch and self.process.poll() is None:
                        wait()
                    (self.folder / "point").write_text(point)
                    (self.folder / "point").rename(self.folder / "die")  # whole or not there
                    while self.process.poll() is None:
                        wait()
                assert self.process.returncode == -signal.SIGKILL and not self.over, told("chaos_settle", self.folder)
                (self.folder / "die").unlink()
                self.killed["settlement"] += 1
                self.process = run("chaos_settle", self.folder)
            assert self.process.wait(PATIENCE) == 0, told("chaos_settle", self.folder)
        except BaseException as trouble:  # for the thread that waits
            self.trouble = trouble

    def end(self) -> None:
        """Let it settle the rest."""
        if self.deaths:
            with patience("the last death of a settlement") as wait:
                while self.killed["settlement"] < len(self.deaths) and self.is_alive():
                    wait()
        (self.folder / "stop").touch()
        self.join(PATIENCE)
        if self.trouble is not None:
            raise self.trouble

    def stop(self) -> None:
        self.over = True
        kill_all(self.process)
        self.join(60)
