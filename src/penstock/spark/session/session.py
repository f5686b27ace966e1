"""A Spark session for commands, which have something better to say than Spark's log; and the Python of the workers of any session."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.core.errors import PenstockError
from penstock.core.slow_notice import saying
from penstock.spark.session.first_line import first_line
from penstock.spark.session.java import missing_java
from penstock.spark.session.quiet import without_preamble

_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
_PATIENT = {"spark.python.authenticate.socketTimeout": "180s"}
"""For a Python worker that starts: on a busy machine it may need more than the 15 seconds that Spark gives it."""
_FLAGS = "spark.driver.extraJavaOptions"
_LOGGING = Path(__file__).with_name("log4j2.properties")

_ANY_PYTHON = "python3"
"""What Spark starts as a worker by default."""


def start_session(name: str, settings: Mapping[str, str] | None = None, *, master: str | None = None) -> SparkSession:
    """A session for a command, with its errors and nothing else in the terminal; one that is there is used, with these settings."""
    lacking = missing_java()
    if lacking:
        raise PenstockError(lacking)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the workers
    options: dict[str, Any] = {**_QUIET, **_PATIENT, **(settings or {})}
    options[_FLAGS] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {options.get(_FLAGS, '')}".strip()
    builder = SparkSession.builder.appName(name).config(map=options)
    builder = builder if master is None else builder.master(master)
    is_new = SparkSession.getActiveSession() is None
    try:
        with saying("starting Spark"), without_preamble() if is_new else nullcontext():
            return builder.getOrCreate()
    except (PySparkRuntimeError, OSError) as error:
        raise PenstockError(f"Spark does not start: {first_line(error)}") from error


def quiet_session() -> SparkSession:
    """The session that there is, or a new one without Spark's own pages."""
    return SparkSession.getActiveSession() or start_session("penstock", {"spark.ui.enabled": "false"})


def silence(spark: SparkSession) -> None:
    """Have a session log nothing any more: a query that is stopped in the middle of a batch complains at length."""
    spark.sparkContext.setLogLevel("OFF")


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
    place = str(Path(__file__).parents[3])
    if is_remote() or not os.path.isfile(place):
        return
    variables = spark.sparkContext.environment
    known = variables.get("PYTHONPATH", "").split(os.pathsep)
    if place not in known:
        variables["PYTHONPATH"] = os.pathsep.join([*filter(None, known), place])
