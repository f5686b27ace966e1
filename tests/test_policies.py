"""Each policy by example: golden rows, runs worked out by hand, ties, draws, and policies of the user's own."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

import penstock as ps
from strategies import COMPILED, EVERYTHING

GOLDEN = Path(__file__).with_name("golden_policies.csv")
each_form = pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))


def played(trace: ps.Trace, policy: Any, **options: Any) -> ps.JoinRun:
    return ps.simulate(trace, policy=policy, keep=EVERYTHING, **options)


def pairs(run: ps.JoinRun) -> list[tuple[int, int]]:
    return sorted(map(tuple, run.outputs[:, 1:].tolist()))


def named(run: ps.JoinRun, trace: ps.Trace, rows: Any) -> str:
    """Rows by stream and time, as the papers write them: "r0 s2"."""
    return " ".join(f"{trace.streams[trace.stream[row]].lower()}{trace.time[row]}" for row in rows)


# --------------------------------------------------------------------------------------------------------- golden rows


def golden_row(policy: str) -> dict[str, str]:
    trace = ps.generate(300, keys=20, rate=(1, 2), importance="rare", top=16, seed=11)
    run = ps.simulate(trace, window=40, memory=24, policy=policy, seed=7)
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


# ------------------------------------------------------------------------------------------ Das, Figure 3, by hand
#
#     time     0   1   2   3   4          window 3, memory 2
#     R        1   1   1   3   2          exact: (r0,s2) (r1,s2) (r1,s3) (r2,s2) (r2,s3) (r3,s1) (r3,s4)
#     S        2   3   1   1   3
#
# How often a key occurs in the other stream, p:   r0 r1 r2: 2   r3: 2   r4: 1      s0: 1   s1: 1   s2 s3: 3   s4: 1

FIGURE_3 = ps.Trace.from_streams(R=[1, 1, 1, 3, 2], S=[2, 3, 1, 1, 3])


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


# --------------------------------------------------------------------------------------------- importances, by hand


def with_importance(*rows: tuple[str, int, Any, float]) -> ps.Trace:
    stream, time, key, importance = zip(*rows, strict=True)
    columns = {"stream": list(stream), "time": list(time), "key": list(key), "importance": list(importance)}
    return ps.Trace(columns, streams=("R", "S"))


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


# ---------------------------------------------------------------------------------------------------------------- ties


@each_form
@pytest.mark.parametrize(
    ("policy", "keys"),
    [(name, "878787") for name in ps.POLICIES if name not in ("rand", "kwon-random")]
    # Where all match, the old ones have gained under dgl, and the new ones have not; under ep all but the first have met their partners.
    + [(name, "777777") for name in ps.POLICIES if name not in ("rand", "kwon-random", "dgl", "ep")],
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


# ---------------------------------------------------------------------------------------------------------------- rand


def arrivals(times: list[int], streams: str = "") -> ps.Trace:
    names = list(streams or "R" * len(times))
    return ps.Trace({"stream": names, "time": times, "key": list(range(len(times)))}, streams=("R", "S"))


def victims(trace: ps.Trace, *, stepwise: bool, seeds: int = 800 if COMPILED else 400, **options: Any) -> Counter[tuple[int, ...]]:
    """Who is shed, in which order, for each of many seeds."""
    runs = (ps.simulate(trace, policy="rand", seed=s, keep=EVERYTHING, stepwise=stepwise, **options) for s in range(seeds))
    return Counter(tuple(run.sheds.tolist()) for run in runs)


def assert_uniform(found: Counter[Any], outcomes: Any) -> None:
    expected = list(outcomes)
    assert set(found) <= set(expected)
    # The seeds are fixed: this passes always or never.
    assert chisquare([found[outcome] for outcome in expected]).pvalue > 0.001


@each_form
def test_rand_draws_every_candidate_alike_the_newcomer_too(stepwise):
    # time     0  1  2  3  4     memory 4: at 4, one of five leaves
    trace = arrivals([0, 1, 2, 3, 4])
    assert_uniform(victims(trace, window=9, memory=4, stepwise=stepwise), [(row,) for row in range(5)])


@each_form
def test_rand_draws_several_victims_of_an_instant_in_every_order_alike(stepwise):
    # time     0  1  2 2 2      memory 3: at 2, two of five leave
    found = victims(arrivals([0, 1, 2, 2, 2]), window=9, memory=3, stepwise=stepwise)
    both_ways = [pair for some in combinations(range(5), 2) for pair in (some, some[::-1])]
    assert_uniform(found, both_ways)


@each_form
def test_rand_draws_from_the_pool_of_each_stream(stepwise):
    # R 0 2 4, S 1 3 5, fixed memory of 2 each: at the last instant one of three leaves in each stream
    trace = arrivals([0, 0, 1, 1, 2, 2], "RSRSRS")
    found = victims(trace, window=9, memory=4, allocation="fixed", stepwise=stepwise)
    assert_uniform(found, [(r, s) for r in (0, 2, 4) for s in (1, 3, 5)])


@each_form
def test_rand_may_spare_the_newcomer(stepwise):
    options = {"window": 9, "switches": {"rand-newcomer": "safe"}, "stepwise": stepwise}
    found = victims(arrivals([0, 1, 2, 3, 4]), memory=4, **options)
    assert_uniform(found, [(row,) for row in range(4)])
    # Memory 2, and an instant of three: first the old ones, then, since nothing else is left, one of the three.
    found = victims(arrivals([0, 1, 2, 2, 2]), memory=2, **options)
    assert_uniform(found, [(a, b, c) for a, b in ((0, 1), (1, 0)) for c in (2, 3, 4)])


@each_form
def test_rand_draws_anew_in_every_instant_of_a_run(stepwise):
    """In one long run the age of the victim, counted in candidates, is uniform."""
    n, memory = (4000 if COMPILED else 1200), 4
    run = played(arrivals(list(range(n))), "rand", window=10 * n, memory=memory, seed=1, stepwise=stepwise)
    candidates = [np.append(rows, time + 1) for time, rows in run.memory_log[memory - 1 : -1]]
    ages = [int(np.searchsorted(rows, shed)) for rows, shed in zip(candidates, run.sheds, strict=True)]
    assert_uniform(Counter(ages), range(memory + 1))


@each_form
def test_rand_repeats_itself_with_its_seed_only(stepwise):
    trace = ps.generate(60, keys=5, seed=2)
    sheds = [played(trace, "rand", window=20, memory=6, seed=seed, stepwise=stepwise).sheds.tolist() for seed in (1, 1, 2)]
    assert sheds[0] == sheds[1] != sheds[2]


# ---------------------------------------------------------------------------------------------------------- huge times


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


# ----------------------------------------------------------------------------------------------- the user's own policy


class Largest:
    """No relative of ours: a score, and nothing else. Rows with high numbers leave first."""

    def score(self, view: ps.View) -> Any:
        return -view.row


def test_an_object_with_a_score_is_a_policy():
    trace = ps.Trace.from_streams(R="abab", S="baba")
    run = played(trace, Largest(), window=9, memory=3)
    assert run.policy == "Largest"
    assert run.sheds.tolist() == [3, 5, 4, 7, 6]
    assert [rows.tolist() for _, rows in run.memory_log] == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2]]


class Productive(ps.Policy):
    """Keeps what has produced, by value, and notes the outputs of every instant."""

    name = "productive"

    def __init__(self) -> None:
        self.outputs: list[list[int]] = []

    def score(self, view: ps.View) -> Any:
        self.outputs += view.outputs.tolist()
        assert (view.produced_value >= view.produced).all()
        return view.produced_value

    def ties(self, view: ps.View) -> tuple[Any, ...]:
        return (-view.importance,)


def test_a_policy_sees_past_outputs():
    # time   0      1      2      3      4         importances 3, 2, 1, 1, 1; memory 2
    # R      a      b      .      .      .         at 2: r0 has produced nothing, r1 1 and s2 1
    # S      .      .      b      b      a         at 3: r1 2, s2 1, s3 1, and s2 is older
    #                                              at 4: r1 2, s3 1, s4 0
    trace = with_importance(("R", 0, "a", 3), ("R", 1, "b", 2), ("S", 2, "b", 1), ("S", 3, "b", 1), ("S", 4, "a", 1))
    policy = Productive()
    run = played(trace, policy, window=9, memory=2)
    assert run.sheds.tolist() == [0, 2, 4]
    assert policy.outputs == run.outputs.tolist() == [[2, 1, 2], [3, 1, 3]]


def test_a_policy_may_keep_a_number_per_tuple():
    class Aging(ps.Policy):
        name = "aging"

        def score(self, view: ps.View) -> Any:
            view.memo[:] += np.where(view.new, 10 - view.row, 1)
            return view.memo

    # Each starts at 10 - row and gains 1 per instant, so at 2 r0 has 12, r1 10 and r2 8.
    run = played(arrivals([0, 1, 2, 3]), Aging(), window=9, memory=2)
    assert run.sheds.tolist() == [2, 3]


def test_the_columns_of_a_view():
    seen = []

    class Curious(ps.Policy):
        name = "curious"

        def score(self, view: ps.View) -> Any:
            names = ("row", "stream", "time", "importance", "new", "arrived", "expiry", "remaining", "mn", "p", "matched", "produced")
            seen.append({name: getattr(view, name).tolist() for name in names} | {"now": view.now})
            return view.row

    # time    0    1    3        window 4
    # R       a    .    .        r0 is alone at 0, meets s1 at 1, and both meet again at 3: s1 has r0, r0 has s1 and s2
    # S       .    a    a
    trace = with_importance(("R", 0, "a", 3), ("S", 1, "a", 2), ("S", 3, "a", 1))
    played(trace, Curious(), window=4, memory=9, objective="count")
    assert seen[2] == {
        "row": [0, 1, 2],
        "stream": [0, 1, 1],
        "time": [0, 1, 3],
        "importance": [3.0, 2.0, 1.0],
        "new": [False, False, True],
        "arrived": [1, 2, 3],
        "expiry": [4, 5, 7],
        "remaining": [1, 2, 4],
        "mn": [2.0, 1.0, 1.0],
        "p": [2.0, 1.0, 1.0],
        "matched": [True, False, False],
        "produced": [2, 1, 1],
        "now": 3,
    }


@pytest.mark.parametrize(
    "scores", (lambda view: 1.0, lambda view: [1.0], lambda view: np.ones((len(view), 2)), lambda view: view.p * np.nan)
)
def test_scores_of_the_wrong_shape_are_refused(scores):
    class Wrong(ps.Policy):
        name = "wrong"

        def score(self, view: ps.View) -> Any:
            return scores(view)

    with pytest.raises(ps.PenstockError, match=r"policy 'wrong' must return one number per candidate \(2\)"):
        played(ps.Trace.from_streams(R="ab", S="ab"), Wrong(), window=2, memory=1)


def test_a_policy_without_a_score_is_refused():
    trace = ps.Trace.from_streams(R="ab", S="ab")
    with pytest.raises(ps.PenstockError, match=r"policy must be a name or an object with a method score\(view\), got 3"):
        ps.simulate(trace, window=2, memory=1, policy=3)
    with pytest.raises(NotImplementedError, match="policy 'policy' has no method score"):
        ps.simulate(trace, window=2, memory=1, policy=ps.Policy())


def test_an_unknown_policy_has_its_neighbour_named():
    with pytest.raises(ps.PenstockError, match=r"got 'lief' \(did you mean 'life'\?\)"):
        ps.simulate(ps.Trace.from_streams(R="ab", S="ab"), window=2, memory=1, policy="lief")
    with pytest.raises(ps.PenstockError, match=r"policy must be one of rand, .*, opt, got 'optt' \(did you mean 'opt'\?\)"):
        ps.simulate(ps.Trace.from_streams(R="ab", S="ab"), window=2, memory=1, policy="optt")


@pytest.mark.parametrize("policy", ("life", "dgl"))
@pytest.mark.parametrize("window", ("none", "landmark:3"))
def test_a_policy_that_needs_to_know_when_tuples_leave_says_so(policy, window):
    trace = ps.Trace.from_streams(R="ab", S="ab")
    with pytest.raises(ps.PenstockError, match=f"policy '{policy}' needs a window that tuples leave, stream R has"):
        ps.simulate(trace, window=window, memory=1, policy=policy)


def mayflies() -> ps.Trace:
    columns = {"stream": list("RRS"), "time": [0, 0, 1], "key": list("aba"), "lifetime": pa.array([9, 2, 5])}
    return ps.Trace(columns)


@each_form
def test_a_lifetime_bounds_an_unbounded_window(stepwise):
    # At 0 r0 has 9 ticks and one partner to come, r1 has none; at 1 r0 has 8 left, s2 5.
    run = played(mayflies(), "life", window="none", memory=1, stepwise=stepwise)
    assert run.sheds.tolist() == [1, 2]
    # r0 and r1 are alike at 0; at 1 r1 has faded to 0.5.
    run = played(mayflies(), "dgl", window="none", memory=1, alpha=4, beta=0.5, stepwise=stepwise)
    assert run.sheds.tolist() == [0, 1]


def test_without_a_window_dgl_has_no_alpha_and_beta_of_its_own():
    with pytest.raises(ps.PenstockError, match="alpha"):
        played(mayflies(), "dgl", window="none", memory=1)


def test_every_policy_of_the_table_describes_itself():
    for name, policy in ps.POLICIES.items():
        assert policy.name == name
        assert policy.summary and policy.needs and policy.paper
