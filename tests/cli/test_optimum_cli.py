"""`penstock optimum` and `--policy opt` from outside: what they print, what they write, what they refuse."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli import run
from penstock.core.problem import Problem
from penstock.optimum.size import size_chain, size_class

JOIN = ("--window", "6", "--memory", "3")


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "trace.parquet"
    ps.generate(40, keys=5, importance="rare", seed=3).write(path)
    return path


@pytest.fixture(scope="module")
def three_streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "three.parquet"
    ps.generate(60, streams=("R", "S", "T"), keys=3, seed=3).write(path)
    return path


def asked(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Any:
    status = run([*map(str, arguments), "--format", "json"])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return json.loads(captured.out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """The one line of an error."""
    assert run([*map(str, arguments)]) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if not line.startswith("note:")]
    assert captured.out == "" and len(lines) == 1 and lines[0].startswith("penstock: ")
    return lines[0]


def test_json_is_one_object_with_what_the_library_finds(capsys, trace_file):
    trace = ps.read_trace(trace_file)
    for options, same in (
        ([], {}),
        (["--objective", "count", "--allocation", "fixed"], {"objective": "count", "allocation": "fixed"}),
        (["--model", "inplace", "--start", "20"], {"model": "inplace", "start": 20}),
        (["--predicate", "!=", "--least"], {"predicate": "!=", "goal": "min"}),
    ):
        got = asked(capsys, "optimum", trace_file, *JOIN, *options)
        found = ps.optimum(trace, window=6, memory=3, **same)
        assert got.keys() >= {"value", "method", "seconds", "n_output"}
        assert {name: got[name] for name in ("value", "method", "n_output", "goal")} == {
            name: getattr(found, name) for name in ("value", "method", "n_output", "goal")
        }


def test_opt_is_a_policy_of_simulate(capsys, trace_file):
    runs = asked(capsys, "simulate", trace_file, *JOIN, "--policy", "opt,prob,fifo")
    best = asked(capsys, "optimum", trace_file, *JOIN)
    assert [run["policy"] for run in runs] == ["opt", "prob", "fifo"]
    assert (runs[0]["value"], runs[0]["n_output"]) == (best["value"], best["n_output"])
    assert runs[0]["value"] >= max(run["value"] for run in runs) and runs[0]["peak_memory"] <= 3


def test_the_estimate_comes_first(capsys, trace_file):
    assert run(["optimum", str(trace_file), *JOIN, "--method", "states"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("note: states: some ") and "MiB" in captured.err
    assert "The optimum in a memory of 3 rows" in captured.out and "of exact value" in captured.out


def test_the_schedule_can_be_written_and_replayed(capsys, trace_file, tmp_path):
    got = asked(capsys, "optimum", trace_file, *JOIN, "--schedule", tmp_path / "schedule.csv")
    with (tmp_path / "schedule.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = ps.optimum(ps.read_trace(trace_file), window=6, memory=3)
    assert [int(row["row"]) for row in rows] == list(range(80)) and found.value == got["value"]
    assert [int(row["leaves"] or 2**63 - 1) for row in rows] == found.schedule.tolist()


def test_display_shows_the_memory_after_each_instant(capsys, trace_file):
    got = asked(capsys, "optimum", trace_file, *JOIN, "--display", "--method", "states")
    assert [state["time"] for state in got["states"]] == list(range(40))
    assert all(sum(map(len, state["memory"].values())) <= 3 for state in got["states"])
    assert sum(state["value"] for state in got["states"]) == pytest.approx(got["value"])
    assert sum(state["n_output"] for state in got["states"]) == got["n_output"]
    assert run(["optimum", str(trace_file), *JOIN, "--display"]) == 0
    assert "Memory after each instant" in capsys.readouterr().out


def test_the_optimum_through_a_relation(capsys, tmp_path):
    made, facts, plan = (tmp_path / name for name in ("trace.csv", "facts.parquet", "plan.csv"))
    assert run(["generate", str(made), "--n", "60", "--keys", "5", "--relation", str(facts), "--facts", "9", "--facts-active", "0.6"]) == 0
    capsys.readouterr()
    links = ("--link", "R.key = a", "--link", "b = S.key")
    through = ps.relation(facts, links=links[1::2])
    found = ps.optimum(ps.read_trace(made), window=6, memory=3, through=through)
    got = asked(capsys, "optimum", made, *JOIN, "--relation", facts, *links, "--verify", "--display", "--schedule", plan)
    assert (got["value"], got["n_output"], got["verified"]) == (found.value, found.n_output, True)
    filtered = ps.simulate(ps.read_trace(made), window=6, memory=3, policy="fifo", through=through).n_filtered
    assert got["n_filtered"] == filtered > 0
    assert sum(state["value"] for state in got["states"]) == found.value
    with plan.open() as file:
        assert [int(row["leaves"] or 2**63 - 1) for row in csv.DictReader(file)] == found.schedule.tolist()
    named = ("--link", "pairs: R.key = a", "--link", "pairs: b = S.key")
    told = ("--relation", f"pairs={facts}", *named, "--relation-end", "pairs=end", "--relation-begin", "begin")
    curve = asked(capsys, "optimum", made, *JOIN, *told, "--curve", "--exact")
    assert curve["curve"][2]["value"] == found.value and curve["n_filtered"] == filtered
    assert curve["exact_value"] == ps.exact(ps.read_trace(made), window=6, through=through).value
    run(["optimum", str(made), *JOIN, "--relation", str(facts), *links])
    said = capsys.readouterr().out
    assert "of exact" in said and "filtered" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--link", "R.key = a"], "--link says something of a relation and needs --relation"),
        (["--relation", "f.csv"], "--link must say what relation f links"),
        (["--relation", "f.csv", "--link", "R.key = a", "--link", "b = S.key"], "there is no file 'f.csv'"),
        (["--relation", "f.csv", "--schedule", "f.csv"], "--relation and --schedule must be different files"),
    ],
)
def test_bad_options_of_relations_are_refused_in_one_line(capsys, trace_file, options, message):
    assert message in refused(capsys, "optimum", trace_file, *JOIN, *options)


def test_the_curve_is_the_optimum_at_each_size(capsys, trace_file, tmp_path):
    got = asked(capsys, "optimum", trace_file, "--window", "6", "--memory", "3", "--curve", "--sizes", "1,3", "--plot", tmp_path / "c.svg")
    trace = ps.read_trace(trace_file)
    assert [(p["memory"], p["value"]) for p in got["curve"]] == [(m, ps.optimum(trace, window=6, memory=m).value) for m in (1, 3)]
    assert "The optimum by memory" in (tmp_path / "c.svg").read_text()
    whole = asked(capsys, "optimum", trace_file, *JOIN, "--curve")["curve"]
    assert [point["memory"] for point in whole] == [1, 2, 3]
    assert run(["optimum", str(trace_file), *JOIN, "--curve"]) == 0
    assert "of exact" in capsys.readouterr().out


def test_ample_memory_gives_the_exact_result_and_says_so(capsys, trace_file):
    got = asked(capsys, "optimum", trace_file, "--window", "6", "--memory", "100", "--exact")
    assert (got["method"], got["recall"], got["value_recall"]) == ("exact", 1, 1)
    assert run(["optimum", str(trace_file), "--window", "6", "--memory", "100"]) == 0
    assert "the optimum is the exact result" in capsys.readouterr().out


def test_three_streams_too_large_for_an_answer_get_a_bound_that_says_so(capsys, three_streams):
    join = ("--window", "16", "--memory", "16")
    got = asked(capsys, "optimum", three_streams, *join)
    assert (got["method"], got["exact"], got["n_output"]) == ("bound", False, None)
    assert run(["optimum", str(three_streams), *join]) == 0
    captured = capsys.readouterr()
    assert "An upper bound" in captured.out and "too large for an exact answer" in captured.err
    assert "'auto' gives an upper bound" in refused(capsys, "optimum", three_streams, *join, "--method", "states")
    assert "opt has no schedule" in refused(capsys, "simulate", three_streams, *join, "--policy", "opt").replace("'", "")
    assert "upper bound" in refused(capsys, "optimum", three_streams, *join, "--display")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "flow"], "method must be one of auto"),
        (["--limit", "12"], "limit must be a size"),
        (["--plot", "c.png"], "--plot belongs to --curve"),
        (["--sizes", "1,2"], "--sizes belongs to --curve"),
        (["--curve", "--verify"], "--curve gives values for many memories"),
        (["--curve", "--sizes", "0"], "--sizes must be a whole number >= 1"),
        (["--schedule", "s.txt"], "--schedule must be a file that ends in"),
        (["--policy", "prob"], "no such option"),
    ],
)
def test_bad_options_are_refused_in_one_line(capsys, trace_file, options, message):
    assert message in refused(capsys, "optimum", trace_file, *JOIN, *options)


def test_a_curve_needs_one_memory(capsys, trace_file):
    for memory in ("R=2,S=3", "0:3,20:5"):
        assert "a curve needs one memory" in refused(capsys, "optimum", trace_file, "--window", "6", "--memory", memory, "--curve")


def test_a_trace_out_of_order_is_refused(capsys, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("stream,time,key\nR,3,1\nS,1,1\n")
    assert "in order of time" in refused(capsys, "optimum", path, *JOIN)
    assert "in order of time" in refused(capsys, "simulate", path, *JOIN, "--policy", "prob,opt")


@pytest.mark.parametrize("method", ["class", "chain", "states"])
def test_verify_proves_the_answer_by_prices(capsys, trace_file, method):
    options = (*JOIN, "--objective", "count", "--method", method)
    got = asked(capsys, "optimum", trace_file, *options, "--verify")
    assert (got["verified"], got["bound"], got["faults"]) == (True, got["value"], [])
    assert run(["optimum", str(trace_file), *options, "--verify"]) == 0
    assert "Verified: " in capsys.readouterr().out


def test_an_answer_that_cannot_be_proven_ends_with_status_1(capsys, trace_file, monkeypatch):
    from penstock.optimum import certificate

    real = certificate.verify
    monkeypatch.setattr(certificate, "verify", lambda trace, problem, found: real(trace, problem, replace(found, value=found.value + 1)))
    assert run(["optimum", str(trace_file), *JOIN, "--objective", "count", "--verify"]) == 1
    assert "NOT verified: the schedule is worth" in capsys.readouterr().out


def test_there_is_no_proof_of_the_least_value_or_of_a_bound(capsys, trace_file, three_streams):
    assert "there is none: a flow finds the largest" in refused(capsys, "optimum", trace_file, *JOIN, "--least", "--verify")
    assert "no flow" in refused(capsys, "optimum", three_streams, "--window", "16", "--memory", "16", "--verify")


def test_a_method_that_does_not_apply_names_one_that_does(capsys, trace_file, three_streams):
    assert "depend on the importance" in refused(capsys, "optimum", trace_file, *JOIN, "--method", "class")
    assert "use method 'states'" in refused(capsys, "optimum", trace_file, *JOIN, "--method", "chain", "--least")
    assert "several stored tuples at once" in refused(capsys, "optimum", three_streams, *JOIN, "--method", "chain")


def test_what_would_not_fit_is_refused_with_what_would(capsys, trace_file):
    trace = ps.read_trace(trace_file)
    problem = Problem.of(trace.streams, window=30, memory=3, objective="count", has_importance=True)
    chain, least = size_chain(trace, problem), size_class(trace, problem)
    assert least.n_bytes + 1000 < chain.n_bytes
    join = ("--window", "30", "--memory", "3", "--objective", "count")
    message = refused(capsys, "optimum", trace_file, *join, "--method", "chain", "--limit", f"{chain.n_bytes - 1} B")
    assert f"some {chain.n_nodes:,} nodes, {chain.n_arcs:,} arcs" in message and "use method 'class'" in message
    assert asked(capsys, "optimum", trace_file, *join, "--limit", f"{chain.n_bytes - 1} B")["method"] == "class"
    assert "use a shorter trace" in refused(capsys, "optimum", trace_file, *join, "--limit", "1 kB")
