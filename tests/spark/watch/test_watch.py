"""`ps.watch`: what Prometheus scrapes and the page asks for is what the queries of a session report."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import penstock as ps
from penstock.cli import run
from places import ROOT

pytest.importorskip("pyspark")
from prometheus_client.parser import text_string_to_metric_families

from penstock.experiments.demo import SAMPLE
from penstock.spark.observe.metrics import OF_BATCH, OF_STATE
from penstock.spark.watch import Watch
from penstock.spark.watch.board import HOUR, SLOT, Board
from penstock.spark.watch.data import page_data
from penstock.spark.watch.exposition import exported
from sparks import ON_SPARK, SCHEMA, in_batches, joined, rows


def on_spark(test: Any) -> Any:
    for mark in ON_SPARK:
        test = mark(test)
    return test


def asked(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=30) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def scraped(served: Watch) -> dict[tuple[str, str], float]:
    """Every sample, by its name and its query and the stream it is of."""
    text = asked(f"{served.url}metrics")[2].decode()
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, sample.labels["query"] + sample.labels.get("stream", "")): sample.value for sample in found}


def until(found: Callable[[], Any]) -> Any:
    """The first answer that is true: what Spark's listener reports comes a moment later."""
    end = time.monotonic() + 60
    while not (answer := found()) and time.monotonic() < end:
        time.sleep(0.05)
    return answer


def metrics(n: int, *, lost: int = 0, **more: Any) -> dict[str, Any]:
    """A batch as a join reports it."""
    counts = dict.fromkeys(("n_input", "n_output", "n_shed", "n_late"), n) | {"lost": lost}
    totals = {"total_" + name: 10 * value for name, value in counts.items()}
    return counts | totals | {"retained_rows": 7, "budget_rows": 10, "total_recall": 0.5, "policy": "prob"} | more


def without_data() -> dict[str, Any]:
    """A batch for which Spark did not ask the join: it counts nothing, and what is held and the life of the query are not known."""
    return {name: 0 if name in ("n_input", "n_output", "n_shed", "n_late", "lost") else None for name in metrics(0)}


def batch(number: int, joins: dict[str, Any], *, at: float = 0.0, run: str = "1", rows: int = 5) -> SimpleNamespace:
    """A progress event; batches take two seconds and end `at` seconds after noon."""
    time = f"2026-01-01T{12 + int(at - 2) // 3600:02}:{int(at - 2) // 60 % 60:02}:{(at - 2) % 60:06.3f}Z"
    return SimpleNamespace(
        id="q", runId=run, batchId=number, timestamp=time, durationMs={"triggerExecution": 2000}, observedMetrics=joins, numInputRows=rows
    )


def ended(exception: str | None = None, run: str = "1") -> SimpleNamespace:
    return SimpleNamespace(id="q", runId=run, exception=exception)


def test_the_last_hour_is_kept_in_so_many_points_and_none_of_it_is_lost():
    board = Board()
    board.begin("q", "1", "a query")
    for number in range(9003):
        board.progressed(batch(number, {"a": metrics(2)}, at=number + 2.0))
    points = board.queries["q"].joins["a"].points
    assert len(points) == HOUR / SLOT and points[-1].time - points[0].time <= HOUR
    assert {point.batches for point in points} == {5} and all(point.sums["n_shed"] == 10 for point in points)


def test_a_query_stops_fails_and_starts_again():
    board = Board()
    board.begin("q", "1", None)
    (shown,) = json.loads(page_data(board))["queries"]
    assert (shown["name"], shown["state"], shown["joins"]) == ("q", "running", [])
    board.progressed(batch(0, {"a": metrics(2)}))
    board.ended(ended("org.Exception: job aborted\nPenstockError: memory must be larger\n at java"))
    assert (board.queries["q"].state, board.queries["q"].error) == ("failed", "memory must be larger")
    board.begin("q", "2", "named")
    board.ended(ended())  # of the run before, told late
    board.progressed(batch(1, {"a": metrics(2)}, run="1"))
    board.progressed(batch(1, {"a": metrics(3)}, run="2", at=20.0))
    assert board.queries["q"].state == "running" and [point.sums["n_input"] for point in board.queries["q"].joins["a"].points] == [2, 3]
    board.ended(ended(run="2"))
    assert board.queries["q"].state == "stopped"


def test_what_spark_did_not_ask_the_join_for_is_that_of_the_batch_before():
    board = Board()
    board.begin("q", "1", None)
    board.progressed(batch(0, {"a": without_data()}))
    assert not board.queries["q"].joins and json.loads(page_data(board))
    board.progressed(batch(1, {"a": metrics(2)}))
    board.progressed(batch(2, {"a": without_data()}, at=20.0))
    join = board.queries["q"].joins["a"]
    assert join.numbers == {name: 0 if value == 0 else metrics(2)[name] for name, value in without_data().items()}
    assert join.held == 7 and len(join.points) == 1


def test_a_query_without_a_join_is_not_shown():
    board = Board()
    board.begin("q", "1", None)
    board.progressed(batch(0, {}, rows=0))
    assert board.queries
    board.progressed(batch(0, {"other": {"rows": 3}}))
    assert not board.queries


def test_only_so_many_queries_that_have_ended_are_kept():
    board = Board()
    for number in range(200):
        board.begin(str(number), "1", None)
        board.ended(SimpleNamespace(id=str(number), runId="1", exception=None))
    assert len(board.queries) <= 51 and "199" in board.queries


def test_get_alone_is_answered_and_nothing_of_others_is_loaded():
    with Watch() as served:
        for path, kind in {"": "text/html", "data.json": "application/json", "metrics": "text/plain"}.items():
            status, headers, body = asked(served.url + path)
            assert status == 200 and headers["Content-Type"].startswith(kind) and headers["X-Content-Type-Options"] == "nosniff"
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy and "http" not in policy
            status, bare, nothing = asked(served.url + path, "HEAD")
            assert status == 200 and nothing == b"" and bare["Content-Type"] == headers["Content-Type"]
            assert path == "data.json" or bare["Content-Length"] == str(len(body))
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
            status, headers, _ = asked(served.url + "metrics", method)
            assert status == 405 and headers["Allow"] == "GET, HEAD"
        assert asked(served.url + "../secret")[0] == 404
    assert "http" not in (Path(ps.__file__).parent / "spark/watch/page.html").read_text().replace("http://www.w3.org/", "")


@pytest.mark.parametrize("host", ("localhost", "LOCALHOST:{port}", "localhost.", "127.0.0.1:{port}", "127.1.2.3", "[::1]:{port}", "[::1]"))
def test_a_request_to_this_machine_is_answered(host):
    with Watch() as served:
        assert asked(f"{served.url}data.json", Host=host.format(port=served.port))[0] == 200


@pytest.mark.parametrize(
    "host", ("rebound.example", "rebound.example:{port}", "localhost.rebound.example", "192.0.2.1", "[2001:db8::1]:{port}", "[::1", " ")
)
def test_a_page_of_others_cannot_read_it_under_a_name_of_theirs(host):
    """DNS rebinding: a name of theirs that suddenly stands for this machine."""
    with Watch() as served:
        for path in ("", "metrics", "data.json", "none"):
            status, headers, body = asked(served.url + path, Host=host.format(port=served.port))
            assert status == 403 and headers["X-Content-Type-Options"] == "nosniff"
            assert body == b"here the Host of a request must be localhost or a loopback address\n"
    with Watch(address="0.0.0.0") as served:  # others reach it by whatever name the machine has
        assert asked(f"{served.url}data.json", Host=host.format(port=served.port))[0] == 200


def test_a_port_that_is_taken_and_bad_ports_are_refused():
    with Watch() as served:
        assert served.url == f"http://127.0.0.1:{served.port}/"
        with pytest.raises(ps.PenstockError, match=f"port must be free, got {served.port}, where another program listens"):
            Watch(served.port)
    served.stop()
    Watch(served.port).stop()
    for port in (-1, 65536, "9108", True, 1.5, None):
        with pytest.raises(ps.PenstockError, match="port must be a whole number from 0"):
            Watch(port)
    with pytest.raises(ps.PenstockError, match="spark must be a Spark session, got 9108"):
        ps.watch(9108)
    for address in ("", "no.such.host.invalid", 7, "192.0.2.1"):
        with pytest.raises(ps.PenstockError, match="address must be one of this machine"):
            Watch(0, address)


class Session:
    """As much of a session as a server asks for."""

    def __init__(self) -> None:
        self.streams = SimpleNamespace(active=[], addListener=lambda listener: None)


def test_a_port_at_which_the_same_session_is_served_already_is_named_so():
    mine, other = Session(), Session()
    with ps.watch(mine) as served:
        with pytest.raises(ps.PenstockError) as refused:
            ps.watch(mine, served.port)
        assert str(refused.value) == (
            f"port must be free, got {served.port}, where this session is served already: see {served.url}, or stop() that server first"
        )
        with pytest.raises(ps.PenstockError, match="where another program listens"):
            ps.watch(other, served.port)
        with pytest.raises(ps.PenstockError, match="address must be one of this machine"):
            ps.watch(mine, served.port, address="no.such.host.invalid")
    ps.watch(mine, served.port).stop()


@pytest.mark.parametrize("file", ("grafana-dashboard.json", "prometheus-alerts.yml"))
def test_the_examples_ask_for_what_is_served(file):
    named = set(re.findall(r"penstock_[a-z_]+", (ROOT / "examples" / file).read_text()))
    every = dict.fromkeys([*OF_BATCH, *(f"total_{name}" for name in OF_BATCH), *OF_STATE], 1) | {"policy": "prob", "memory_l": 1}
    with Watch() as served:
        served._board.begin("q", "1", "a query")
        served._board.progressed(batch(0, {"a": every}))
        assert len(named) > 5 and named <= {name for name, _ in scraped(served)}


def test_the_docs_have_every_metric():
    text = (ROOT / "docs" / "spark.md").read_text()
    for name in [*OF_BATCH, *OF_STATE]:
        said = "`memory_<stream>`" if name == "memory_" else f"`{name}`"
        assert said in text or (name.startswith("value_recall_") and "`value_recall` ..." in text), name


@on_spark
def test_prometheus_and_the_page_get_what_progress_reports(spark, tmp_path):
    frames = [in_batches(spark, tmp_path / side, [rows(side, 60, seconds=30, seed=part) for part in range(2)]) for side in "lr"]
    writer = joined(*frames, memory=20, shards=2, name="small").writeStream.format("noop").queryName("few")
    with ps.watch(spark) as early:
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        told = ps.progress(query).joins["small"]
        known = {*OF_BATCH, *(f"total_{name}" for name in OF_BATCH), *OF_STATE}
        assert known - set(told) == {"budget_bytes", "min_recall", "memory_"} and set(told) - known == {"memory_l", "memory_r"}
        with ps.watch(spark) as late:
            for served in (early, late):
                found = until(lambda served=served: scraped(served) if ("penstock_n_input_total", "few") in scraped(served) else None)
                until(lambda served=served: scraped(served)["penstock_n_input_total", "few"] == told["total_n_input"] == 240)
                found = scraped(served)
                for metric, value in told.items():
                    stream = metric.removeprefix("memory_") if metric.startswith("memory_") else ""
                    assert metric == "policy" or found[exported(metric).name, "few" + stream] == value, metric
                assert found["penstock_query_running", "few"] == 1 and found["penstock_join_info", "few"] == 1
                assert found["penstock_budget_rows", "few"] == 20 and found["penstock_batch_seconds", "few"] > 0
                (shown,) = json.loads(asked(served.url + "data.json")[2])["queries"]
                assert shown["joins"][0]["numbers"] == told and sum(shown["joins"][0]["points"]["n_input"]) == 240
            query.stop()
            for served in (early, late):
                assert until(lambda served=served: scraped(served)["penstock_query_running", "few"] == 0)
                assert scraped(served)["penstock_n_input_total", "few"] == 240 and not scraped(served)["penstock_query_failed", "few"]


@pytest.mark.slow
@on_spark
def test_a_pipeline_says_where_it_can_be_watched(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    short = ["--set", "sources.shop.ticks=40", "--set", "sources.shop.ticks_per_batch=40", "--set", "sources.shop.rate=[3, 1]"]
    with Watch() as other:
        assert run(["run", str(SAMPLE), *short, "--metrics", str(other.port)]) == 2
    assert "port must be free" in capsys.readouterr().err
    assert run(["run", str(SAMPLE), *short, "--metrics", "nine"]) == 2
    assert "--metrics must be a port such as 9108, or an address and a port such as 0.0.0.0:9108, got 'nine'" in capsys.readouterr().err
    assert run(["run", str(SAMPLE), *short, "--metrics", "0"]) == 0
    assert re.search(r"note: watch it at http://127\.0\.0\.1:\d+/; Prometheus", capsys.readouterr().err)


@on_spark
def test_sparks_ui_has_the_steps_of_a_join_by_name(spark, capsys):
    left, right = (spark.createDataFrame(rows(side, 3), SCHEMA) for side in "lr")
    joined(left, right, name="clicks", condition="l_v <> r_v").explain("formatted")
    plan = capsys.readouterr().out
    for step in ("pack l", "pack r", "open", "close", "unpack"):
        assert f"Arguments: clicks: {step}(" in plan
