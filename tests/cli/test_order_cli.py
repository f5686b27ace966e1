"""`penstock order` and `ps.order_joins` from outside: what they show, and what they refuse."""

from __future__ import annotations

import json

import pytest

import penstock as ps
from penstock.cli import run
from penstock.core.errors import PenstockError
from places import ROOT

SAMPLE = ROOT / "examples" / "order.toml"


def order(capsys, *arguments: str) -> str:
    status = run(["order", *arguments])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out


def found(capsys, *arguments: str) -> dict:
    return json.loads(order(capsys, *arguments, "--format", "json"))


# ---------------------------------------------------------------------------------------------------------- what it shows


def test_the_sample_is_golabs_table_5(capsys):
    plan = found(capsys, str(SAMPLE))
    assert (plan["order"], plan["cost"], plan["worst_cost"], plan["n_candidates"]) == (["S1", "S2", "S3", "S4"], 16000, 86850, 24)
    assert {tuple(one["order"]): one["cost"] for one in plan["candidates"]}["S2", "S1", "S3", "S4"] == 19600
    assert plan["orders"]["S3"] == ["S3", "S1", "S2", "S4"]  # Golab, Table 4
    assert sum(plan["costs"].values()) == plan["cost"]


def test_candidates_come_as_a_table_and_the_plan_as_a_tree(capsys):
    shown = order(capsys, str(SAMPLE))
    lines = shown.splitlines()
    assert any(line.split()[:5] == ["S1,", "S2,", "S3,", "S4", "16,000"] for line in lines)
    assert "14 more considered (--all); mean 45,325, worst 86,850" in shown
    assert "└── new tuples of S4: 3 per tick, 6,000 comparisons" in lines
    assert "    └── S1 (scan: visits 1,000 of 1,000) where S1.key = S4.key: 6 per tick" in lines
    assert sum(line.count("86,850") for line in order(capsys, str(SAMPLE), "--all").splitlines()) == 2


def test_the_plan_has_a_text_of_its_own():
    lines = ps.order_joins({name: {"rate": 1, "window": 100, "distinct": 50} for name in "RS"}).text().splitlines()
    assert lines == [
        "eager: R, S; 200 comparisons per tick (exhaustive, 2 considered)",
        "├─ new tuples of R: 1 per tick, 100 comparisons",
        "│  └─ S (scan: visits 100 of 100) where R.key = S.key: 2 per tick",
        "└─ new tuples of S: 1 per tick, 100 comparisons",
        "   └─ R (scan: visits 100 of 100) where R.key = S.key: 2 per tick",
        "insertion 2 and expiration 31.2, in comparisons per tick",
    ]


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (["--strategy", "lazy", "--tau", "10"], {"strategy": "lazy", "tau": 10}),
        (["--strategy", "general", "--tau", "10", "--expire", "20"], {"strategy": "general", "tau": 10, "expire": 20}),
        (["--strategy", "naive"], {"strategy": "naive"}),
        (["--heuristic"], {"method": "heuristic"}),
        (["--per-stream"], {"per_stream": True}),
        (["--buckets", "40"], {"buckets": 40}),
        (["--memory", "128 KB"], {"memory": "128 KB"}),
    ],
)
def test_options_are_the_arguments_of_the_library(capsys, options, arguments):
    rows = [("S1", 10, 100, 500), ("S2", 1, 100, 50), ("S3", 1, 200, 40), ("S4", 3, 100, 5)]
    plan = ps.order_joins([ps.WindowStats(*row) for row in rows], **arguments)
    shown = found(capsys, str(SAMPLE), *options)
    assert (shown["cost"], shown["method"], shown["strategy"]) == (plan.cost, plan.method, plan.setting.strategy)
    assert {name: tuple(one) for name, one in shown["orders"].items()} == plan.orders
    assert shown["buckets"] == plan.buckets
    assert order(capsys, str(SAMPLE), *options)


def test_every_key_of_the_sample_is_understood(capsys, tmp_path):
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    spoken = [
        line.removeprefix("# ") if " = " in line.removeprefix("# ").partition("#")[0] or "[selectivity]" in line else line for line in lines
    ]
    # Two of them are alternatives to others.
    kept = [line for line in spoken if not line.startswith(("index =", "buckets = 48"))]
    (tmp_path / "all.toml").write_text("\n".join(kept), encoding="utf-8")
    plan = found(capsys, str(tmp_path / "all.toml"), "--strategy", "lazy")
    assert (plan["tau"], plan["expire"], plan["order"], plan["columns"]["S1"]) == (10, 10, None, ["key", "price"])
    assert sum(plan["buckets"].values()) > 8


def test_a_join_graph_with_columns_and_selectivities(capsys, tmp_path):
    file = tmp_path / "graph.toml"
    file.write_text(
        '[join]\non = ["R.a = S.a", "S.b = T.b"]\ncolumns = ["T.c"]\n'
        + "".join(f"[streams.{name}]\nrate = 1\nwindow = 10\ndistinct = {{ a = 5, b = 5 }}\n" for name in "RST")
        + '[selectivity]\n"R, S" = 0.5\n',
        encoding="utf-8",
    )
    plan = found(capsys, str(file), "--per-stream")
    assert plan["columns"] == {"R": ["a"], "S": ["a", "b"], "T": ["b", "c"]}
    assert plan["orders"] == {"R": ["R", "S", "T"], "S": ["S", "T", "R"], "T": ["T", "S", "R"]}
    assert plan["costs"]["R"] == 10 + 10 * 0.5 * 10
    assert "carried: R (a); S (a, b); T (b, c)" in order(capsys, str(file))


def test_the_cost_of_waiting_is_drawn(capsys, tmp_path):
    order(capsys, str(SAMPLE), "--plot", str(tmp_path / "waiting.svg"))
    text = (tmp_path / "waiting.svg").read_text(encoding="utf-8")
    assert all(words in text for words in ("What it costs to let arrivals wait", "naive", "lazy", "general", "eager"))


# -------------------------------------------------------------------------------------------------------- what it refuses


def stream(name: str = "R", **facts) -> str:
    numbers = {"rate": 1, "window": 10, "distinct": 5} | facts
    return f"[streams.{name}]\n" + "".join(f"{key} = {value}\n" for key, value in numbers.items() if value is not None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "streams must be two or more, got 0"),
        (stream(), "streams must be two or more, got 1"),
        (stream() + stream(), "Cannot declare ('streams', 'R') twice"),
        (stream() + stream("S", rate=0), "streams.S: rate of S must be a number above 0, got 0"),
        (stream() + stream("S", rate='"fast"'), "streams.S: rate of S must be a number above 0, got 'fast'"),
        (stream() + stream("S", rate=None), "streams.S: rate of S must be given, got nothing"),
        (stream() + stream("S", window=-3), 'window of S must be a number of ticks above 0 (up to 1e+12), or "rows:100", got -3'),
        (stream() + stream("S", window='"ten"'), "window of S must be a number of ticks above 0 (up to 1e+12), or \"rows:100\", got 'ten'"),
        (stream() + stream("S", distinct=0), "distinct of S must be a number from 1, got 0"),
        (stream() + stream("S", distinct="{ a = 0.5 }"), "distinct of S.a must be a number from 1, got 0.5"),
        (stream() + stream("S", buckets=0), "buckets of S must be a whole number from 1 (no index) to 1e+12, got 0"),
        (stream() + stream("S", buckets=2.5), "buckets of S must be a whole number from 1 (no index) to 1e+12, got 2.5"),
        (stream() + stream("S", rate="1e300"), "rate of S must be at most 1e+12, got 1e+300"),
        (stream() + stream("S", rate="nan"), "rate of S must be a number above 0, got nan"),
        (stream() + stream("S", predicate_cost="inf"), "predicate_cost of S must be at most 1e+12, got inf"),
        (stream() + stream("S", index='"b"'), "index of S must be one of key, got 'b'"),
        (stream() + stream("S", rat=1), "streams.S: S: a number of a stream must be one of"),
        (stream() + stream("S") + '[join]\non = "R.a = T.a"', "stream of the predicate must be one of R, S, got 'T'"),
        (
            stream() + stream("S", distinct="{ a = 4 }") + '[join]\non = "R.a = S.b"',
            "column of S in the predicate must be one of a, got 'b'",
        ),
        (stream() + stream("S", distinct="{ a = 4 }") + '[join]\non = "b"', "column of S in the predicate must be one of a, got 'b'"),
        (stream() + stream("S") + stream("T") + '[join]\non = "R.a = S.a"', "no link between {R, S} and {T}"),
        (
            stream() + stream("S") + '[join]\nstrategy = "lazy"\ntau = 0.5',
            "tau must be a number of ticks, at least 1 and at most 1e+12, got 0.5",
        ),
        (stream() + stream("S") + "[join]\ntau = true", "join: tau must be a whole number or a number, got True"),
        (stream() + stream("S") + "[join]\ntua = 3", "join: key must be one of on, cross"),
        (
            stream() + stream("S") + "[jion]\ntau = 3",
            "section must be one of join, streams, selectivity, got 'jion' (did you mean 'join'?)",
        ),
        (stream() + stream("S") + "[join]\nbuckets = 1", "buckets must be a whole number from 2, one for each window, got 1"),
        (stream() + stream("S") + '[join]\nmemory = "12"', "memory must be one size such as \"64 MB\", got '12'"),
        (stream() + stream("S") + '[join]\nmemory = "1 KB"\nbuckets = 4', "buckets and memory are two limits of the same"),
        (stream() + stream("S") + '[join]\ncolumns = ["price"]', "columns must each be STREAM.COLUMN"),
        (stream() + stream("S") + '[join]\ncolumns = ["T.price"]', "stream of a column must be one of R, S, got 'T'"),
        (stream() + stream("S") + '[selectivity]\n"R" = 0.5', "a key must be two streams, such as \"R, S\", got 'R'"),
        (stream() + stream("S") + '[selectivity]\n"R, S" = 5', "selectivity of R and S must be a number from 0 to 1, got 5"),
        ("join = 3\n" + stream() + stream("S"), "join must be a table [join], got 3"),
        ("streams = 3", "streams must be a table [streams], got 3"),
        ("[streams]\nR = 3", "stream R must be WindowStats or a mapping of rate, window"),
        ("[streams", "Expected"),
    ],
)
def test_a_file_that_cannot_be_is_refused(capsys, tmp_path, text, told):
    file = tmp_path / "streams.toml"
    file.write_text(text, encoding="utf-8")
    assert run(["order", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert told in captured.err


def test_every_mistake_of_a_file_is_named_together(capsys, tmp_path):
    file = tmp_path / "streams.toml"
    file.write_text(stream(rate=0) + stream("S", buckets=0) + "[join]\ncross = 3\n", encoding="utf-8")
    assert run(["order", str(file)]) == 2
    told = capsys.readouterr().err
    assert all(part in told for part in ("rate of R", "buckets of S", "join: cross must be true or false, got 3"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--tau", "5"], "tau goes with the strategies lazy, general and naive"),
        (["--tau", "soon"], "--tau must be a number of ticks, at least 1, got 'soon'"),
        (["--strategy", "lazy", "--tau", "0"], "tau must be a number of ticks, at least 1 and at most 1e+12, got 0"),
        (["--strategy", "lazy", "--tau", "nan"], "tau must be a number of ticks, at least 1 and at most 1e+12, got nan"),
        (["--strategy", "quick"], "strategy must be one of eager, lazy, general, naive, got 'quick'"),
        (["--buckets", "0"], "--buckets must be a whole number >= 1, got '0'"),
        (["--buckets", "9", "--memory", "1 MB"], "buckets and memory are two limits of the same"),
        (["--strategy", "naive", "--per-stream"], "per_stream goes with the strategies eager, lazy and general"),
        (["--plot", "waiting.gif"], "--plot must be a file that ends in .png, .svg, .html, got 'waiting.gif'"),
        (["--format", "xml"], "--format must be one of table, json, got 'xml'"),
    ],
)
def test_options_that_cannot_be_are_refused(capsys, options, told):
    assert run(["order", str(SAMPLE), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert told in captured.err


def test_a_file_that_is_not_there_is_named(capsys, tmp_path):
    assert run(["order", str(tmp_path / "none.toml")]) == 2
    assert "none.toml' cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ps.order_joins([ps.WindowStats("R", 1, 10, 5)]), "streams must be two or more, got 1"),
        (lambda: ps.order_joins([ps.WindowStats("R", 1, 10, 5)] * 2), "streams must have different names, got 'R' more than once"),
        (lambda: ps.order_joins("RS"), "streams must be WindowStats, or mappings of rate, window, distinct by name, got 'RS'"),
        (lambda: ps.order_joins([1, 2]), "streams must be WindowStats, or mappings of rate, window, distinct by name, got [1, 2]"),
        (lambda: ps.WindowStats("R", 0, 10, 5), "rate of R must be a number above 0, got 0"),
        (lambda: ps.WindowStats("", 1, 10, 5), "name of a stream must be a text, got ''"),
        (lambda: ps.WindowStats("R", 1, "rows:0", 5), "window of R must be a number of ticks above 0"),
        (lambda: ps.WindowStats("R", 1, 10, {}), "distinct of R must have at least one column"),
        (
            lambda: ps.order_joins([ps.WindowStats(f"S{i}", 1, 10, 5) for i in range(9)], method="exhaustive"),
            "orders up to 8 streams, got 9",
        ),
        (
            lambda: ps.order_joins([ps.WindowStats(name, 1, 10, 5) for name in "RS"], method="best"),
            "method must be one of auto, exhaustive",
        ),
        (
            lambda: ps.order_joins([ps.WindowStats(name, 1, 10, 5) for name in "RS"], columns="R.a"),
            "columns must be a list of STREAM.COLUMN",
        ),
    ],
)
def test_the_library_refuses_what_cannot_be(make, told):
    with pytest.raises(PenstockError) as caught:
        make()
    assert told in str(caught.value)


def test_a_cross_join_must_be_asked_for():
    three = [ps.WindowStats(name, 1, 10, 5) for name in "RST"]
    plan = ps.order_joins(three, on="R.a = S.a", cross=True)
    assert plan.order[-1] == "T"
    assert "T (scan: visits 10 of 10), no condition" in plan.text()
