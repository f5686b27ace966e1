"""Without PySpark everything but Spark joins works, and those say in one line what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock as ps
from penstock.spark.session import presence
from places import ROOT

SAMPLE = ROOT / "examples" / "demo.toml"
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
NOTHING = ("pyspark", "pandas", "google")


def without(modules: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """What a process says in which these modules cannot be imported."""
    whole = [sys.executable, "-c", BLOCKED.format(modules=modules) + code]
    return subprocess.run(whole, capture_output=True, text=True, timeout=300, check=False)


def test_the_simulator_needs_no_pyspark(trace_file):
    done = without(
        NOTHING,
        "import penstock as ps\n"
        "from penstock import *\n"
        "from penstock import join\n"
        "run = ps.simulate(ps.Trace.from_streams(R='ab', S='ba'), window=2, memory=1, policy='fifo')\n"
        "print(run.peak_memory, hasattr(ps, 'join'), ps.settle.__name__)\n"
        "try:\n"
        "    join({}, on='k', memory=1)\n"
        "except ps.PenstockError as error:\n"
        "    print(error)\n"
        "from penstock.cli import run\n"
        f"sys.exit(run(['simulate', {str(trace_file)!r}, '--window', '9', '--memory', '9', '--policy', 'fifo', '--format', 'json']))\n",
    )
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert first == "1 True settle"
    assert second == "ps.join: Spark joins need PySpark 4.0 or newer, which is not installed: pip install 'penstock-spark[spark]'"


@pytest.mark.parametrize("modules", (("pyspark",), NOTHING))
def test_commands_on_spark_say_in_one_line_what_to_install(modules):
    done = without(modules, f"from penstock.cli import run\nsys.exit(run(['run', {str(SAMPLE)!r}]))")
    told = "penstock: Spark joins need PySpark 4.0 or newer, which is not installed: pip install 'penstock-spark[spark]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_a_pipeline_is_checked_without_pyspark():
    done = without(NOTHING, f"from penstock.cli import run\nsys.exit(run(['run', '--check', {str(SAMPLE)!r}]))")
    assert (done.returncode, done.stderr) == (0, "") and "no mistakes" in done.stdout


def test_what_pyspark_needs_beside_it_is_named():
    done = without(("google",), "import penstock as ps\nps.join({})")
    assert "ps.join: Spark joins need protobuf beside PySpark" in done.stderr.splitlines()[-1]


def test_an_old_pyspark_is_refused(monkeypatch):
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    with pytest.raises(ps.PenstockError, match=r"ps\.stream: Spark joins need PySpark 4\.0 or newer, got 3\.5\.9: pip install"):
        ps.stream(None, time="ts", window="1 hour")
    assert presence.missing_pyspark() is not None
