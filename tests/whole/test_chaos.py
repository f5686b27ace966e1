"""Killed at random moments, a join goes on: what it emits, owes and reports is what it would have been in a run that nobody disturbed.

`make test-all` kills a worker and the driver of one query and an executor of a cluster, `make chaos` more than forty
processes: drivers, Python workers, executors, and those that settle beside the query.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark")

import chaos_job
import penstock as ps
from chaos import LOCAL, PATIENCE, Job, disturbed, kill_all, last, patience, run, told
from chaos_input import QUERIES, START, STEP, exact, exact_through, facts_by, settled, sink, totals, written
from clusters import cluster
from penstock.relation.history import History
from penstock.relation.record import record
from sparks import ON_SPARK

pytestmark = ON_SPARK
SHORT, LONG = 7, 20


@pytest.fixture(scope="module")
def calm(spark, tmp_path_factory):
    """What a run that nobody disturbs emits and reports."""
    known = {}

    def run(query: str, batches: int):
        if (query, batches) not in known:
            folder = written(tmp_path_factory.mktemp("calm"), query, batches)
            running = chaos_job.started(spark, folder, query)
            chaos_job.followed(running, folder)
            assert running.exception() is None
            known[query, batches] = sink(folder), totals(folder)
        return known[query, batches]

    return run


def is_whole(folder: Path, query: str) -> bool:
    """Every output once, emitted or settled, and enough of both that either could have gone wrong."""
    emitted, owed, wanted = sink(folder), settled(folder), exact(folder, query)
    both = emitted + owed
    missing, extra = wanted - both, both - wanted
    assert (missing.total(), extra.total()) == (0, 0), (sorted(missing)[:3], sorted(extra)[:3])
    return emitted.total() > wanted.total() // 10 and owed.total() > wanted.total() // 10


def settle(spark, folder: Path) -> None:
    ps.settle(str(folder / "archive"), checkpoint=str(folder / "checkpoint"), to=str(folder / "settled"), spark=spark)


@pytest.mark.slow
def test_the_death_of_a_worker_and_of_the_driver_changes_nothing(spark, calm, tmp_path):
    folder = written(tmp_path, "prob", SHORT)
    assert disturbed(Job(folder, "prob"), 0, [(1, "worker"), (3, "driver")]) == {"worker": 1, "driver": 1}
    settle(spark, folder)
    assert is_whole(folder, "prob")
    assert (sink(folder), totals(folder)) == calm("prob", SHORT)


@pytest.mark.slow
def test_deaths_while_a_relation_changes_lose_and_double_nothing(spark, tmp_path):
    folder = written(tmp_path, "through", SHORT)
    history = folder / QUERIES["through"].through

    def grow(batch: int) -> None:  # what becomes known has begun before rows that are played
        record(facts_by(batch), history, keys=["a", "b"], time=START + dt.timedelta(seconds=max(0, STEP * batch - 17)))

    grow(0)

    def follow() -> None:
        for batch in range(SHORT - 1):
            with patience(f"batch {batch}") as wait:
                while last(folder, "offsets") < batch:
                    wait()
            grow(batch + 1)

    growth = threading.Thread(target=follow, daemon=True)
    growth.start()
    assert disturbed(Job(folder, "through"), 0, [(1, "worker"), (3, "driver"), (5, "driver")]) == {"worker": 1, "driver": 2}
    growth.join(PATIENCE)
    settle(spark, folder)
    begun = History(history).facts().select(["a", "b", "begin"]).to_pylist()
    facts = [(one["a"], one["b"], one["begin"] and round(one["begin"].timestamp() * 1_000_000)) for one in begun]
    emitted, owed, wanted = sink(folder), settled(folder), exact_through(folder, facts)
    assert emitted + owed == wanted and set(wanted.values()) == {1}
    assert min(emitted.total(), owed.total()) > wanted.total() // 10 and totals(folder)["total_n_late_facts"] > 0


EVENTS = [(2, "worker"), (4, "driver"), (6, "worker"), (8, "driver"), (11, "worker"), (14, "driver"), (16, "worker")]
DEATHS = {
    "prob": [(1, "before the rows"), (7, "among the rows"), (12, "1.0")],
    "ep": [(2, "after the rows"), (6, "0.5"), (12, "before the mark")],
    "three": [(1, "among the rows"), (8, "2.0"), (13, "amid the marks")],
}


@pytest.mark.chaos
@pytest.mark.parametrize("query", DEATHS)
def test_many_deaths_beside_a_settlement_that_never_rests_change_nothing(calm, tmp_path, query):
    folder = written(tmp_path, query, LONG)
    killed = disturbed(Job(folder, query), 1, EVENTS, DEATHS[query], settle=True)
    assert killed == {"worker": 4, "driver": 3, "settlement": 3}
    assert is_whole(folder, query)
    assert (sink(folder), totals(folder)) == calm(query, LONG)


def status(script: str, folder: Path, *arguments: object) -> int:
    """How a process ended that was left alone."""
    process = run(script, folder, *arguments)
    try:
        return process.wait(PATIENCE)
    finally:
        kill_all(process)


@pytest.mark.chaos
def test_a_division_into_other_shards_that_is_killed_is_completed_or_has_not_begun(spark, tmp_path):
    folder, dead = written(tmp_path, "prob", 14), -signal.SIGKILL
    chance = Random("reshard")

    def play_until(batch: int, shards: int) -> None:
        """Kill the driver in the midst of a batch: pages of it are there, and it is not committed."""
        job = Job(folder, "prob", shards=shards)
        try:
            job.until(batch)
            time.sleep(chance.uniform(0.0, 1.0))
        finally:
            kill_all(job.process)

    play_until(3, shards=4)
    assert status("chaos_reshard", folder, 2, "before") == dead
    play_until(6, shards=4)
    assert status("chaos_reshard", folder, 2, "between") == dead
    assert status("chaos_job", folder, "prob", LOCAL, 2) == 3
    assert "run the same `penstock reshard` again" in told("chaos_job", folder)
    assert status("chaos_reshard", folder, 2) == 0, told("chaos_reshard", folder)
    play_until(9, shards=2)
    assert status("chaos_reshard", folder, 3, "after") == dead
    assert disturbed(Job(folder, "prob", shards=3), 3, [(11, "driver")]) == {"driver": 1}
    settle(spark, folder)
    assert is_whole(folder, "prob")


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """The address of a cluster, and the parents of its executors."""
    import pyspark

    with cluster(tmp_path_factory.mktemp("cluster"), Path(pyspark.__file__).parent, os.environ) as found:
        yield found


@pytest.mark.parametrize(
    ("query", "events"),
    (
        pytest.param("three", [(2, "executor")], marks=pytest.mark.slow),
        pytest.param("ep", [(2, "executor"), (5, "executor"), (7, "driver"), (9, "executor"), (12, "executor")], marks=pytest.mark.chaos),
    ),
)
def test_the_death_of_executors_changes_nothing(spark, calm, workers, tmp_path, query, events):
    """Executors are children of the cluster's workers, not of the driver."""
    url, parents = workers
    batches = SHORT if len(events) == 1 else LONG
    folder = written(tmp_path, query, batches)
    assert disturbed(Job(folder, query, url), 2, events, parents=parents) == Counter(who for _, who in events)
    settle(spark, folder)
    assert is_whole(folder, query)
    assert (sink(folder), totals(folder)) == calm(query, batches)
