"""A Spark session for commands, which have something better to say than Spark's log; and the Python of the workers of any session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.core.errors import PenstockError
from penstock.core.slow_notice import saying

_OPTIONS: dict[str, Any] = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}

_ANY_PYTHON = "python3"
"""What Spark starts as a worker when it was not told."""


def quiet_session() -> SparkSession:
    """The session that there is, or a new one whose log nobody sees."""
    there = SparkSession.getActiveSession()
    if there is not None:
        return there
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the workers
    try:
        with _silence() as ours, saying("starting Spark", lambda what: os.write(ours, f"note: {what}\n".encode())):
            return SparkSession.builder.appName("penstock").config(map=_OPTIONS).getOrCreate()
    except (PySparkRuntimeError, OSError) as error:
        raise PenstockError(f"Spark needs Java 17 or newer, and does not start: install it or set JAVA_HOME ({error})") from error


def use_this_python(spark: SparkSession) -> None:
    """Have Spark's workers on this machine run the Python that runs this program, where nobody said which.

    Spark would take the first `python3` of the path: not the one of an environment that was not activated, where Penstock is.
    """
    if is_remote() or "PYSPARK_PYTHON" in os.environ:
        return
    context = spark.sparkContext
    if context.pythonExec == _ANY_PYTHON and str(context.master).startswith("local"):
        context.pythonExec = sys.executable


def use_this_package(spark: SparkSession) -> None:
    """Where the package was sent with the job, as a zip file: have Spark's workers on the driver's machine find it too.

    Executors get what was sent. The worker that Spark starts beside the driver, to ask a stateful processor for its state, does not.
    """
    place = str(Path(__file__).parents[2])
    if is_remote() or not os.path.isfile(place):
        return
    variables = spark.sparkContext.environment
    known = variables.get("PYTHONPATH", "").split(os.pathsep)
    if place not in known:
        variables["PYTHONPATH"] = os.pathsep.join([*filter(None, known), place])


@contextmanager
def _silence() -> Iterator[int]:
    """A process that is started now writes its errors to a file that nobody reads: Java and Spark greet with a dozen lines.

    Gives where our own go.
    """
    with suppress(OSError, ValueError):  # a notebook's stderr is no file
        sys.stderr.flush()
    with TemporaryFile() as nowhere:
        kept = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield kept
        finally:
            os.dup2(kept, 2)
            os.close(kept)
