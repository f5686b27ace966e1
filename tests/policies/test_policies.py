"""Each policy by example: golden rows, runs worked out by hand, ties."""

from __future__ import annotations

import csv
from typing import Any

import pytest

import penstock as ps
from penstock.core.problem import Problem
from penstock.policies.table import best_policy, open_policy
from places import SUPPORT
from plays import FIGURE_3, each_form, named, pairs, played, with_importance
from policy_kinds import DRAWN
from strategies import EVERYTHING

GOLDEN = SUPPORT / "golden_policies.csv"


# ---------------------------------------------------------------------------------------------------------- golden rows


def golden_row(policy: str) -> dict[str, str]:
    trace = ps.generate(300, keys=20, rate=(1, 2), importance="rare", top=16, seed=11)
    run = ps.simulate(trace, window=40, memory=24, policy=policy, stats="whole", seed=7)
    return {"policy": policy} | {name: f"{getattr(run, name):.15g}" for name in ("n_output", "value", "n_shed", "n_expired")}


@pytest.mark.parametrize("policy", ps.POLICIES)
def test_the_golden_row(policy):
    with GOLDEN.open(newline="") as file:
        rows = {row["policy"]: row for row in csv.DictReader(file)}
    row = golden_row(policy)
    assert policy in rows, f"{GOLDEN.name} has no row for {policy}; add: {','.join(row.values())}"
    assert row == rows[policy]


def test_golden_rows_are_of_policies_that_exist():
    with GOLDEN.open(newline="") as file:
        assert {row["policy"] for row in csv.DictReader(file)} <= set(ps.POLICIES)


# ----------------------------------------------------------------------------------------------- Das, Figure 3, by hand


def figure_3(policy: str, *, stepwise: bool, **options: Any) -> tuple[str, str, str]:
    """The outputs, who was shed in which order, and what is in memory after each instant, all by stream and time."""
    run = played(FIGURE_3, policy, window=3, memory=2, stepwise=stepwise, **options)
    outputs = ", ".join(named(run, FIGURE_3, pair) for pair in pairs(run))
    memory = " | ".join(named(run, FIGURE_3, rows) for _, rows in run.memory_log)
    assert run.n_output == len(run.outputs) == run.value
    return outputs, named(run, FIGURE_3, run.sheds), memory


def test_figure_3_exactly():
    run = ps.exact(FIGURE_3, window=3, keep=EVERYTHING)
    outputs = [named(run, FIGURE_3, pair) for pair in pairs(run)]
    assert outputs == ["r0 s2", "r1 s2", "r1 s3", "r2 s2", "r2 s3", "r3 s1", "r3 s4"]
    assert (run.n_output, run.value, run.n_shed) == (7, 7.0, 0)
    # At the last instant r0, s0, r1 and s1 are outside: 4 - 3 >= 0 and 1.
    assert run.n_expired == 4


@each_form
@pytest.mark.parametrize("allocation", ("fixed", "variable"))
def test_figure_3_with_fifo(allocation, stepwise):
    # time      0       1       2       3       4
    # held      r0 s0   r1 s1   r2 s2   r3 s3   r4 s4      the last tick, whatever the allocation
    # leave             r0 s0   r1 s1   r2 s2   r3 s3      r comes before s among the equally old
    # outputs                   r1s2    r2s3    r3s4
    #                           r2s2
    outputs, sheds, memory = figure_3("fifo", allocation=allocation, stepwise=stepwise)
    assert outputs == "r1 s2, r2 s2, r2 s3, r3 s4"
    assert sheds == "r0 s0 r1 s1 r2 s2 r3 s3"
    assert memory == "r0 s0 | r1 s1 | r2 s2 | r3 s3 | r4 s4"


@each_form
def test_figure_3_with_prob_in_fixed_memory(stepwise):
    # time          0     1        2        3        4
    # R             r0    r0 r1    r1 r2    r2 r3    r3 r4      r0, r1 and r2 leave as the older of two equals,
    # p             2     2  2     2  2     2  2     2  1       r4 as the less likely one
    # S             s0    s0 s1    s1 s2    s2 s3    s3 s4
    # p             1     1  1     1  3     3  3     3  1
    outputs, sheds, memory = figure_3("prob", allocation="fixed", stepwise=stepwise)
    assert outputs == "r1 s2, r2 s2, r2 s3, r3 s4"
    assert sheds == "r0 s0 r1 s1 r2 s2 r4 s4"
    assert memory == "r0 s0 | r1 s1 | r2 s2 | r3 s3 | r3 s3"


@each_form
def test_figure_3_with_prob_in_variable_memory(stepwise):
    # time            0       1             2             3             4
    # candidates      r0 s0   r0 s0 r1 s1   r0 r1 r2 s2   r2 s2 r3 s3   s2 s3 r4 s4
    # p               2  1    2  1  2  1    2  2  2  3    2  3  2  3    3  3  1  1
    # leave                   s0 s1         r0 r1         r2 r3         r4 s4
    outputs, sheds, memory = figure_3("prob", stepwise=stepwise)
    assert outputs == "r0 s2, r1 s2, r2 s2, r2 s3"
    assert sheds == "s0 s1 r0 r1 r2 r3 r4 s4"
    assert memory == "r0 s0 | r0 r1 | r2 s2 | s2 s3 | s2 s3"


@each_form
def test_figure_3_with_life_in_fixed_memory(stepwise):
    # time          0     1        2        3        4
    # R             r0    r0 r1    r1 r2    r2 r3    r3 r4
    # remaining·p   6     4  6     4  6     4  6     4  3
    # S             s0    s0 s1    s1 s2    s2 s3    s3 s4
    # remaining·p   3     2  3     2  9     6  9     6  3
    outputs, sheds, memory = figure_3("life", allocation="fixed", stepwise=stepwise)
    assert outputs == "r1 s2, r2 s2, r2 s3, r3 s4"
    assert sheds == "r0 s0 r1 s1 r2 s2 r4 s4"
    assert memory == "r0 s0 | r1 s1 | r2 s2 | r3 s3 | r3 s3"


@each_form
def test_figure_3_with_life_in_variable_memory(stepwise):
    # time            0       1             2             3             4
    # candidates      r0 s0   r0 s0 r1 s1   r0 r1 r2 s2   r2 s2 r3 s3   r3 s3 r4 s4
    # remaining·p     6  3    4  2  6  3    2  4  6  9    4  6  6  9    4  6  3  3
    # leave                   s0 s1         r0 r1         r2 s2         r4 s4       s2 is older than r3
    outputs, sheds, memory = figure_3("life", stepwise=stepwise)
    assert outputs == "r0 s2, r1 s2, r2 s2, r2 s3, r3 s4"
    assert sheds == "s0 s1 r0 r1 r2 s2 r4 s4"
    assert memory == "r0 s0 | r0 r1 | r2 s2 | r3 s3 | r3 s3"


@each_form
def test_figure_3_in_place(stepwise):
    # Who is shed in an instant does not meet its arrivals: fifo keeps nothing that could meet anybody but r2 and s2,
    # which come together.
    outputs, sheds, _ = figure_3("fifo", model="inplace", stepwise=stepwise)
    assert (outputs, sheds) == ("r2 s2", "r0 s0 r1 s1 r2 s2 r3 s3")


# ------------------------------------------------------------------------------------------------- importances, by hand


@each_form
@pytest.mark.parametrize(
    ("policy", "sheds"),
    [
        # time       0     1     2     3          importance   r0 4   r1 1   s2 2   s3 2
        # R          a     b     .     .          memory 2: one leaves at 2, one at 3
        # S          .     .     b     c
        # importances: r1 at 2; s2 and s3 are equal at 3, and s2 is the older.
        ("simp", [1, 2]),
        # times matches at arrival: r0 0, r1 0, then s2 2·1 (it meets r1), s3 0. At 2 r1 has 0 and less importance than
        # r0; at 3 r0 and s3 have 0, and s3 is less important.
        ("simpprob", [1, 3]),
        # times matches now: at 2 r0 0, r1 1, s2 2; at 3 r1 1, s2 2, s3 0.
        ("dimpprob", [0, 3]),
        # plus matches: at 2 r0 4, r1 2, s2 3; at 3 r0 4, s2 2 (r1 has left), s3 2.
        ("additive", [1, 2]),
        # gains and losses: beta 1, alpha 4. At 1: r0 4-1. At 2: r0 2; r1 1 + 1·1·(1+4-2)/4 = 1.75; s2 2.
        # At 3: r0 1; s2 1; s3 2: r0 is more important than s2.
        ("dgl", [1, 2]),
    ],
)
def test_importance_and_matches(policy, sheds, stepwise):
    trace = with_importance(("R", 0, "a", 4), ("R", 1, "b", 1), ("S", 2, "b", 2), ("S", 3, "c", 2))
    run = played(trace, policy, window=4, memory=2, alpha=4, beta=1, stepwise=stepwise)
    assert run.sheds.tolist() == sheds
    assert (run.n_output, run.value) == (1, 1.0)  # r1 meets s2, and the smaller importance counts


@each_form
def test_gains_and_losses_of_dgl_add_up(stepwise):
    # time    0    1    2    3        window 8, alpha 8, beta 1; all importances 2
    # R       a    .    b    .        r0: 2, then 2 + 2·1·7/8 = 3.75 at 1, 2.75 at 2, 1.75 at 3
    # S       .    a    .    c        s1: 2 at 1, 1 at 2, 0 at 3      r2: 2 at 2, 1 at 3      s3: 2
    trace = with_importance(("R", 0, "a", 2), ("S", 1, "a", 2), ("R", 2, "b", 2), ("S", 3, "c", 2))
    for memory, sheds in ((3, [1]), (2, [1, 2]), (1, [1, 2, 0])):
        run = played(trace, "dgl", window=8, memory=memory, alpha=8, beta=1, stepwise=stepwise)
        assert run.sheds.tolist() == sheds


# ----------------------------------------------------------------------------------------------------------------- ties


@each_form
@pytest.mark.parametrize(
    ("policy", "keys"),
    [(name, "878787") for name in ps.POLICIES if name not in DRAWN]
    # Where all match, the old ones have gained under dgl, and the new ones have not; under ep all but the first have met their partners.
    + [(name, "777777") for name in ps.POLICIES if name not in (*DRAWN, "dgl", "ep")],
)
def test_among_equals_the_oldest_leaves_then_the_earlier_stream_then_the_earlier_row(policy, keys, stepwise):
    # time     0      1        rows 0 to 3 arrive at 0 as s, r, s, r; rows 4 and 5 at 1 as s, r
    # R        1 3    5        all have the same importance, p and mn; the life that is left differs, but in favour
    # S        0 2    4        of the younger
    trace = ps.Trace({"stream": list("SRSRSR"), "time": [0, 0, 0, 0, 1, 1], "key": list(keys)}, streams=("R", "S"))
    options = {"window": 1 << 20, "beta": 0.0, "stepwise": stepwise}
    one_is_left = played(trace, policy, memory=[(0, 6), (1, 1)], **options)
    assert one_is_left.sheds.tolist() == [1, 3, 0, 2, 5]
    one_of_each = played(trace, policy, memory=2, allocation="fixed", **options)
    assert one_of_each.sheds.tolist() == [1, 0, 3, 2]


@each_form
def test_a_late_row_is_older_than_what_came_before_it(stepwise):
    # Rows 0, 1, 2 carry times 5, 6, 3: of equals, the one with the smallest time leaves, which is the newcomer.
    trace = ps.Trace({"stream": list("RRR"), "time": [5, 6, 3], "key": [1, 1, 1]}, streams=("R", "S"))
    run = played(trace, "prob", window=9, memory=2, stepwise=stepwise)
    assert run.sheds.tolist() == [2]
    # fifo goes by arrival, and the newcomer arrived last.
    assert played(trace, "fifo", window=9, memory=2, stepwise=stepwise).sheds.tolist() == [0]


# ----------------------------------------------------------------------------------------------------------- huge times


@each_form
@pytest.mark.parametrize(
    ("shift", "leaves"),
    [
        (1, 1),  # 49·(48 j + 1) is larger than 48·(49 j + 1), by 1: the newcomer leaves
        (0, 0),  # 49·48 j = 48·49 j: the oldest leaves
        (-1, 0),  # and smaller by 1
    ],
)
@pytest.mark.parametrize("streams", ("RRS", "RST"))
def test_life_is_exact_beyond_64_bits(streams, shift, leaves, stepwise):
    # time      0          j         j+1                    window 49 j + shift, memory 1
    # first     a          .         .                      a has 49 partners, and lives for 48 j + shift more at j
    # second    .          b         .                      b has 48, and lives for 49 j + shift
    j = 1 << 53
    assert 48 * 49 * j > 2**63
    first, second, partner = streams
    # Two streams: the partners of both are in S. Three: they are in T, and R and S have one of each other's as well.
    rows = [(first, 0, "a"), (second, j, "b")]
    rows += [(partner, j + 1, "a")] * 49 + [(partner, j + 1, "b")] * 48
    if partner == "T":
        rows += [("S", j + 2, "a"), ("R", j + 2, "b")]
    stream, time, key = zip(*rows, strict=True)
    trace = ps.Trace({"stream": list(stream), "time": list(time), "key": list(key)})
    run = played(trace, "life", window=49 * j + shift, memory=1, stepwise=stepwise)
    assert run.sheds[0] == leaves


AUTOS = {
    "equal keys": ({}, "learned"),
    "equal keys with importance": ({"has_importance": True}, "learned"),
    "a distance": ({"predicate": "eps:0.5"}, "prob"),
    "a distance with importance": ({"predicate": "eps:0.5", "has_importance": True, "objective": "sum"}, "dimpprob"),
    "other statistics": ({"stats": "sketch"}, "prob"),
    "no word on ageing": ({"window": "none"}, "ep"),
    "no word on ageing, with importance": ({"window": "landmark:9", "has_importance": True, "objective": "sum"}, "simp"),
    "no word on ageing of a distance": ({"window": {"R": 9, "S": "rows:9"}, "predicate": "eps:0.5"}, "dimpprob"),
    "a word on ageing": ({"window": "rows:9", "half_life": 30}, "learned"),
    "counts that do not age": ({"window": "rows:9", "stats": "window"}, "prob"),
}


@pytest.mark.parametrize(("options", "policy"), AUTOS.values(), ids=AUTOS)
def test_auto_is_the_best_that_is_defined(options, policy):
    problem = Problem.of(("R", "S"), **{"window": 10, "memory": 4, "stats": "decayed"} | options)
    assert open_policy("auto", problem).name == best_policy(problem) == policy


@pytest.mark.parametrize("window", ("none", "rows:40", "rows_per_key:2", "landmark:100"))
@pytest.mark.parametrize(("streams", "orders"), (("RS", None), ("RS", "listed"), ("ABCD", "listed")))
@pytest.mark.parametrize("importance", (False, True))
def test_auto_plays_windows_that_are_no_length_of_time(window, streams, orders, importance):
    """With no word on statistics or ageing; and it keeps more than what goes by a product that is zero while a partner is missing."""
    keys = {"keys": 40} if orders is None else {"orders": orders, "delay": 10}
    trace = ps.generate(200, streams=tuple(streams), seed=2, **keys)
    if importance:
        trace = ps.Trace(trace.table.append_column("importance", [[1.0 + at % 3 for at in range(len(trace))]]), streams=trace.streams)
    options = {"window": window, "memory": 20 * len(streams)}
    run = ps.simulate(trace, **options)
    assert run.policy == ("frequency" if streams == "ABCD" else "simp" if importance else "ep")
    if orders is not None:
        assert run.value > ps.simulate(trace, policy="dimpprob", **options).value
    with pytest.raises(ps.PenstockError, match="policy 'auto'"):
        ps.simulate(trace, policy="prob", **options)
    with pytest.raises(ps.PenstockError, match="policy 'learned' must know how fast counts age"):
        ps.simulate(trace, policy="learned", **options)


def test_auto_is_the_default_of_a_simulation():
    trace = ps.generate(400, keys=20, seed=3)
    plain, learned = (ps.simulate(trace, window=50, memory=8, **given) for given in ({}, {"policy": "learned"}))
    assert (plain.policy, plain.n_output) == ("learned", learned.n_output)
