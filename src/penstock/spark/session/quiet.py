"""Spark starts, without its preamble: what its Java process writes to stderr passes through us, and known chatter stays behind.

So do entries of its log about a task that failed with an error of ours: whoever runs the query says that in one sentence.
"""

from __future__ import annotations

import logging
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

_EXPRESSIONS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Who in PySpark logs an expression that cannot be analysed."""
_CHATTER = re.compile(
    r"\s*$|WARNING: Using incubator modules|Setting (default|Spark) log level|To adjust logging level"
    r"|(Starting )?Streaming TransformWithStateInPandas Python worker"
)


_ENTRY = re.compile(r"\d\d(/\d\d/\d\d \d\d)?:\d\d:\d\d [A-Z]+ ")
"""How an entry of the log begins: its other lines are a trace."""
_ABORTED = re.compile(
    r".*(FileFormatWriter: Job.* aborted|TaskSetManager: (\[[^]]*\] )*Task \d+ in stage \S+ failed \d+ times; aborting job)"
)
_OURS = "PenstockError: "
_IDLE = 0.5  # seconds without a line end an entry


@contextmanager
def unlogged() -> Iterator[None]:
    """In here PySpark prints no JSON about an expression that it refuses: who catches the error says it in a sentence."""
    loggers = [PySparkLogger.getLogger(name) for name in _EXPRESSIONS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


@contextmanager
def interruptible() -> Iterator[None]:
    """In here Ctrl-C raises KeyboardInterrupt and no more: PySpark would cancel its jobs over the connection that waits for them.

    That fails, and its trace is printed, as is the one that Py4J has for the interrupt; the jobs end with the session.
    """
    main = threading.current_thread() is threading.main_thread()  # no other thread may handle signals
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if main else None
    log = logging.getLogger()
    log.addFilter(_no_interrupt)
    try:
        yield
    finally:
        log.removeFilter(_no_interrupt)
        if main:
            signal.signal(signal.SIGINT, before)


def _no_interrupt(record: logging.LogRecord) -> bool:
    return not (record.exc_info and record.exc_info[0] is KeyboardInterrupt)


@contextmanager
def without_preamble() -> Iterator[None]:
    """Processes started in here write their stderr to us; all but the chatter goes on to ours, for as long as they live."""
    try:
        ours = os.dup(2)
    except OSError:  # no stderr, nothing to keep quiet
        yield
        return
    reading, writing = os.pipe()
    sys.stderr.flush()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, ours), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(ours, 2)


def is_chatter(line: str) -> bool:
    """Whether a line says nothing that a user could act on.

    >>> is_chatter('Setting default log level to "WARN".'), is_chatter("java.lang.OutOfMemoryError: Java heap space")
    (True, False)
    """
    return _CHATTER.match(line) is not None


def is_told_elsewhere(entry: str) -> bool:
    """Whether an entry of the log is about an error of ours, or only that a task was aborted.

    >>> is_told_elsewhere("14:07:20 ERROR Executor: Exception in task 1.0\\nPythonException: ...\\nPenstockError: memory must be")
    True
    """
    return _OURS in entry or _ABORTED.match(entry) is not None


def _pass_on(reading: int, to: int) -> None:
    entry, rest = "", b""

    def end() -> None:
        nonlocal entry
        if entry and not is_told_elsewhere(entry):
            os.write(to, entry.encode())
        entry = ""

    while True:
        if not select.select([reading], [], [], _IDLE)[0]:
            end()
            continue
        found = os.read(reading, 1 << 16)
        *lines, rest = (rest + found).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace")
            if _ENTRY.match(text) or not entry:
                end()
            if not is_chatter(text):
                entry += f"{text}\n"
        if not found:
            end()
            os.close(reading)
            return
