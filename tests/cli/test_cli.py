"""The command line from outside: what it prints."""

from __future__ import annotations

import json

import pytest

import penstock as ps
from commands import in_a_process, simulated, summed_up
from penstock.cli import run
from penstock.policies.table import POLICIES
from places import ROOT

SUMMARY = {"policy", "n_input", "n_output", "value", "n_shed", "n_expired", "peak_memory"}


# ------------------------------------------------------------------------------------------------------------- simulate


def test_json_has_one_object_per_policy_in_the_order_given(capsys, trace_file):
    runs = simulated(capsys, trace_file, "--window", "30", "--memory", "10", "--policy", "prob,fifo,simp")
    assert [run["policy"] for run in runs] == ["prob", "fifo", "simp"]
    assert all(run.keys() >= SUMMARY for run in runs)
    trace = ps.read_trace(trace_file)
    whole = ps.exact(trace, window=30)
    for got in runs:
        wanted = ps.simulate(trace, window=30, memory=10, policy=got["policy"])
        assert summed_up(got) == wanted.summary()
        assert (got["memory"], got["recall"], got["value_recall"]) == (10, wanted.n_output / whole.n_output, wanted.value / whole.value)
    bare = simulated(capsys, trace_file, "--window", "30", "--memory", "10", "--no-exact")
    assert [(run["recall"], run["value_recall"]) for run in bare] == [(None, None)]


def test_every_policy_of_the_table_can_be_named(capsys, trace_file):
    runs = simulated(capsys, trace_file, "--window", "30", "--memory", "10", "--policy", ",".join(POLICIES))
    assert [run["policy"] for run in runs] == list(POLICIES)


def test_auto_beside_what_it_is_would_be_named_twice(capsys, trace_file):
    assert run(["simulate", str(trace_file), "--window", "30", "--memory", "10", "--policy", "auto,learned"]) == 2
    assert "--policy must name each policy once, got 'learned' and 'auto', which it is here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (["--allocation", "fixed"], {"allocation": "fixed"}),
        (["--memory", "R=3,S=9"], {"memory": {"R": 3, "S": 9}}),
        (["--memory", "0:12,60:4"], {"memory": "0:12,60:4"}),
        (["--window", "R=10,S=40"], {"window": {"R": 10, "S": 40}}),
        (["--window", "rows:20", "--stats", "whole"], {"window": "rows:20", "stats": "whole"}),
        (["--window", "none", "--stats", "whole"], {"window": None, "stats": "whole"}),
        (["--stats", "window"], {"stats": "window"}),
        (["--stats", "decayed", "--half-life", "12.5"], {"stats": "decayed", "half_life": 12.5}),
        (["--stats", "sketch"], {"stats": "sketch"}),
        (["--objective", "sum"], {"objective": "sum"}),
        (["--start", "60"], {"start": 60}),
        (["--policy", "rand", "--seed", "9"], {"policy": "rand", "seed": 9}),
        (["--policy", "dgl", "--alpha", "4", "--beta", "0.5"], {"policy": "dgl", "alpha": 4.0, "beta": 0.5}),
        (["--policy", "additive", "--weights", "2,0.5,-1"], {"policy": "additive", "weights": (2.0, 0.5, -1.0)}),
        (["--model", "inplace"], {"model": "inplace"}),
        (["--clock", "streams", "--lateness", "R=5,S=0"], {"clock": "streams", "lateness": {"R": 5, "S": 0}}),
        (["--matches", "2"], {"matches": 2}),
        (["--matches", "S=1"], {"matches": {"S": 1}}),
        (["--ahead", "7"], {"ahead": 7}),
        (["--ahead", "7:drop"], {"ahead": (7, "drop")}),
        (["--predicate", "eps:1"], {"predicate": "eps:1"}),
        (["--predicate", "<"], {"predicate": "<"}),
        (
            ["--policy", "dgl", "--set", "dgl-init=simpprob", "--set", "mn=memory"],
            {"policy": "dgl", "switches": {"dgl-init": "simpprob", "mn": "memory"}},
        ),
        (
            ["--policy", "dgl", "--set", "dgl-init=simpprob,mn=memory"],
            {"policy": "dgl", "switches": {"dgl-init": "simpprob", "mn": "memory"}},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_option_means_what_the_argument_of_simulate_means(capsys, trace_file, options, arguments):
    given = [text for name, text in (("--window", "30"), ("--memory", "10")) if name not in options for text in (name, text)]
    (got,) = simulated(capsys, trace_file, *given, *options)
    assert summed_up(got) == ps.simulate(ps.read_trace(trace_file), **({"window": 30, "memory": 10} | arguments)).summary()


def test_given_rates_come_from_a_table(capsys, tmp_path, trace_file):
    trace = ps.read_trace(trace_file)
    rates = {(stream, key): (key * 7 + len(stream)) % 5 + 0.5 for stream in ("R", "S") for key in range(8)}
    file = tmp_path / "rates.csv"
    lines = [f"{stream},{key},{rate}" for (stream, key), rate in rates.items()]
    file.write_text("stream,key,rate\n" + "\n".join(lines) + "\n")
    options = ["--window", "30", "--memory", "10", "--stats", "given", "--rates", str(file)]
    (got,) = simulated(capsys, trace_file, *options)
    assert summed_up(got) == ps.simulate(trace, window=30, memory=10, stats="given", given=rates).summary()


def test_rates_may_have_a_key_of_several_columns(capsys, tmp_path):
    trace, rates = tmp_path / "trace.csv", tmp_path / "rates.csv"
    trace.write_text("stream,time,a,b\nR,0,1,x\nS,1,1,x\nR,1,2,y\nS,2,2,y\n")
    rates.write_text("stream,a,b,rate\nR,1,x,1\nS,1,x,1\nR,2,y,3\nS,2,y,4\n")
    options = ["--key", "a,b", "--window", "5", "--memory", "1", "--stats", "given", "--rates", str(rates)]
    (got,) = simulated(capsys, trace, *options)
    assert got["n_output"] == 2


def test_a_declared_stream_may_be_empty(capsys, tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("stream,time,key\nR,0,a\nR,1,a\n")
    (got,) = simulated(capsys, file, "--streams", "R,S", "--window", "5", "--memory", "1")
    assert (got["n_input"], got["n_output"], got["peak_memory"]) == (2, 0, 1)


def test_exact_adds_the_recall(capsys, trace_file):
    options = ["--window", "30", "--memory", "10", "--exact"]
    (got,) = simulated(capsys, trace_file, *options)
    trace = ps.read_trace(trace_file)
    whole, run = ps.exact(trace, window=30), ps.simulate(trace, window=30, memory=10)
    assert got["recall"] == pytest.approx(run.n_output / whole.n_output)
    assert got["value_recall"] == pytest.approx(run.value / whole.value)


def test_recall_compares_with_the_result_that_does_not_depend_on_order(capsys, tmp_path):
    file = tmp_path / "late.csv"
    # The window of 2 has passed when S's row of time 1 comes: under the global clock its partner is gone.
    file.write_text("stream,time,key\nR,0,a\nS,5,b\nS,1,a\n")
    (got,) = simulated(capsys, file, "--window", "2", "--memory", "9", "--exact")
    assert (got["n_output"], got["recall"]) == (0, 0.0)


def test_a_recall_without_outputs_is_null(capsys, tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("stream,time,key\nR,0,a\nS,0,b\n")
    (got,) = simulated(capsys, file, "--window", "2", "--memory", "9", "--exact")
    assert got["recall"] is None


def test_the_table_shows_the_share_of_the_exact_result(capsys, trace_file):
    arguments = ["simulate", str(trace_file), "--window", "30", "--memory", "10", "--policy", "prob,fifo"]
    assert run(arguments) == 0
    table = capsys.readouterr().out
    trace = ps.read_trace(trace_file)
    share = 100 * ps.simulate(trace, window=30, memory=10, policy="prob").n_output / ps.exact(trace, window=30).n_output
    assert "of exact" in table
    assert f"{share:.1f} %" in table
    assert run([*arguments, "--no-exact"]) == 0
    assert "of exact" not in capsys.readouterr().out


def test_times_that_decrease_are_said_once(capsys, tmp_path):
    file = tmp_path / "late.csv"
    file.write_text("stream,time,key\nR,5,a\nS,3,a\nR,6,b\nS,1,b\n")
    assert run(["simulate", str(file), "--window", "9", "--memory", "4", "--policy", "prob,fifo", "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("note: 2 rows are earlier than the row before them")
    assert captured.err.count("\n") == 1
    assert [run["n_output"] for run in json.loads(captured.out)] == [2, 2]


# ----------------------------------------------------------------------------------------- generate, policies, the rest


def test_generate_writes_what_the_function_makes(capsys, tmp_path):
    file = tmp_path / "trace.parquet"
    options = "--n 40 --streams A,B --keys 9 --skew A=1,B=0 --ranks correlated --rate 2,0.5 --burst 10:2:3 --disorder 4"
    rest = "--importance rare --groups 3 --top 50 --seed 5 --format json"
    assert run(["generate", str(file), *options.split(), *rest.split()]) == 0
    summary = json.loads(capsys.readouterr().out)
    expected = ps.generate(
        40, streams=("A", "B"), keys=9, skew=[1.0, 0.0], ranks="correlated", rate=[2.0, 0.5], burst="10:2:3",
        disorder=4, importance="rare", groups=3, top=50, seed=5,
    )  # fmt: skip
    assert ps.read_trace(file).table.equals(expected.table)
    assert summary["n_rows"] == len(expected)
    assert list(summary["streams"]) == ["A", "B"]
    assert sum(summary["streams"].values()) == len(expected)


def test_generate_says_what_it_wrote(capsys, tmp_path):
    file = tmp_path / "trace.csv"
    assert run(["generate", str(file), "--n", "1200"]) == 0
    assert capsys.readouterr().out == f"{file}: 2,400 rows (R 1,200, S 1,200), times 0 to 1,199\n"


def test_policies_lists_the_table(capsys):
    assert run(["policies", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["auto", *POLICIES]
    assert all(row.keys() == {"name", "summary", "needs", "paper"} for row in rows)
    assert run(["policies"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in POLICIES)


@pytest.mark.jit_only  # minutes without compilation
def test_demo_without_java_says_so_and_simulates(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    out = tmp_path / "new" / "folder"
    short = ["--set", "sources.shop.rate=[3, 1]", "--set", "sources.shop.keys=50", "--set", "join.memory=100"]
    assert run(["demo", "--out", str(out), "--seed", "1", *short]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("note: Spark needs Java 17 or newer, and JAVA_HOME is ") and captured.err.count("\n") == 1
    assert str(out / "demo.png") in captured.out
    assert "learned, simulated" in captured.out and "Dropping the oldest keeps" in captured.out
    assert sorted(path.name for path in out.iterdir()) == ["demo.html", "demo.png"]


def test_run_without_java_says_so(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    assert run(["run", str(ROOT / "examples" / "demo.toml")]) == 2
    assert "Spark needs Java 17 or newer" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["simulate", "generate", "policies", "demo", "run", "settle", "reshard", "bench core", "bench spark"])
def test_every_command_has_help_with_an_example(capsys, command):
    assert run([*command.split(), "--help"]) == 0
    assert f"Example: penstock {command}" in capsys.readouterr().out


def test_help_names_every_option_of_the_design(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    run(["simulate", "--help"])
    text = capsys.readouterr().out
    named = (
        "window memory policy allocation stats rates objective start seed alpha beta weights half-life model clock "
        "lateness ahead predicate cross set key streams time importance size shards batch outputs memory-log plot format exact no-exact"
    )
    assert [name for name in named.split() if f"--{name} " not in text] == []


def test_without_arguments_there_is_help(capsys):
    assert run([]) == 0
    assert "simulate" in capsys.readouterr().out
    assert run(["bench"]) == 0
    assert "core" in capsys.readouterr().out


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"penstock {ps.__version__}\n"


def test_a_shell_completes_commands_and_a_mistyped_one_gets_a_suggestion(capsys):
    done = in_a_process(_PENSTOCK_COMPLETE="complete_bash", COMP_WORDS="penstock sim", COMP_CWORD="1")
    assert (done.returncode, done.stdout.split()) == (0, ["simulate"])
    assert "--install-completion" in in_a_process("--help", COLUMNS="140").stdout
    assert run(["simulat"]) == 2
    assert "no such command 'simulat'. Did you mean 'simulate'?" in capsys.readouterr().err


def test_the_package_shows_what_it_has_for_users():
    assert set(ps.__all__) < set(dir(ps)) and not {"Any", "import_module"} & set(dir(ps))
    assert {"join", "stream", "settle", "debt", "progress", "explain", "truncate"} < set(ps.__all__)
    assert all(hasattr(ps, name) for name in dir(ps))
