"""A cluster of Spark's own on this machine: one master and two workers, as processes on loopback."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from chaos import children, kill

_QUICK = {"SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "SPARK_DAEMON_MEMORY": "256m"}


@contextmanager
def cluster(folder: Path, home: Path, variables: Mapping[str, str]) -> Iterator[tuple[str, list[int]]]:
    """Start the Spark in `home` with these environment variables: the address of the master, and the ids of the processes."""
    environment = {**variables, **_QUICK, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder)}
    running: list[subprocess.Popen[bytes]] = []

    def begin(name: str, says: str, *command: str) -> re.Match[str]:
        log = folder / f"{name}.log"
        with log.open("wb") as file:
            whole = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{command[0]}", "--webui-port", "0", *command[1:]]
            running.append(subprocess.Popen(whole, env=environment, stdout=file, stderr=subprocess.STDOUT))
        for _ in range(6000):
            found = re.search(says, log.read_text())
            if found:
                return found
            assert running[-1].poll() is None, log.read_text()
            time.sleep(0.02)
        raise AssertionError(log.read_text())

    try:
        url = begin("master", r"spark://127\.0\.0\.1:\d+", "master.Master", "--host", "127.0.0.1", "--port", "0")[0]
        for name in ("one", "two"):
            begin(name, "Successfully registered", "worker.Worker", "--cores", "1", "--memory", "1g", url)
        yield url, [process.pid for process in running]
    finally:
        for process in running:
            for pid in [process.pid, *(child for child, _ in children(process.pid))]:
                kill(pid)
            process.wait(60)
