"""Killed at random moments, a join goes on: sink, ledger and metrics are those of a run that nobody disturbed.

`make test` kills a driver and a worker, `make test-all` an executor too, `make chaos` thirty times: the driver, a Python worker, and an
executor of a cluster of two workers.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from sparks import ON_SPARK, SCHEMA, at

pytestmark = ON_SPARK
JOB = Path(__file__).parent / "chaos_job.py"
BATCHES = 10


@pytest.fixture(scope="module")
def calm(spark, tmp_path_factory) -> Path:
    """The input, and a run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("calm")
    chance = random.Random("chaos")
    for side in "lr":
        (folder / side).mkdir()
        for number in range(BATCHES):
            rows = [(at(number * 10 + chance.randrange(10)), chance.choice("aaabbcdef"), f"{side}{number}.{i}") for i in range(60)]
            draft = folder / f"draft-{side}{number}"
            spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(str(draft))
            (file,) = draft.glob("*.parquet")
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
            file.rename(folder / side / f"{number:03}.parquet")
    with start(folder) as job:
        assert job.wait(600) == 0, job.stdout.read().decode()
    return folder


def start(folder: Path, master: str = "local[2,4]") -> Any:
    command = [sys.executable, str(JOB), str(folder), master]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)


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


def victims(job: Any, who: str) -> list[int]:
    below = children(job.pid)
    if who == "driver":
        return [job.pid, *(child for child, _ in below)]
    wanted = {"worker": "pyspark.daemon", "executor": "CoarseGrainedExecutorBackend"}[who]
    return [child for child, command in below if wanted in command]


def disturbed(folder: Path, who: str, seed: int, master: str = "local[2,4]", kills: int = 1) -> int:
    """Run the job to its end, killing `who` at random moments; how often that was done."""
    chance = random.Random(f"{who} {seed}")
    done = 0
    for _ in range(12):
        job = start(folder, master)
        try:
            if done < kills:
                job.stdout.readline()  # started
                while not victims(job, who) and job.poll() is None:
                    time.sleep(0.1)
                time.sleep(chance.uniform(0.0, 6.0))
                found = victims(job, who)
                if found and job.poll() is None:
                    for pid in found if who == "driver" else [chance.choice(found)]:
                        kill(pid)
                    done += 1
            job.wait(300)
            if job.returncode == 0:
                return done
        finally:
            for pid in [job.pid, *(child for child, _ in children(job.pid))]:
                kill(pid)
            job.wait(60)
            job.stdout.close()
    raise AssertionError("the job did not end")


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def sink(folder: Path) -> Counter[Any]:
    """The rows that a reader of the sink sees: those of the files in its log."""
    log = folder / "out" / "_spark_metadata"
    files: set[str] = set()
    for entry in sorted((path for path in log.iterdir() if not path.name.startswith(".")), key=lambda path: int(path.name.split(".")[0])):
        lines = entry.read_text().splitlines()[1:]
        if entry.name.endswith(".compact"):
            files = set()
        files |= {json.loads(line)["path"] for line in lines}
    found: Counter[Any] = Counter()
    for name in files:
        table = pq.read_table(folder / "out" / Path(name).name)
        found.update(zip(*(table[column].to_pylist() for column in table.column_names), strict=True))
    return found


def ledger(folder: Path) -> dict[str, Any]:
    """What the files of the ledger say, by batch and shard."""
    out = {}
    for path in sorted((folder / "archive").glob("*/batches/*.parquet")):
        table = pq.read_table(path)
        out[path.name] = Counter(tuple(sorted(row.items(), key=str)) for row in map(_hashable, table.to_pylist()))
    return out


def _hashable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def totals(folder: Path) -> dict[str, Any]:
    """What the last batch said of the life of the query."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = max(lines, key=lambda line: (line["batch"], line["total_n_input"]))
    return {name: value for name, value in last.items() if name.startswith(("total_", "retained_", "batch"))}


def compare(calm: Path, folder: Path) -> None:
    assert sink(folder) == sink(calm)
    assert ledger(folder) == ledger(calm)
    assert totals(folder) == totals(calm)


def copy_of(calm: Path, folder: Path) -> Path:
    for side in "lr":
        shutil.copytree(calm / side, folder / side)  # with the times of the files, which order them
    return folder


@pytest.mark.parametrize("who", ("driver", "worker"))
def test_a_kill_changes_nothing(calm, tmp_path, who):
    folder = copy_of(calm, tmp_path)
    assert disturbed(folder, who, seed=0, kills=1) == 1
    compare(calm, folder)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(1, 13))
@pytest.mark.parametrize("who", ("driver", "worker"))
def test_many_kills_change_nothing(calm, tmp_path, who, seed):
    folder = copy_of(calm, tmp_path)
    assert disturbed(folder, who, seed) >= 1
    compare(calm, folder)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A master and two workers of Spark's own, on this machine."""
    import pyspark

    home = Path(pyspark.__file__).parent
    folder = tmp_path_factory.mktemp("cluster")
    port = 17077 + os.getpid() % 1000
    begin = [str(home / "bin" / "spark-class")]
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder)}
    url = f"spark://127.0.0.1:{port}"
    commands = [["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    commands += [["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", url] for _ in "ab"]
    running = []
    for command in commands:
        running.append(subprocess.Popen([*begin, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(5)
    yield url, running
    for process in running:
        for pid in [process.pid, *(child for child, _ in children(process.pid))]:
            kill(pid)
        process.wait(60)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow if seed == 0 else pytest.mark.chaos) for seed in range(6)])
def test_the_death_of_an_executor_changes_nothing(calm, cluster, tmp_path, seed):
    """Executors are children of the cluster's workers, not of the driver."""
    url, running = cluster
    folder = copy_of(calm, tmp_path)
    chance = random.Random(seed)
    job = start(folder, url)
    job.stdout.readline()
    time.sleep(chance.uniform(2.0, 10.0))
    found = [child for process in running for child, command in children(process.pid) if "CoarseGrainedExecutorBackend" in command]
    assert found
    kill(chance.choice(found))
    job.wait(300)
    job.stdout.close()
    if job.returncode:
        assert disturbed(folder, "driver", seed, url, kills=0) == 0
    compare(calm, folder)
