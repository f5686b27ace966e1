"""The driver's compiled code for the executors: the machines of a cluster need not compile each by itself.

An archive (core/compiling/archive.py) goes with the files of the job. What a worker reads is run, so it must be, to the last bit, what the
driver sent: its digest travels with the processor, as the code of the processor itself does.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.core import compiled

_sent: dict[str, SentCode] = {}  # by application


@dataclass(frozen=True)
class SentCode:
    """An archive that was sent: its name, and what is in it."""

    name: str
    digest: str

    @property
    def file(self) -> str:
        """Its name among the files of the job, which no other content has."""
        return f"{self.digest[:16]}-{self.name}"

    def take(self) -> None:
        """In a worker: keep the code, if it fits this machine and has not been taken."""
        if not compiled.takes(self.name):
            return
        path = Path(SparkFiles.get(self.file))
        code = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(code).hexdigest() == self.digest:
            compiled.take(self.name, code)


def send_code(spark: SparkSession) -> SentCode | None:
    """Send the driver's code to the executors of a cluster, once; where it has none, it compiles. None: there is nothing to send."""
    if is_remote() or str(spark.sparkContext.master).startswith("local"):
        return None  # Spark Connect has a driver elsewhere; workers on this machine have the driver's folder
    application = str(spark.sparkContext.applicationId)
    if application not in _sent:
        if compiled.is_cold("play.play"):
            from penstock.simulator.warm import warm  # which workers, who import this file too, do not need

            for _ in warm():
                pass
        kept = compiled.kept_code()
        if kept is None:
            return None
        _sent[application] = _send(spark.sparkContext, *kept)
    return _sent[application]


def _send(context: SparkContext, name: str, code: bytes) -> SentCode:
    made = SentCode(name, hashlib.sha256(code).hexdigest())
    folder = tempfile.mkdtemp(prefix="penstock-")  # Spark reads from there whenever an executor asks
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / made.file
    path.write_bytes(code)
    context.addFile(str(path))
    return made
