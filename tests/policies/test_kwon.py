"""Kwon's load shedding for n streams: existence patterns, the policies beside them, the bit vectors, and what the tables take."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import penstock as ps
from agreement import agree
from oracle import Row
from penstock.core.problem import Problem
from penstock.engine.opening import compiled_form
from penstock.experiments.table_sizes import measured_bytes, our_bytes, paper_bytes
from penstock.policies.ep import Ep
from penstock.policies.output import Output
from penstock.policies.table import open_policy
from policy_kinds import BY_COUNT, KEYED, SPARING
from strategies import BOUNDED, COMPILED, EVERYTHING, PLAYED_WINDOW, SWITCHES, Case, cases, examples, memories, opened

each_form = pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))


def trace_of(rows: str, streams: str = "123", begin: int = 0) -> ps.Trace:
    """Rows such as "1a 2a 3b": stream and key, one per tick."""
    pairs = rows.split()
    columns = {"stream": [pair[0] for pair in pairs], "time": list(range(begin, begin + len(pairs))), "key": [pair[1:] for pair in pairs]}
    return ps.Trace(columns, streams=tuple(streams))


# ---------------------------------------------------------------------------------------- the example of section 3.3
#
#   W1   t1(1) 100   t2(2) 100   t3(4) 110   t4(5) 111       four tuples per window, and none expires
#   W2   t5(4) 010   t6(1) 110   t7(5) 011   t8(2) 110
#   W3   5, and three that are nowhere else

FIGURE_4 = "35 11 12 36 24 21 37 25 22 14 38 15"


def seen_by_ep(trace: ps.Trace, **options: Any) -> dict[tuple[int, str], int]:
    """How many tuples of each stream and pattern have arrived, patterns as the paper writes them."""
    policy = Ep()
    ps.simulate(trace, policy=policy, stepwise=True, **options)
    return {(stream + 1, f"{pattern:0{len(trace.streams)}b}"): n for (stream, pattern), n in policy.seen.items()}


def test_the_patterns_of_figure_4():
    found = seen_by_ep(trace_of(FIGURE_4), window=99, memory=12, allocation="fixed")
    assert found == {
        (1, "100"): 2, (1, "110"): 1, (1, "111"): 1,
        (2, "010"): 1, (2, "110"): 2, (2, "011"): 1,
        (3, "001"): 4,
    }  # fmt: skip


@each_form
def test_case_1_of_figure_4(stepwise):
    # t4 has met all its partners; frequency and output keep it, and drop one of t1, t2, t3, the oldest by our rule.
    rows = (FIGURE_4 + " 19").split()
    t1, t4 = rows.index("11"), rows.index("15")
    for policy, victim in {"ep": t4, "frequency": t1, "output": t1}.items():
        run = ps.simulate(
            trace_of(FIGURE_4 + " 19"), window=99, memory=12, allocation="fixed", policy=policy, keep=EVERYTHING, stepwise=stepwise
        )
        assert run.sheds.tolist() == [victim]


# Case 2 needs a history (docs/readings.md, 34): two packets on the way 1 2 3, two on the way 3 2 1, two that go from 2 to 1 and no further.
HISTORY = "1a 2a 3a 1b 2b 3b 3c 2c 1c 3d 2d 1d 2e 1e 2f 1f"


@each_form
def test_case_2_of_figure_4_after_a_history(stepwise):
    # Of W2's patterns, outputs per tuple: 010 0/3, 110 2/4, 011 3/3. So t5 goes.
    before, example = HISTORY.split(), (FIGURE_4 + " 29").split()
    columns = {
        "stream": [row[0] for row in before + example],
        "time": [*range(len(before)), *range(100, 100 + len(example))],
        "key": [row[1:] for row in before + example],
    }
    trace = ps.Trace(columns, streams=tuple("123"))
    # The example takes only the last tuple of an output for finished. As we have it, t7(5) has met its partners when 15 comes, and goes.
    for finishes, victim in {"last": "24", "all": "25"}.items():
        run = ps.simulate(
            trace, window=50, memory=12, allocation="fixed", policy="ep", switches={"ep-finishes": finishes}, keep=EVERYTHING,
            stepwise=stepwise,
        )  # fmt: skip
        late = [row for row in run.sheds.tolist() if row >= len(before)]
        assert late == [len(before) + example.index(victim)]


@each_form
def test_without_a_history_case_2_drops_the_oldest_of_three_idle_patterns(stepwise):
    trace = trace_of(FIGURE_4 + " 29")
    options = {"window": 99, "memory": 12, "allocation": "fixed", "policy": "ep", "keep": EVERYTHING, "stepwise": stepwise}
    options["switches"] = {"ep-finishes": "last"}
    # 010 and 110 have produced nothing: t5(4) is the oldest, and has the smallest pattern; t6(1) and t8(2) are 110.
    assert ps.simulate(trace, **options).sheds.tolist() == [4]
    # A tuple of stream 1 for each: 100 and 110 are idle too. The oldest is 1, with pattern 100; 011 < 100 < 110.
    both = trace_of("11 22 12 13 14")  # 1 and 3 are 100, 2 is 110; all idle
    for ties, victim in {"oldest": 0, "smallest-pattern": 1}.items():
        run = ps.simulate(
            both, window=99, memory=4, policy="ep", switches={"ep-ties": ties}, keep=EVERYTHING, stepwise=stepwise
        )  # one pool: stream 2's tuple has pattern 010, the smallest of all
        assert run.sheds.tolist() == [victim]


@each_form
def test_of_one_pattern_the_oldest_leaves_or_the_newest_but_not_the_arrival(stepwise):
    # All are 100 and idle; at 3 and at 4 one leaves.
    trace = trace_of("1a 1b 1c 1d 1e")
    for drops, victims in {"oldest": [0, 1], "newest": [2, 3]}.items():
        run = ps.simulate(trace, window=99, memory=3, policy="ep", switches={"ep-drops": drops}, keep=EVERYTHING, stepwise=stepwise)
        assert run.sheds.tolist() == victims


@each_form
def test_all_members_of_an_output_are_finished_and_leave_in_the_order_of_finishing(stepwise):
    # Row 3 completes an output of 0, 2 and 3, row 6 one of 4, 5 and 6; 1 waits. Memory 7: from row 7 on one leaves for each arrival.
    trace = trace_of("1a 1x 2a 3a 3b 2b 1b 1u 1v 1w 1y 1z")
    for switches, victims in (
        ({}, [0, 2, 3, 4, 5]),
        ({"ep-drops": "newest"}, [6, 5, 4, 3, 2]),
        ({"ep-finishes": "last"}, [3, 6, 0, 1, 7]),  # then 100 of stream 1, the least productive pattern
    ):
        run = ps.simulate(trace, window=99, memory=7, policy="ep", switches=switches, keep=EVERYTHING, stepwise=stepwise)
        assert run.sheds.tolist() == victims


@each_form
def test_a_finished_tuple_credits_the_pattern_that_it_came_with(stepwise):
    # R and S: a comes again and again, so that R's 10 makes three outputs with one tuple: 3/1. u has made nothing, S's 01 either.
    trace = trace_of("Ra Sa Sa Sa Su Rb Sv", streams="RS")
    policy = Ep()
    ps.simulate(trace, window=99, memory=9, policy=policy, stepwise=True)
    assert policy.made[0, 0b10] == 3 and policy.seen[0, 0b10] == 2
    engine, batch = opened(trace, window=99, memory=9, policy="ep", stepwise=stepwise)
    engine.play(batch)
    if not stepwise:
        assert engine.arrays["bands"]["made"].tolist() == [3, 0, 0, 3] and engine.arrays["bands"]["seen"].tolist() == [2, 0, 2, 3]


@each_form
def test_a_bit_goes_with_the_last_tuple_that_has_the_key(stepwise):
    # time        0   1   2   3       window 3: 1a has gone at 3, by expiry; without memory for it, by shedding
    # pattern     100 010 001 010     2a at 3 would be 110
    assert seen_by_ep(trace_of("1a 2b 3c 2a"), window=3, memory=9) == {(1, "100"): 1, (2, "010"): 2, (3, "001"): 1}
    assert seen_by_ep(trace_of("1a 2b 3c 2a"), window=4, memory=9) == {(1, "100"): 1, (2, "010"): 1, (2, "110"): 1, (3, "001"): 1}
    assert seen_by_ep(trace_of("1a 2b 3c 2a"), window=9, memory=1) == {(1, "100"): 1, (2, "010"): 2, (3, "001"): 1}
    rows = [Row(int(row[0]) - 1, time, row[1:]) for time, row in enumerate(["1a", "2b", "3c", "2a", "1b", "3a", "2a", "1a"])]
    agree(Case(rows=rows, windows=[("time", 4)] * 3, memory=3, policy="ep"))


def test_rows_of_one_instant_see_the_earlier_ones():
    trace = ps.Trace({"stream": list("1232"), "time": [5, 5, 5, 5], "key": list("aaaa")}, streams=tuple("123"))
    assert seen_by_ep(trace, window=9, memory=9) == {(1, "100"): 1, (2, "110"): 1, (3, "111"): 1, (2, "111"): 1}


# ------------------------------------------------------------------------------------------- against the oracle


ANY = {
    "policies": KEYED,
    "windows": PLAYED_WINDOW,
    "memory": memories,
    "switches": SWITCHES,
    "disorder": 4,
    "clocks": ("global", "streams"),
    "starts": st.none() | st.integers(0, 9),
    "batches": True,
    "keys": st.none() | st.integers(0, 2),
}


@examples(3)
@given(cases(n=st.integers(2, 4), longest=20, **ANY))
def test_everything_at_once(case):
    agree(case)


@pytest.mark.slow
@settings(max_examples=300 if COMPILED else 30)
@given(cases(n=st.integers(2, 4), longest=40, **ANY))
def test_everything_at_once_for_long(case):
    agree(case)


@examples(2)
@given(cases(n=st.integers(2, 4), policies=KEYED, in_bytes=True, keys=st.integers(0, 2)))
def test_memory_in_bytes(case):
    agree(case)


@examples(2)
@given(
    st.integers(3, 6),
    st.integers(0, 1 << 16),
    st.sampled_from((("time", 16), ("rows", 5), ("tumbling", 16))),
    st.integers(4, 9),
    st.sampled_from(KEYED),
)
def test_keys_that_visit_streams_once_and_in_order(n, seed, window, memory, policy):
    trace = ps.generate(40, streams=tuple("RSTUVW"[:n]), orders=1.0, delay=4, rate=0.3, first="complete", seed=seed)
    rows = [Row(int(s), int(t), int(k)) for s, t, k in zip(trace.stream, trace.time, trace.key, strict=True)]
    agree(Case(rows=rows, windows=[window] * n, memory=memory, policy=policy, importance=False))


@examples()
@given(
    # Rates, matches and gains.
    cases(n=st.integers(3, 4), policies=("prob", "dimpprob", "dgl"), windows=BOUNDED, memory=memories, keys=st.integers(0, 1), longest=20)
)
def test_partner_rates_multiply_for_three_and_four_streams(case):
    agree(case)


@examples(2)
@given(cases(n=st.integers(2, 3), policies=SPARING, windows=PLAYED_WINDOW, memory=memories, disorder=3), st.booleans())
def test_an_arrival_is_shed_only_when_its_instant_alone_is_too_large(case, stepwise):
    run = ps.simulate(case.trace, stepwise=stepwise, keep=EVERYTHING, **case.options())
    problem = Problem.of(case.streams, window=1, memory=case.options()["memory"], allocation=case.allocation)
    pool = problem.budget.pool[case.trace.stream]
    instant = np.concatenate([[0], np.cumsum(np.diff(case.trace.time) != 0)]) if len(case.trace) else np.empty(0)
    for row, at in zip(run.sheds.tolist(), run.shed_at.tolist(), strict=True):
        if instant[row] == at:
            kept = run.memory_log[at][1]
            assert all(instant[other] == at for other in kept.tolist() if pool[other] == pool[row])


@each_form
def test_kwons_random_victim_is_uniform_among_the_old(stepwise):
    # memory 4, and a fifth tuple: one of the four before it leaves
    trace = ps.Trace({"stream": list("RRRRR"), "time": range(5), "key": range(5)}, streams=("R", "S"))
    found = Counter(
        int(ps.simulate(trace, window=9, memory=4, policy="kwon-random", seed=seed, keep=EVERYTHING, stepwise=stepwise).sheds[0])
        for seed in range(400)
    )
    assert set(found) == {0, 1, 2, 3}
    assert chisquare(list(found.values())).pvalue > 1e-4


def test_random_ties_are_drawn_among_equals_alone():
    # frequencies at 4: a 2, b 1, c 1, and d is new: b or c leaves
    trace = ps.Trace({"stream": list("RSRRR"), "time": range(5), "key": list("aabcd")}, streams=("R", "S"))
    options = {"window": 9, "memory": 4, "switches": {"kwon-ties": "random"}, "keep": EVERYTHING}
    for policy in BY_COUNT:
        victims = {int(ps.simulate(trace, policy=policy, seed=seed, **options).sheds[0]) for seed in range(40)}
        assert victims == {2, 3}
    assert ps.simulate(trace, policy="frequency", **options | {"switches": {}}).sheds.tolist() == [2]


# ------------------------------------------------------------------------------------------------- bounds and refusals


def test_the_counts_of_output_are_bounded_by_memory():
    policy = Output()
    trace = ps.generate(400, orders=0.5, delay=5, seed=2)
    ps.simulate(trace, window=50, memory=20, policy=policy, stepwise=True)
    assert 0 < len(policy.made) <= 20


@each_form
def test_the_papers_output_remembers_a_key_that_is_absent(stepwise):
    # Window 4. a makes two outputs, expires and comes back as row 5; x and y have made nothing. At 11 one of a, x, y leaves.
    rows = {"stream": list("RSSRSRRR"), "time": [0, 1, 2, 3, 8, 9, 10, 11], "key": list("aaaxzaxy")}
    trace = ps.Trace(rows, streams=("R", "S"))
    for counts, victims in {"present": [4, 5], "ever": [4, 6]}.items():
        options = {"window": 4, "memory": 2, "policy": "output", "switches": {"output-counts": counts}, "keep": EVERYTHING}
        run = ps.simulate(trace, stepwise=stepwise, **options)
        assert run.sheds.tolist()[-2:] == victims


def test_what_keys_have_ever_made_survives_growth_snapshots_and_a_merge():
    """Far more keys than memory: their classes outlive their tuples, in the arrays, in a snapshot and in several engines as one."""
    trace = ps.generate(400 if COMPILED else 150, orders=0.3, delay=3, repeats=900.0, seed=5)
    options = {"window": 30, "memory": 12, "policy": "output", "switches": {"output-counts": "ever"}, "keep": EVERYTHING}
    plain = ps.simulate(trace, stepwise=True, **options)
    engine, batch = opened(trace, **options)
    engine.play(batch)
    assert engine.is_compiled and engine.totals.n_output == plain.n_output
    kept = as_made(engine)
    policy = Output()
    ps.simulate(trace, stepwise=True, **options | {"policy": policy})
    assert kept == {key: made for key, made in policy.made.items() if made} and len(kept) > 12
    again, _ = opened(trace, **options)
    again.restore(engine.snapshot())
    assert as_made(again) == kept
    one, _ = opened(trace, **options)
    one.merge([again], lambda of, key: key >= 0, lambda of, key: key, next_row=len(trace), counts=True, statistics=False)
    assert as_made(one) == kept


def as_made(engine: Any) -> dict[int, float]:
    """What each key has made, as the compiled engine knows it."""
    groups = engine.arrays["groups"]
    there = (groups["kin"] >= 0) & (groups["price"] > 0)
    return dict(zip(groups["key"][there].tolist(), groups["price"][there].tolist(), strict=True))


@pytest.mark.parametrize("policy", SPARING)
def test_what_a_policy_keeps_does_not_grow_with_the_keys_seen(policy):
    sizes = []
    for ticks in (300, 600 if COMPILED else 400):
        engine, batch = opened(ps.generate(ticks, orders=0.5, delay=5, seed=2), window=50, memory=20, policy=policy)
        engine.play(batch)
        sizes.append(sum(array.nbytes for array in engine.arrays.values()))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("policy", KEYED)
def test_other_predicates_are_refused(policy):
    trace = ps.Trace.from_streams(R=[1, 2], S=[2, 1])
    with pytest.raises(ps.PenstockError, match=rf"policy '{policy}' looks at equal keys, predicate must be '=', got '<'"):
        ps.simulate(trace, window=2, memory=1, policy=policy, predicate="<")


def test_a_pattern_has_room_for_53_streams():
    """A key visits all streams in turn. All its tuples have met all partners then, and the oldest leaves first; or the last of them."""
    for n in (53, 54):
        names = [f"s{i}" for i in range(n)]
        trace = ps.Trace({"stream": names + names[:2], "time": list(range(n + 2)), "key": [1] * n + [2] * 2})
        if n == 54:
            with pytest.raises(ps.PenstockError, match="policy 'ep' has patterns of at most 53 streams, got 54"):
                ps.simulate(trace, window=1000, memory=n, policy="ep")
        else:
            for finishes, victim in {"all": 0, "last": n - 1}.items():
                switches = {"ep-finishes": finishes}
                run = ps.simulate(trace, window=1000, memory=n, policy="ep", switches=switches, keep=ps.Keep(sheds=True))
                assert run.n_output == 1 and run.sheds is not None and run.sheds[0] == victim


def test_tables_of_very_many_streams_are_not_compiled():
    names = tuple(f"S{number}" for number in range(13))
    for n, compiled in ((12, True), (13, False)):
        problem = Problem.of(names[:n], window=9, memory=20)
        assert (compiled_form(problem, open_policy("ep", problem)) is not None) == compiled
    trace = ps.Trace({"stream": names, "time": range(13), "key": [1] * 13})
    assert ps.simulate(trace, window=20, memory=13, policy="ep").n_output == 1


# -------------------------------------------------------------------------------------------------- frequency by sketch


class Decayed(ps.Policy):
    """What `frequency` estimates by sketch, counted one by one: arrivals of the key in all streams, decayed by one tick's half-life."""

    name = "decayed frequency"

    def __init__(self) -> None:
        self.past: list[tuple[int, int]] = []

    def score(self, view: ps.View) -> Any:
        self.past += [(int(key), int(time)) for key, time, new in zip(view.key, view.time, view.new, strict=True) if new and key >= 0]
        weight = [sum(2.0 ** (time - view.now) for other, time in self.past if other == key) for key in view.key.tolist()]
        return np.array(weight) + 1000.0 * view.new


@examples()
@given(cases(policies=("frequency",), windows=BOUNDED, keys=st.none() | st.integers(0, 3)))
def test_frequency_by_sketch_is_the_decayed_count_where_keys_are_few(case):
    sketch = replace(case, stats="sketch", half_life=1.0, given=None)
    wanted = replace(sketch, stats="whole", policy=None, twin=Decayed())
    for stepwise in (False, True):
        run = ps.simulate(sketch.trace, stepwise=stepwise, keep=EVERYTHING, **sketch.options())
        twin = ps.simulate(sketch.trace, keep=EVERYTHING, **wanted.options() | {"policy": Decayed()})
        assert run.sheds.tolist() == twin.sheds.tolist()


def test_the_error_of_a_sketched_frequency_is_within_its_bound():
    from penstock.core.batch import Batch
    from penstock.statistics.sketch import Sketch

    trace = ps.generate(3000, keys=2000, skew=0.5, seed=4)
    problem = Problem.of(trace.streams, window=1 << 20, memory=4, stats="sketch", half_life=float(1 << 30))
    source = Sketch(problem, width=256, depth=4)
    source.rates(Batch.of(trace, problem), 0)
    keys = np.unique(trace.key)
    true = np.array([(trace.key == key).sum() for key in keys])
    found = source.totals(keys)
    assert (found >= true * (1 - 1e-5)).all()  # 3,000 ticks of a half-life of 2**30 are next to nothing
    beyond = found - true > np.e / 256 * len(trace)
    assert beyond.mean() <= len(trace.streams) * np.exp(-4)


# ------------------------------------------------------------------------------------------------------- bit vectors


@examples(2)
# Two that do not look at the bits, and all that do.
@given(cases(n=st.integers(2, 4), policies=("fifo", "prob", *KEYED), windows=PLAYED_WINDOW, keys=st.integers(0, 3)))
def test_a_join_is_attempted_only_where_every_stream_has_the_key(case):
    case = replace(case, model="buffered", objective="count")
    engine, batch = opened(case.trace, keep=EVERYTHING, **case.options())
    played = engine.play(batch)
    blind, _ = opened(case.trace, keep=EVERYTHING, **case.options())
    blind.memory.full = 0  # attempts whatever the vector says
    assert blind.play(batch).outputs.tolist() == played.outputs.tolist()
    pivots = {max(members) for members in played.outputs[:, 1:].tolist()}
    assert len(pivots) <= engine.totals.n_attempts <= blind.totals.n_attempts


def test_attempts_are_counted_where_all_bits_are_set():
    # three streams: 3a meets 1a and 2a; 3b finds 1b alone; 1a meets 2a and 3a
    engine, batch = opened(trace_of("1a 2a 1b 3b 3a 1a"), window=99, memory=99, policy="fifo")
    engine.play(batch)
    assert (engine.totals.n_attempts, engine.totals.n_output) == (2, 2)


# ------------------------------------------------------------------------------------------------------ space, section 4


def test_the_papers_figures():
    # "n = 5, H = 10**6, D = 10**8": about 10 M + 6 * 10**6 bytes, and about 10 M + 4 * 10**9
    assert paper_bytes("ep", streams=5, memory=1000, hashes=10**6) == 10 * 1000 + 6 * 10**6 + 5 * 160
    assert paper_bytes("frequency", streams=5, memory=1000, keys=10**8) == 10 * 1000 + 4 * 10**9


@pytest.mark.parametrize("allocation", ("variable", "fixed"))
@pytest.mark.parametrize("n", (2, 3, 5))
@pytest.mark.parametrize("policy", KEYED)
def test_our_formulas_are_what_the_arrays_take(policy, n, allocation):
    trace = ps.generate(200, streams=tuple("RSTUV"[:n]), orders=0.0, delay=10, seed=3)
    engine, batch = opened(trace, window=100, memory=150, allocation=allocation, policy=policy)
    engine.play(batch)
    sizes = {"slots": len(engine.arrays["slots"]), "classes": len(engine.arrays["groups"])}
    pools = n if allocation == "fixed" else 1
    assert measured_bytes(policy, engine.arrays) == our_bytes(policy, streams=n, pools=pools, **sizes)
