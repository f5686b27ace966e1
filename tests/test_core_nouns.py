"""The nouns: windows, budgets, predicates, values and traces, each against its definition, and what they refuse."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
import penstock as ps
from penstock.core.budget import OVERHEAD, Budget
from penstock.core.predicate import Predicate
from penstock.core.problem import SWITCHES, Problem
from penstock.core.ranking import compare_products
from penstock.core.value import OBJECTIVES, Objective
from penstock.core.window import DEAD, NEVER, Window, parse_windows

STREAMS = ("R", "S")


def trace(**columns: Any) -> ps.Trace:
    """Two streams of two rows each unless told otherwise."""
    return ps.Trace({"stream": list("RSRS"), "time": [0, 0, 1, 1], "key": [1, 2, 2, 1]} | columns)


def refused(match: str) -> Any:
    return pytest.raises(ps.PenstockError, match=match)


# ------------------------------------------------------------------------------------------------------------- windows


def length_at(schedule: list[tuple[int, int]], t: int) -> int:
    return [length for begin, length in [(-math.inf, schedule[0][1]), *schedule] if begin <= t][-1]


# Whether a tuple of time u is inside at tick t >= u, provided that it was until then.
DEFINITIONS: dict[str, tuple[Any, Any]] = {
    "sliding": (3, lambda u, t: t - 3 < u <= t),
    "of one tick": (1, lambda u, t: u == t),
    "tumbling": ("tumbling:4", lambda u, t: u // 4 == t // 4),
    "tumbling by ticks": ("tumbling:1", lambda u, t: u == t),
    "landmark": ("landmark:5", lambda u, t: u >= 5),
    "landmark before zero": ("landmark:-2", lambda u, t: u >= -2),
    "unbounded": ("none", lambda u, t: True),
    "changing": ("0:6,10:2,15:4", lambda u, t: t - length_at([(0, 6), (10, 2), (15, 4)], u) < u),
}
INSTANTLY: dict[str, list[tuple[int, int]]] = {
    "shrinking": [(0, 6), (10, 2)],
    "growing": [(0, 2), (10, 7)],
    "back and forth": [(0, 6), (8, 1), (9, 6), (14, 3), (15, 12), (16, 1), (20, 5)],
    "late to begin": [(12, 3), (20, 9)],
}
LONG = 60
TIMES = np.arange(-9, 30)


def first_outside(u: int, inside: Any) -> int:
    """The first tick from u on at which the definition puts u outside; NEVER if none comes, DEAD if u never was inside."""
    if not inside(u, u):
        return DEAD
    return next((t for t in range(u + 1, u + LONG) if not inside(u, t)), NEVER)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_an_expiry_is_the_first_tick_outside(name):
    spec, inside = DEFINITIONS[name]
    assert Window.parse(spec).expiries(TIMES).tolist() == [first_outside(int(u), inside) for u in TIMES]


@pytest.mark.parametrize("name", INSTANTLY)
def test_a_window_that_changes_for_what_is_there_already(name):
    schedule = INSTANTLY[name]
    wanted = [first_outside(int(u), lambda u, t: u == t or t - length_at(schedule, t) < u) for u in TIMES]
    assert Window.parse(schedule).expiries(TIMES, instantly=True).tolist() == wanted


@pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))
@pytest.mark.parametrize("name", DEFINITIONS)
def test_two_tuples_join_iff_the_earlier_is_inside_when_the_later_comes(name, stepwise):
    spec, inside = DEFINITIONS[name]
    for u in range(-3, 18):
        # R at u; S at every tick around it; each pair by itself has a key of its own
        ticks = list(range(u - 8, u + 9))
        rows = sorted([("R", u, t) for t in ticks] + [("S", t, t) for t in ticks], key=lambda row: row[1])
        stream, time, key = zip(*rows, strict=True)
        joined = ps.exact(
            ps.Trace({"stream": list(stream), "time": list(time), "key": list(key)}, streams=STREAMS),
            window=spec, stepwise=stepwise, keep=ps.Keep(outputs=True),
        )  # fmt: skip
        late = {t for t in ticks if t >= u and inside(u, u) and inside(t, t) and inside(u, t)}
        early = {t for t in ticks if t < u and inside(u, u) and inside(t, t) and inside(t, u)}
        assert {time[row] for row in joined.outputs[:, 2]} == late | early


@pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))
@pytest.mark.parametrize("count", (1, 2, 3))
def test_a_window_of_rows_holds_the_last_of_its_stream(count, stepwise):
    # R     0   1   2   .   4   .   6        S asks at 3, 5 and 7: which R are among the last `count`?
    # S     .   .   .   3   .   5   .   7
    times = {"R": [0, 1, 2, 4, 6], "S": [3, 5, 7]}
    rows = sorted((t, name) for name, ticks in times.items() for t in ticks)
    table = ps.Trace({"stream": [name for _, name in rows], "time": [t for t, _ in rows], "key": [1] * len(rows)})
    run = ps.exact(table, window=f"R=rows:{count},S=rows:1", stepwise=stepwise, keep=ps.Keep(outputs=True))
    asked = [(r, s) for r, s in zip(table.time[run.outputs[:, 1]], table.time[run.outputs[:, 2]], strict=True) if r < s]
    assert sorted(asked) == sorted((r, s) for s in times["S"] for r in [t for t in times["R"] if t < s][-count:])


def test_a_window_of_rows_refuses_rows_out_of_order():
    late = trace(time=[0, 2, 1, 1])
    with refused("window rows:C needs times that do not decrease, got 1 after 2 in row 2"):
        ps.simulate(late, window="R=rows:3,S=9", memory=2)


def test_windows_by_stream():
    assert parse_windows("R=400,S=rows:8", STREAMS) == (Window("time", 400), Window("rows", 8))
    assert parse_windows({"S": None, "R": "tumbling:7"}, STREAMS) == (Window("tumbling", 7), Window("none"))
    assert parse_windows("R=0:4,9:2,S=5", STREAMS)[0].schedule == ((0, 4), (9, 2))
    assert parse_windows("2 minutes", STREAMS) == (Window("time", 120_000_000),) * 2
    assert parse_windows(datetime.timedelta(minutes=2), STREAMS) == (Window("time", 120_000_000),) * 2
    assert parse_windows("R=1 second,S=250 milliseconds", STREAMS) == (Window("time", 10**6), Window("time", 250_000))


@pytest.mark.parametrize(
    "window",
    (0, -3, "0", "-3", "three", 2.5, "2.5", math.nan, math.inf, True, "rows:0", "rows:x", "rows:", "tumbling:-1",
     "landmark:soon", "3 fortnights", 1 << 60, 10**30, "0:4,9", "0:4,x:2", "0:0", "", "400;", "ROWS:3", datetime.timedelta(0)),
)  # fmt: skip
def test_a_window_that_is_none_says_what_would_be_one(window):
    with refused("window must (be|count) .*, got "):
        ps.simulate(trace(), window=window, memory=2)


@pytest.mark.parametrize("window", ([], [(5, 1), (0, 2)], [(0, 1), (0, 2)], "5:1,0:2"))
def test_a_window_over_time_has_rising_times(window):
    with refused("window over time must have rising times, got"):
        ps.simulate(trace(), window=window, memory=2)


@pytest.mark.parametrize("window", ([("soon", 4)], [(0, 4, 5)], [0, 4], [(0, "long")]))
def test_a_window_over_time_is_made_of_pairs(window):
    with refused("window .*must be .*, got"):
        ps.simulate(trace(), window=window, memory=2)


@pytest.mark.parametrize("window", ({"R": 3}, {"R": 3, "S": 3, "T": 3}, "R=3,T=4"))
def test_windows_by_stream_name_every_stream(window):
    with refused("window must name each of the streams R, S, got R"):
        ps.simulate(trace(), window=window, memory=2)


def test_streams_with_numbers_are_named_by_numbers():
    numbered = ps.Trace({"stream": [1, 2, 1], "time": [0, 1, 2], "key": [5, 5, 5]})
    assert ps.simulate(numbered, window={1: 1, 2: 9}, memory={1: 2, "2": 1}).n_output == 1
    with refused("window must name each of the streams 1, 2, got 1, 1, 2"):
        ps.exact(numbered, window={1: 1, "1": 2, 2: 9})


def test_a_window_by_stream_says_whose_is_wrong():
    with refused("window of S must be a positive number of ticks"):
        ps.simulate(trace(), window="R=3,S=0", memory=2)
    with refused("window must read like R=400,S=800, got 'R=3,R=4'"):
        ps.simulate(trace(), window="R=3,R=4", memory=2)


def test_integers_of_numpy_are_whole_numbers():
    assert Window.parse(np.int64(4)) == Window.parse("4") == Window("time", 4)


# ------------------------------------------------------------------------------------------------------------- budgets


def test_budgets_in_rows():
    assert Budget.parse(5, STREAMS).caps.tolist() == [[5]]
    assert Budget.parse("5", STREAMS).pool.tolist() == [0, 0]
    assert Budget.parse(np.int64(7), STREAMS, allocation="fixed").caps.tolist() == [[3, 3]]
    assert Budget.parse(11, (*STREAMS, "T"), allocation="fixed").caps.tolist() == [[3, 3, 3]]
    assert Budget.parse({"S": 2, "R": 4}, STREAMS).caps.tolist() == [[4, 2]]
    by_name = Budget.parse("R=4,S=2", STREAMS)
    assert (by_name.caps.tolist(), by_name.pool.tolist(), by_name.in_bytes) == ([[4, 2]], [0, 1], False)


def test_budgets_over_time():
    for spec in ("0:9,10:3,20:6", [(0, 9), (10, 3), (20, 6)]):
        budget = Budget.parse(spec, STREAMS)
        assert (budget.times.tolist(), budget.caps.tolist(), budget.most) == ([0, 10, 20], [[9], [3], [6]], 9)
    assert Budget.parse("0:9,10:3", STREAMS, allocation="fixed").caps.tolist() == [[4, 4], [1, 1]]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000 B", 1000), ("1KB", 1000), ("1 kib", 1024), ("1.5 MB", 1_500_000), ("2MiB", 2 << 20), ("1 GB", 10**9), ("3GiB", 3 << 30)],
)
def test_budgets_in_bytes(text, size):
    budget = Budget.parse(text, STREAMS)
    assert (budget.most, budget.in_bytes) == (size, True)


@pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))
def test_a_tuple_weighs_its_size_and_an_overhead(stepwise):
    # Sizes 10, 20, 30, 40: the first three fit exactly, the fourth drives out the first two.
    sized = trace(key=[1, 2, 3, 4], time=[0, 1, 2, 3], size=[10, 20, 30, 40])
    options = {"window": 9, "policy": "fifo", "keep": ps.Keep(sheds=True), "stepwise": stepwise}
    run = ps.simulate(sized, memory=f"{60 + 3 * OVERHEAD} B", **options)
    assert (run.sheds.tolist(), run.peak_memory) == ([0, 1], 60 + 3 * OVERHEAD)
    assert ps.simulate(sized, memory=f"{100 + 4 * OVERHEAD} B", **options).n_shed == 0
    assert ps.simulate(sized, memory="1 B", **options).n_shed == 4


def test_a_budget_in_bytes_needs_sizes():
    with refused("memory in bytes needs a column 'size' in the trace; give a number of rows instead"):
        ps.simulate(trace(), window=2, memory="1 KB")


@pytest.mark.parametrize(
    "memory",
    (0, -3, "-3", 2.5, "2.5", "many", math.nan, math.inf, True, None, "", "0 B", "5 EB", "-1 KB", 10**30, [(0, 0)], "0:5,9:0"),
)
def test_a_memory_that_is_none_says_what_would_be_one(memory):
    with refused('memory must be a positive number of rows or a size such as "512 MB", got '):
        ps.simulate(trace(), window=2, memory=memory)


def test_memory_by_stream_says_whose_is_wrong():
    with refused("memory of S must be a positive number of rows"):
        ps.simulate(trace(), window=2, memory={"R": 1, "S": 0})
    with refused("memory must name each of the streams R, S, got R, T"):
        ps.simulate(trace(), window=2, memory="R=1,T=2")
    with refused("memory must be in rows or in bytes for all streams alike"):
        ps.simulate(trace(size=[1] * 4), window=2, memory={"R": 1, "S": "1 KB"})


@pytest.mark.parametrize("memory", ([], [(5, 1), (0, 2)], [(0, 1), (0, 2)], "5:1,0:2"))
def test_memory_over_time_has_rising_times(memory):
    with refused("memory over time must have rising times, got"):
        ps.simulate(trace(), window=2, memory=memory)


@pytest.mark.parametrize("memory", ([("soon", 4)], [(0, 4, 5)], [0, 4]))
def test_memory_over_time_is_made_of_pairs(memory):
    with refused("memory .*must be .*, got"):
        ps.simulate(trace(), window=2, memory=memory)


def test_memory_over_time_is_in_rows_or_in_bytes():
    with refused("memory"):
        ps.simulate(trace(size=[1] * 4), window=2, memory=[(0, "1 KB"), (5, 100)])


def test_fixed_allocation_needs_a_row_for_each_stream():
    with refused("memory must be at least 2 rows for fixed allocation to 2 streams, got 1"):
        ps.simulate(trace(), window=2, memory=1, allocation="fixed")


# ---------------------------------------------------------------------------------------------------------- predicates


@pytest.mark.parametrize("name", oracle.COMPARISONS)
def test_a_comparison_holds_between_the_earlier_and_the_later_stream(name):
    low, high = np.arange(4)[:, None], np.array([[3], [1], [1]])
    compare = oracle.COMPARISONS[name]
    wanted = [[compare(a, b) for b in (3, 1, 1)] for a in range(4)]
    assert Predicate.parse(name).matrix(low, high).tolist() == wanted


@pytest.mark.parametrize("epsilon", (0.0, 0.5, 1.0, 1.5, 5.0))
@pytest.mark.parametrize("dimensions", (1, 2, 3))
def test_an_epsilon_join_goes_by_euclidean_distance(dimensions, epsilon):
    random = np.random.default_rng(dimensions)
    low, high = random.integers(0, 4, (9, dimensions)), random.integers(0, 4, (7, dimensions))
    wanted = [[math.dist(a, b) <= epsilon for b in high] for a in low]
    assert Predicate.parse(f"eps:{epsilon}").matrix(low, high).tolist() == wanted


@pytest.mark.parametrize("dimensions", (1, 2))
def test_points_too_far_apart_for_floating_point_are_apart_without_a_warning(dimensions):
    far = np.array([[1e308] * dimensions, [-1e308] * dimensions])
    assert Predicate.parse("eps:1").matrix(far, far).tolist() == [[True, False], [False, True]]


def test_huge_whole_numbers_are_compared_exactly():
    huge = 2**53
    for predicate, wanted in (("<", 1), ("=", 0), (">", 0), ("!=", 1)):
        keyed = ps.Trace({"stream": list("RS"), "time": [0, 0], "key": [huge, huge + 1]})
        assert ps.exact(keyed, window=1, predicate=predicate).n_output == wanted


def test_a_function_sees_the_values_of_a_key():
    seen = []

    def longer(a: Any, b: Any) -> bool:
        seen.append((a, b))
        return len(a) > len(b)

    words = trace(key=["penstock", "weir", None, "sluice"])
    assert ps.exact(words, window=9, predicate=longer).n_output == 2
    assert set(seen) == {("penstock", "weir"), ("penstock", "sluice")}
    columns = {"stream": list("RS"), "time": [0, 0], "a": [1, 2], "b": ["x", "y"]}
    pairs = ps.Trace(columns, key="a,b")
    assert ps.exact(pairs, window=1, predicate=lambda a, b: (a, b) == ((1, "x"), (2, "y"))).n_output == 1


@pytest.mark.parametrize("predicate", ("~", "==", "", None, 3, "eps", "near:2"))
def test_a_predicate_that_is_none_says_what_would_be_one(predicate):
    with refused(r'predicate must be one of =, !=, <, <=, >, >=, "eps:0.5", a function of two keys, or links such as .*, got'):
        ps.simulate(trace(), window=2, memory=2, predicate=predicate)


@pytest.mark.parametrize("predicate", (lambda a: a, lambda a, b, c: a, lambda: True, lambda a, *, b: a))
def test_a_predicate_is_a_function_of_two_keys(predicate):
    with refused("predicate must be a function of two arguments, the keys of two tuples, got <function"):
        ps.simulate(trace(), window=2, memory=2, predicate=predicate)


def test_what_a_predicate_dies_of_is_told_with_the_keys():
    with refused("predicate must take any two keys, got ZeroDivisionError for 1 and 2: .*zero"):
        ps.simulate(trace(key=[1, 2, 1, 2]), window=2, memory=2, predicate=lambda a, b: 1 / (a + b - 3))


@pytest.mark.parametrize("predicate", ("eps:-1", "eps:nan", "eps:inf", "eps:x", "eps:"))
def test_an_epsilon_is_a_number(predicate):
    with refused("predicate eps must be a number >= 0, such as eps:0.5, got"):
        ps.simulate(trace(), window=2, memory=2, predicate=predicate)


def test_comparisons_need_numbers_and_one_column():
    with refused("key column 'key' must be numeric for this predicate, got string"):
        ps.simulate(trace(key=list("abab")), window=2, memory=2, predicate="<")
    two = ps.Trace({"stream": list("RS"), "time": [0, 0], "a": [1, 2], "b": [1, 2]}, key=("a", "b"))
    with refused("predicate '<' compares one key column, got 2"):
        ps.simulate(two, window=2, memory=2, predicate="<")
    assert ps.exact(two, window=2, predicate="!=").n_output == 1  # keys as wholes are equal or not


def test_dates_compare_as_numbers():
    days = pa.array([datetime.date(2024, 1, day) for day in (1, 2, 3, 4)])
    assert ps.exact(trace(key=days), window=9, predicate="<").n_output == 3
    assert ps.exact(trace(key=days), window=9, predicate=f"eps:{86400 * 10**6}").n_output == 3


# ----------------------------------------------------------------------------------------------------------- objectives


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_value_of_an_output(name):
    for members in ([3.0, 5.0], [5.0, 3.0, 4.0], [0.5, 0.25, 8.0, 1.0]):
        assert Objective.parse(name).of(members) == pytest.approx(oracle.VALUES[name](members))
    low, high = np.array([[1.0], [4.0]]), np.array([[2.0, 8.0]])
    wanted = [[oracle.VALUES[name]([a, b]) for b in (2.0, 8.0)] for a in (1.0, 4.0)]
    assert Objective.parse(name).pairs(low, high).tolist() == wanted


def test_the_default_objective_depends_on_the_trace():
    assert ps.exact(trace(), window=9).value == 2
    weighted = trace(importance=[1.0, 3, 5, 7])
    assert ps.exact(weighted, window=9).value == 4  # min(1, 7) + min(5, 3)
    assert ps.exact(weighted, window=9, objective="count").value == 2
    assert ps.exact(weighted, window=9, objective=lambda members: members[0] - members[1]).value == -6 + 2


def test_an_objective_that_is_none_is_refused():
    with refused(r"objective must be one of count, min, max, sum, product, avg, got 'mni' \(did you mean 'min'\?\)"):
        ps.simulate(trace(), window=2, memory=2, objective="mni")
    with refused("objective must return a number.*, got 'much'"):
        ps.exact(trace(), window=9, objective=lambda members: "much")
    with refused("objective must be a function of one argument"):
        ps.exact(trace(), window=9, objective=lambda low, high: low + high)


# -------------------------------------------------------------------------------------------------- traces: the columns


def test_the_columns_of_a_trace():
    full = trace(importance=[1, 2, 3, 4], lifetime=[5, 6, 7, 8], size=[1, 2, 3, 4], note=list("wxyz"))
    assert (len(full), full.n_streams, full.streams) == (4, 2, STREAMS)
    assert full.stream.tolist() == [0, 1, 0, 1]
    assert (full.importance.tolist(), full.importance.dtype) == ([1.0, 2.0, 3.0, 4.0], np.float64)
    assert (full.lifetime.tolist(), full.size.tolist()) == ([5, 6, 7, 8], [1, 2, 3, 4])
    assert full.table.column_names[-1] == "note"
    bare = trace()
    assert (bare.importance, bare.lifetime, bare.size) == (None, None, None)


def test_streams_are_ordered_by_first_appearance_or_as_declared():
    assert trace(stream=list("SRSR")).streams == ("S", "R")
    assert trace(stream=[7, 3, 7, 3]).streams == ("7", "3")
    declared = ps.Trace({"stream": list("SRS"), "time": [0] * 3, "key": [1] * 3}, streams=("R", "Q", "S"))
    assert (declared.streams, declared.stream.tolist()) == (("R", "Q", "S"), [2, 0, 2])


@pytest.mark.parametrize(
    "stream",
    (pa.array(list("RSRS")).dictionary_encode(), pa.array(list("RSRS"), pa.large_string()), pa.chunked_array([list("RS"), list("RS")]),
     pa.chunked_array([list("RS"), list("RS")]).dictionary_encode()),
    ids=("dictionary", "large", "chunked", "chunked dictionary"),
)  # fmt: skip
def test_a_stream_column_of_any_string_type(stream):
    assert (trace(stream=stream).streams, trace(stream=stream).stream.tolist()) == (STREAMS, [0, 1, 0, 1])


def test_from_streams_leaves_out_what_does_not_arrive():
    made = ps.Trace.from_streams(R=["a", None, "b"], S=["c"], T=[])
    assert made.table.to_pydict() == {"stream": ["R", "S", "R"], "time": [0, 0, 2], "key": ["a", "c", "b"]}
    assert made.streams == ("R", "S", "T")


def test_rows_that_go_back_in_time_are_counted():
    assert trace().n_backwards == 0
    assert trace(time=[5, 3, 4, 1]).n_backwards == 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"stream": None}, "stream missing, it has: time, key"),
        ({"time": None, "key": None}, "a trace needs the columns stream, time, key; time, key missing, it has: stream"),
        ({"time": [0.0, 0.0, 1.0, 1.5]}, "column 'time' must be of an integer or timestamp type, got double"),
        ({"time": list("0011")}, "column 'time' must be of an integer or timestamp type, got string"),
        ({"time": [0, None, 1, 1]}, "column 'time' must have no nulls, got one in row 1"),
        ({"time": [0, 0, 1, 1 << 61]}, r"column 'time' must stay between -2\*\*60 and 2\*\*60, got 2305843009213693952"),
        ({"time": [0, 0, 1, -(1 << 61)]}, r"column 'time' must stay between"),
        ({"time": [0, 0, 1, -(1 << 63)]}, r"column 'time' must stay between"),
        ({"time": pa.array([0, 0, 1, (1 << 64) - 1], pa.uint64())}, "column 'time' must stay below"),
        ({"time": [0, 0, 1, 1 << 70]}, "mixed or unusable values"),
        ({"time": [0, 0, 1]}, "the columns of a trace must have one length, got"),
        ({"stream": ["R", None, "R", "S"]}, "column 'stream' must have no nulls"),
        ({"stream": [0.5, 1.0, 0.5, 1.0]}, "column 'stream' must be of a string or integer type, got double"),
        ({"stream": ["R", 1, "R", 1]}, "a column of the trace has mixed or unusable values"),
        ({"key": [[1], [2], [2], [1]]}, "column 'key' is nested"),
        ({"note": [{"a": 1}] * 4}, "column 'note' is nested"),
        ({"importance": [1, 2, 0, 4]}, "column 'importance' must be .*, got 0 in row 2"),
        ({"importance": [1, -2, 3, 4]}, "column 'importance' must be .*, got -2 in row 1"),
        ({"importance": [1, 2, 3, math.nan]}, "column 'importance' must be .*, got nan in row 3"),
        ({"importance": [math.inf, 2, 3, 4]}, "column 'importance' must be .*, got inf in row 0"),
        ({"importance": [1, None, 3, 4]}, "column 'importance' must .* in row 1"),
        ({"importance": list("abcd")}, "column 'importance' must be numeric, got string"),
        ({"lifetime": [1, 2, 3, 0]}, "column 'lifetime' must be a whole number of at least 1, got 0 in row 3"),
        ({"lifetime": [1, 2.5, 3, 4]}, "column 'lifetime' must be of an integer type, got double"),
        ({"lifetime": [1, None, 3, 4]}, "column 'lifetime' must have no nulls, got one in row 1"),
        ({"lifetime": [1, 2, 3, 1 << 61]}, "column 'lifetime' must be"),
        ({"size": [1, 2, -3, 4]}, "column 'size' must be a whole number of at least 1, got -3 in row 2"),
    ],
)  # fmt: skip
def test_columns_that_are_refused(columns, message):
    complete = {"stream": list("RSRS"), "time": [0, 0, 1, 1], "key": [1, 2, 2, 1]} | columns
    with refused(message):
        ps.Trace({name: column for name, column in complete.items() if column is not None})


def test_an_empty_trace_and_a_trace_of_one_stream():
    with refused("the trace is empty: it needs at least one row"):
        ps.Trace({"stream": [], "time": [], "key": []})
    with refused("a join needs at least two streams, the trace has only R"):
        ps.simulate(trace(stream=list("RRRR")), window=2, memory=2)
    assert ps.exact(ps.Trace.from_streams(R="aa", S=""), window=2).n_output == 0


@pytest.mark.parametrize("streams", (("R",), ("R", "R", "S"), ("A", "B")))
def test_declared_streams_are_those_of_the_trace(streams):
    with refused("streams must name each stream of the trace once, got"):
        ps.Trace({"stream": list("RS"), "time": [0, 0], "key": [1, 1]}, streams=streams)


# ---------------------------------------------------------------------------------------------------- traces: the time


@pytest.mark.parametrize("unit", ("s", "ms", "us", "ns"))
@pytest.mark.parametrize("zone", (None, "Europe/Vienna"))
def test_timestamps_count_in_microseconds(unit, zone):
    seconds = pa.array([10, 10, 11, 11], pa.timestamp("s")).cast(pa.timestamp(unit, tz=zone))
    stamped = trace(time=seconds)
    assert stamped.timestamps and not trace().timestamps
    assert stamped.time.tolist() == [10_000_000, 10_000_000, 11_000_000, 11_000_000]
    assert ps.exact(stamped, window="1 second").n_output == 0
    assert ps.exact(stamped, window="2 seconds").n_output == 2


def test_timestamps_finer_than_a_microsecond_are_refused():
    with refused("column 'time' does not fit microseconds"):
        trace(time=pa.array([0, 1, 2, 3], pa.timestamp("ns")))


def test_times_may_be_negative_and_huge():
    for shift in (-(1 << 59), -5, 1 << 59):
        moved = trace(time=[shift, shift, shift + 1, shift + 1])
        assert ps.exact(moved, window=2).n_output == 2
        assert ps.exact(moved, window=1).n_output == 0


@pytest.mark.parametrize("kind", (pa.int8(), pa.int16(), pa.uint8(), pa.uint64()))
def test_times_of_any_integer_type(kind):
    assert trace(time=pa.array([0, 0, 1, 1], kind)).time.tolist() == [0, 0, 1, 1]


# ---------------------------------------------------------------------------------------------------- traces: the keys


def matches(*keys: Any, **options: Any) -> int:
    """How many pairs of R and S (rows R, S, R, S, ... of one instant) have equal keys."""
    columns = {"stream": (["R", "S"] * len(keys))[: len(keys)], "time": [0] * len(keys), "key": pa.array(keys, **options)}
    return ps.exact(ps.Trace(columns, streams=STREAMS), window=1).n_output


def test_equal_keys_match_whatever_their_type():
    assert matches(1, 1, 2, 3) == 1
    assert matches("a", "a", "b", "A") == 1
    assert matches("", "", " ", "") == 2
    assert matches(True, False, False, True) == 2
    assert matches(b"x", b"x") == 1
    assert matches(datetime.date(2024, 1, 1), datetime.date(2024, 1, 1)) == 1
    assert matches(decimal.Decimal("1.10"), decimal.Decimal("1.10"), decimal.Decimal("1.20"), None) == 1
    assert matches(2**64 - 1, 2**64 - 1, type=pa.uint64()) == 1
    assert matches(-(2**63), -(2**63), 0, 2**63 - 1) == 1


def test_null_and_nan_match_nothing():
    assert matches(None, None, None, None) == 0
    assert matches(1, None, None, 1) == 1
    assert matches(math.nan, math.nan, 1.0, 1.0, from_pandas=False) == 1
    assert matches(None, math.nan, from_pandas=False, type=pa.float64()) == 0
    assert matches("a", None, "a", "a") == 2


def test_the_two_zeros_are_equal():
    assert matches(0.0, -0.0) == 1


def test_dictionary_and_chunked_keys():
    plain = ["a", "b", "b", "a"]
    for key in (
        pa.array(plain).dictionary_encode(), pa.chunked_array([plain[:1], plain[1:]]), pa.array(plain, pa.large_string()),
        pa.chunked_array([plain[:2], plain[2:]]).dictionary_encode(),
    ):  # fmt: skip
        assert ps.exact(trace(key=key), window=9).n_output == 2


def test_keys_of_several_columns():
    columns = {"stream": list("RSRSRS"), "time": [0] * 6, "a": [1, 1, 1, 2, None, None], "b": list("xxyxxx")}
    for key in ("a,b", "a, b", ("a", "b"), ["b", "a"]):
        assert ps.exact(ps.Trace(columns, key=key), window=1).n_output == 1
    assert ps.exact(ps.Trace(columns, key="b"), window=1).n_output == 2 * 3
    with refused("a trace needs the columns stream, time, a, c; c missing, it has: stream, time, a, b"):
        ps.Trace(columns, key="a,c")


def test_keys_of_many_wide_columns():
    """The product of the numbers of values is far beyond 64 bits."""
    random = np.random.default_rng(0)
    rows, names = 600, "abcdefgh"
    half = {name: random.integers(0, 300, rows) for name in names}
    columns: dict[str, Any] = {"stream": ["R"] * rows + ["S"] * rows, "time": [0] * (2 * rows)}
    columns |= {name: np.concatenate([values, values]) for name, values in half.items()}
    assert ps.exact(ps.Trace(columns, key=tuple(names)), window=1).n_output == rows


def test_keys_that_differ_in_the_first_of_nine_columns_are_different():
    """255 values in each column: with the null that is eight bits, and nine times eight is more than 64."""
    names = "abcdefghi"
    rows = [("R", *(value if name == column else None for name in names)) for column in names for value in range(255)]
    rows += [("R", 200, *[1] * 8), ("S", 100, *[1] * 8)]
    columns = {name: list(values) for name, values in zip(("stream", *names), zip(*rows, strict=True), strict=True)}
    assert ps.exact(ps.Trace(columns | {"time": [0] * len(rows)}, key=tuple(names)), window=1).n_output == 0


# --------------------------------------------------------------------------------------------------- traces: the files


def a_full_trace() -> ps.Trace:
    more = {"importance": [1.5, 2, 3, 4], "lifetime": [5, 6, 7, 8], "size": [1, 2, 3, 4], "note": [None, "x y", 'q"', "ä"]}
    return trace(key=["a", None, "", "a"], **more)


@pytest.mark.parametrize("suffix", (".parquet", ".csv", ".jsonl", ".json", ".CSV"))
def test_a_trace_survives_its_file(tmp_path, suffix):
    file = tmp_path / f"trace{suffix}"
    written = a_full_trace()
    written.write(file)
    read = ps.read_trace(file)
    assert read.table.to_pydict() == written.table.to_pydict()
    assert read.key.tolist() == written.key.tolist()


@pytest.mark.parametrize("suffix", (".parquet", ".csv"))
def test_timestamps_survive_their_file(tmp_path, suffix):
    file = tmp_path / f"trace{suffix}"
    stamped = trace(time=pa.array([0, 0, 1_500_000, 1_500_000], pa.timestamp("us")))
    stamped.write(file)
    assert ps.read_trace(file).time.tolist() == stamped.time.tolist()


def test_a_csv_file_by_hand(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text('stream,time,key\nR,0,\nS,0,\nR,1,""\nS,1,""\nR,2,7\nS,2,7\n')
    read = ps.read_trace(file)
    assert ps.exact(read, window=1).n_output == 2  # empty is null, quoted it is a text
    assert ps.read_trace(str(file), streams=("S", "R")).streams == ("S", "R")


def test_json_lines_by_hand(tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text('{"stream": "R", "time": 0, "key": 1}\n{"stream": "S", "time": 0, "key": 1, "note": "x"}\n')
    assert ps.exact(ps.read_trace(file), window=1).n_output == 1
    file.write_text('{"stream": "R", "time": 0, "key": {"a": 1}}\n')
    with refused("column 'key' is nested"):
        ps.read_trace(file)


def test_files_that_cannot_be_read(tmp_path):
    with refused("there is no file '.*nowhere.csv'"):
        ps.read_trace(tmp_path / "nowhere.csv")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with refused("folder.csv' is a folder, not a file"):
        ps.read_trace(folder)
    with refused(r"the file to read must end in .parquet, .csv, .jsonl, .json, got '.*trace.txt'"):
        ps.read_trace(tmp_path / "trace.txt")
    for suffix in ("parquet", "jsonl", "csv"):
        broken = tmp_path / f"broken.{suffix}"
        broken.write_bytes(b"PAR1 \x00\xff{ not a table")
        with refused(r"is not a readable|a trace needs the columns"):
            ps.read_trace(broken)
        broken.write_bytes(b"")
        with refused(f"is not a readable {suffix} table"):
            ps.read_trace(broken)


def test_files_that_cannot_be_written(tmp_path):
    with refused("the file to write must end in"):
        trace().write(tmp_path / "trace.xls")
    with refused("there is no folder"):
        trace().write(tmp_path / "nowhere" / "trace.csv")


def test_a_parquet_file_with_nested_columns_is_refused(tmp_path):
    import pyarrow.parquet

    file = tmp_path / "nested.parquet"
    nested = pa.table({"stream": ["R", "S"], "time": [0, 1], "key": [1, 1], "tags": [["a"], ["b", "c"]]})
    pyarrow.parquet.write_table(nested, file)
    with refused("column 'tags' is nested"):
        ps.read_trace(file)


# ----------------------------------------------------------------------------------------------------- the other options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allocation": "even"}, "allocation must be one of variable, fixed, got 'even'"),
        ({"stats": "hole"}, r"stats must be one of whole, .* got 'hole' \(did you mean 'whole'\?\)"),
        ({"model": "in-place"}, r"model must be one of buffered, inplace, got 'in-place' \(did you mean 'inplace'\?\)"),
        ({"clock": "stream"}, r"clock must be one of global, streams, got 'stream' \(did you mean 'streams'\?\)"),
        ({"lateness": -1}, "lateness must be a number of ticks >= 0, got -1"),
        ({"lateness": {"R": 1}}, "lateness must name each of the streams R, S, got R"),
        ({"lateness": "R=1,S=x"}, "lateness of S must be"),
        ({"lateness": 1 << 60}, "lateness must be"),
        ({"start": "soon"}, "start must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"seed": -1}, "seed must be"),
        ({"alpha": 0}, "alpha must be a positive number, got 0"),
        ({"alpha": math.nan}, "alpha must be a positive number, got nan"),
        ({"beta": -1}, "beta must be a number >= 0, got -1"),
        ({"beta": "much"}, "beta must be a number >= 0, got 'much'"),
        ({"weights": (1, 2)}, r"weights must be three numbers \(importance, mn, time\), got \(1, 2\)"),
        ({"weights": (1, 2, math.inf)}, "weights must be finite"),
        ({"weights": 3}, "weights must be three numbers"),
        ({"switches": {"dgl_init": "simpprob"}}, r"switch must be one of .* got 'dgl_init' \(did you mean 'dgl-init'\?\)"),
        ({"switches": {"mn": "both"}}, r"switch mn must be one of memory\+arrivals, memory, got 'both'"),
    ],
)
def test_options_that_are_refused(options, message):
    with refused(message):
        ps.simulate(trace(), **{"window": 2, "memory": 2} | options)


def test_a_lifetime_in_ticks_cannot_replace_a_window_of_rows():
    with refused("window rows:C counts rows, which a column 'lifetime' in ticks cannot replace"):
        ps.simulate(trace(lifetime=[1] * 4), window="rows:3", memory=2)


def test_the_first_reading_of_a_switch_is_the_default():
    problem = Problem.of(STREAMS, window=2, memory=2, switches={"mn": "memory"})
    assert problem.switch("mn") == "memory"
    for name, readings in SWITCHES.items():
        assert Problem.of(STREAMS, window=2, memory=2).switch(name) == readings[0]


def test_a_start_counts_outputs_from_then_on():
    counted = [ps.exact(trace(key=[1] * 4), window=9, start=start).n_output for start in (None, 0, 1, 2)]
    assert counted == [4, 4, 3, 0]


def test_progress_is_told_of_every_row():
    for stepwise in (False, True):
        told: list[int] = []
        ps.simulate(ps.generate(50, seed=1), window=9, memory=9, progress=told.append, stepwise=stepwise)
        assert sum(told) == 100


def test_a_run_has_only_what_was_asked_for():
    run = ps.simulate(trace(), window=9, memory=2, policy="fifo")
    assert (run.outputs, run.sheds, run.memory_log, run.series) == (None, None, None, None)
    assert run.summary() == {
        "policy": "fifo", "n_input": 4, "n_output": 2, "value": 2.0, "n_shed": 2, "n_expired": 0, "n_late": 0, "peak_memory": 2,
    }  # fmt: skip
    full = ps.simulate(trace(), window=9, memory=2, policy="fifo", keep=ps.Keep(True, True, True, True, True))
    assert full.outputs.tolist() == [[1, 2, 1], [1, 0, 3]]
    assert full.series.tolist() == [[0, 1, 1], [1, 1, 1]]


def test_products_are_compared_exactly_where_floats_cannot_tell():
    assert compare_products(3, 2.0**61, 6, 2.0**60) == 0
    assert compare_products(3, 2.0**70, 6, 2.0**69) == 0
    assert compare_products((1 << 60) + 1, 3.0, 1 << 60, 3.0) == 1
    assert compare_products(1 << 60, 3.0, (1 << 60) + 1, 3.0) == -1
    assert compare_products(5, 0.1, 10, 0.05) == 0
