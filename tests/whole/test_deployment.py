"""docs/deployment.md on a standalone cluster: the package is sent with the job, and not installed where it runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from chaos_input import exact, settled, sink, written
from clusters import cluster
from places import SUPPORT
from sparks import ON_SPARK
from wheels import alone, built, environment

pytestmark = [*ON_SPARK, pytest.mark.slow]


def test_a_package_that_is_sent_with_the_job(tmp_path):
    wheel = built(tmp_path)
    python = environment(tmp_path / "env", wheel, ("spark",), installed=False)
    home = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "env")})) / "pyspark"
    sent = shutil.copy(wheel, tmp_path / "penstock.zip")  # Spark takes no file that ends in .whl
    folder = written(tmp_path / "job", "prob", 6)
    variables = alone(PYSPARK_PYTHON=str(python), SPARK_LOCAL_IP="127.0.0.1")
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster", home, variables) as (url, _):
        job = shutil.copy(SUPPORT / "deployed_job.py", tmp_path)
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        settings = {"spark.executor.memory": "512m", "spark.ui.enabled": "false", "spark.executor.extraJavaOptions": quick}
        settings["spark.executorEnv.NUMBA_CACHE_DIR"] = str(tmp_path / "kept")  # as on a machine that has no code
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = [str(home / "bin" / "spark-submit"), "--master", url, "--py-files", str(sent), *options, str(job), str(folder)]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[:3000]}\n...\n{done.stderr[-3000:]}"
    places = json.loads((folder / "places.json").read_text())
    assert len(places) > 1 and all("/penstock.zip/penstock/" in place for place in places), places
    assert any(str(tmp_path / "cluster") in place for place in places), places  # a worker's own copy
    assert len(list((tmp_path / "kept").glob("kernels-*/kernels-*.zip"))) == 1  # that of the driver was taken
    emitted, owed = sink(folder), settled(folder)
    assert emitted + owed == exact(folder, "prob") and emitted and owed
