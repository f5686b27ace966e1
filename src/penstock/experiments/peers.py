"""Stream engines beside Spark: each runs the same join in an environment of its own, by a script of `benchmarks/peers/`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError, choose

if TYPE_CHECKING:
    import pyarrow as pa

SCRIPTS = Path(__file__).parents[3] / "benchmarks" / "peers"
PACKAGES = {"flink": "apache-flink", "pathway": "pathway"}
"""The peers, and what to install for each."""


@dataclass(frozen=True)
class PeerTiming:
    """What a peer did: all rows in one go, from files to a file."""

    contender: str
    version: str
    rows: int
    outputs: int
    run_seconds: float

    @property
    def rows_per_second(self) -> float:
        """Input rows over the time of the run, without the start of the engine."""
        return self.rows / self.run_seconds


def interpreter(peer: str) -> Path:
    """The Python in which a peer is installed, from PENSTOCK_<PEER>_PYTHON or `benchmarks/peers/.venv-<peer>`.

    >>> interpreter("storm")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: --peer must be one of flink, pathway, got 'storm'
    """
    choose("--peer", peer, PACKAGES)
    variable = f"PENSTOCK_{peer.upper()}_PYTHON"
    folder = SCRIPTS / f".venv-{peer}"
    named = os.environ.get(variable)
    found = Path(named) if named else folder / "bin" / "python"
    if not SCRIPTS.is_dir():
        raise PenstockError(f"--peer {peer} needs the folder benchmarks/peers of the repository, which an installed package does not have")
    if not found.is_file():
        where = f"{variable} is {named!r}, where there is no file" if named else f"{variable} is not set and {_short(folder)} is not there"
        remedy = f"python3 -m venv {_short(folder)} && {_short(folder)}/bin/pip install {PACKAGES[peer]}"
        raise PenstockError(f"--peer {peer} needs {PACKAGES[peer]} in an environment of its own: {where}; make it with: {remedy}")
    return found


def measure_peer(peer: str, left: pa.Table, right: pa.Table, *, window: int, parallelism: int) -> PeerTiming:
    """Join two tables (`t` in ms, `k`, `v`) with a peer; the window is in ms."""
    from pyarrow import csv

    python = interpreter(peer)
    with tempfile.TemporaryDirectory() as folder:
        for name, table in {"l": left, "r": right}.items():
            csv.write_csv(table, f"{folder}/{name}.csv", csv.WriteOptions(include_header=False, quoting_style="none"))
        command = [str(python), str(SCRIPTS / f"{peer}_join.py"), folder, str(window), str(parallelism)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise PenstockError(f"--peer {peer} did not finish its run: {reason}")
    found = json.loads(lines[-1])
    return PeerTiming(peer, found["version"], found["rows"], found["outputs"], found["seconds"])


def _short(path: Path) -> str:
    """A path as seen from here, where that is shorter."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
