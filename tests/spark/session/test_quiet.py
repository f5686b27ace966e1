"""What Spark's Java process says reaches the user, but for chatter and for what is said in one sentence elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from penstock.spark.session.quiet import without_preamble

LOG = """\
Setting default log level to "WARN".
14:07:20 ERROR Utils: Aborting task
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
penstock.core.errors.PenstockError: the checkpoint was made with other settings
\tat org.apache.spark.api.python.BasePythonRunner
14:07:20 ERROR FileFormatWriter: Job: job_1, Task: task_2 aborted.
14:07:21 ERROR TaskSetManager: Task 0 in stage 1.0 failed 1 times; aborting job
01:31:01 ERROR TaskSetManager: [queryId = 631b1] [batchId = 2] Task 1 in stage 1.0 failed 1 times; aborting job
14:07:21 ERROR Executor: Exception in task 3
java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream
26/11/17 14:07:22 WARN Other: something else
"""


def test_entries_of_the_log_about_errors_of_ours_stay_behind(tmp_path: Path):
    """In a process of its own, whose stderr is a file: that of pytest is not."""
    (tmp_path / "log").write_text(LOG)
    code = (
        "import subprocess, sys, time; from penstock.spark.session.quiet import without_preamble\n"
        "with without_preamble(): subprocess.run(['cat', sys.argv[1]], stdout=2)\n"
        "time.sleep(2)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "log")], capture_output=True, text=True, check=True)
    kept = [line for line in LOG.splitlines(keepends=True) if any(word in line for word in ("task 3", "IOException", "FileOutput", "else"))]
    assert done.stderr == "".join(kept)


def test_our_own_errors_are_ours_again_afterwards(capfd):
    with without_preamble():
        pass
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"
