"""Shards in the simulator: what one does by itself, what they do together, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import penstock as ps
from penstock.shard.spark_hash import placed
from strategies import EVERYTHING, later


def a_trace(n: int = 300, *, disorder: int = 0, seed: int = 3) -> ps.Trace:
    plain = ps.generate(n, keys=20, importance="uniform", top=4, disorder=disorder, seed=seed)
    sizes = np.random.default_rng(1).integers(1, 90, len(plain))
    return ps.Trace(plain.table.append_column("size", [sizes]), streams=plain.streams)


def alone(trace: ps.Trace, shard: int, shards: int) -> tuple[ps.Trace, Any]:
    """The rows of one shard as a trace, and their numbers."""
    mine = np.flatnonzero(placed([trace.table["key"]], len(trace), shards) == shard)
    return ps.Trace(trace.table.take(mine), streams=trace.streams), mine


EACH = [
    *((policy, False) for policy in ps.POLICIES),
    *((policy, True) if policy in ("fifo", "prob", "dgl") else later(policy, True) for policy in ps.POLICIES),
]


@pytest.mark.parametrize(("policy", "stepwise"), EACH)
def test_each_shard_plays_its_rows_in_its_part_of_the_memory(policy, stepwise):
    trace, options = a_trace(), {"window": 30, "policy": policy, "seed": 2, "keep": EVERYTHING, "stepwise": stepwise}
    got = ps.simulate(trace, memory=25, shards=3, **options)
    parts = [(ps.simulate(own, memory=8, clock="streams", **options), rows) for own, rows in (alone(trace, n, 3) for n in range(3))]
    for name in ("n_input", "n_output", "n_shed", "peak_memory"):
        assert getattr(got, name) == sum(getattr(run, name) for run, _ in parts), name
    assert got.value == pytest.approx(sum(run.value for run, _ in parts))
    wanted = Counter((time, rows[r], rows[s]) for run, rows in parts for time, r, s in run.outputs.tolist())
    assert Counter(map(tuple, got.outputs.tolist())) == wanted
    assert sorted(got.sheds.tolist()) == sorted(row for run, rows in parts for row in rows[run.sheds].tolist())
    assert got.n_shed > 0 and all(len(rows) <= 24 for _, rows in got.memory_log)


def test_what_is_written_down_is_of_all_shards_together():
    trace = a_trace()
    run = ps.simulate(trace, window=30, memory=24, shards=3, policy="fifo", keep=EVERYTHING)
    times = np.unique(trace.time)
    assert run.series[:, 0].tolist() == times.tolist() == [time for time, _ in run.memory_log]
    for (_, rows), (_, *held) in zip(run.memory_log, run.series.tolist(), strict=True):
        assert np.bincount(trace.stream[rows], minlength=2).tolist() == held
        assert rows.tolist() == sorted(rows.tolist())
    assert (np.diff(run.outputs[:, 0]) >= 0).all()
    assert (np.diff(run.shed_at) >= 0).all() and (trace.time[run.sheds] <= times[run.shed_at]).all()
    assert len(run.expired) == run.n_expired and not set(run.expired.tolist()) & set(run.sheds.tolist())


def test_one_shard_is_the_simulator_with_the_clock_of_the_streams():
    trace = a_trace()
    options = {"window": 30, "memory": 20, "policy": "prob", "keep": EVERYTHING}
    one, plain = ps.simulate(trace, shards=1, **options), ps.simulate(trace, clock="streams", **options)
    assert one.outputs.tolist() == sorted(plain.outputs.tolist(), key=lambda row: row[0]) and one.n_shed == plain.n_shed
    rows = ps.simulate(trace, window="rows:9", memory=5, half_life=30, shards=1)
    assert rows.n_output == ps.simulate(trace, window="rows:9", memory=5, half_life=30, clock="streams").n_output


def test_ample_memory_is_the_exact_join_in_any_batches():
    trace = a_trace(disorder=7)
    whole = ps.exact(trace, window=20)
    for batch, lateness in ((None, 0), (50, 7), (1, 7)):
        run = ps.simulate(trace, window=20, memory=4000, shards=4, batch=batch, lateness=lateness)
        assert (run.n_output, run.n_shed) == (whole.n_output, 0)
    assert run.n_late == 0 < ps.simulate(trace, window=20, memory=4000, shards=4, batch=1).n_late


def test_between_batches_shards_hear_how_far_the_others_have_come():
    # R   a at 0, b at 50         a and b are in different shards; when the batch of b is over, a has expired, which
    # S   b at 50                 the shard of a cannot know by itself
    keys = ["a", "b", "b"]
    places = placed([pa.chunked_array([keys])], 3, 2)
    assert places[0] != places[1]
    trace = ps.Trace({"stream": ["R", "R", "S"], "time": [0, 50, 50], "key": keys})
    assert ps.simulate(trace, window=10, memory=8, shards=2).n_expired == 1
    # Then S has b at 61, and an a of time 1 comes along with it.
    late = ps.Trace({"stream": list("RRSSS"), "time": [0, 50, 50, 61, 1], "key": [*keys, "b", "a"]})
    together = ps.simulate(late, window=10, memory=8, shards=2)  # one batch, played in the order of time
    assert (together.n_output, together.n_late) == (2, 0)
    heard = ps.simulate(late, window=10, memory=8, shards=2, batch=10)
    assert (heard.n_output, heard.n_late) == (1, 1)


def test_a_memory_in_bytes_leaves_the_room_that_spark_takes_from_it():
    trace = a_trace()
    run = ps.simulate(trace, window=30, memory="20 KB", shards=2, policy="fifo")
    assert run.n_shed > 0 and run.peak_memory <= 20_000 * 0.75 * 0.75
    fixed = ps.simulate(trace, window=30, memory={"R": 10, "S": 5}, shards=2, policy="fifo", keep=EVERYTHING)
    assert max(held for _, held, _ in fixed.series.tolist()) == 10 and max(held for _, _, held in fixed.series.tolist()) == 4


@pytest.mark.parametrize("window", ("tumbling:16", "landmark:100", "0:20,100:4,200:30"))
def test_windows_of_other_kinds_than_a_length_are_played_in_shards(window):
    trace = a_trace()
    options = {"window": window, "half_life": 20, "policy": "prob", "keep": EVERYTHING}
    got = ps.simulate(trace, memory=24, shards=3, **options)
    parts = [ps.simulate(alone(trace, n, 3)[0], memory=8, clock="streams", **options) for n in range(3)]
    assert (got.n_output, got.n_shed) == (sum(run.n_output for run in parts), sum(run.n_shed for run in parts)) and got.n_shed > 0
    assert ps.simulate(trace, memory=4000, shards=3, batch=20, **options).n_output == ps.exact(trace, window=window).n_output


def test_a_memory_by_stream_that_changes_is_divided_at_all_times():
    memory = {"R": [(0, 12), (150, 6)], "S": [(0, 8), (100, 20)]}
    run = ps.simulate(a_trace(), window=30, memory=memory, shards=2, policy="fifo", keep=EVERYTHING)
    parts = [[row for row in run.series.tolist() if a <= row[0] < b] for a, b in ((0, 100), (100, 150), (160, 999))]
    # A shard sheds what has no room with its first instant after the change, which is soon after 150 in both.
    assert [(max(r for _, r, _ in part), max(s for *_, s in part)) for part in parts] == [(12, 8), (12, 20), (6, 20)]


class Longest(ps.Policy):
    """Keeps what has produced most, and counts its own calls: a copy of it is in each shard."""

    name = "longest"

    def __init__(self) -> None:
        self.calls = 0

    def score(self, view: ps.View) -> Any:
        self.calls += 1
        return view.produced + view.row / 1e9


def test_a_policy_of_ones_own_is_copied_into_each_shard():
    own = Longest()
    run = ps.simulate(a_trace(60), window=30, memory=8, shards=2, policy=own)
    assert run.policy == "longest" and run.n_shed > 0 and own.calls == 0


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no number": ({"shards": 0}, "shards must be a whole number >= 1, got 0"),
    "too many": ({"shards": 10_001}, "shards must be at most 10,000"),
    "memory too small": ({"shards": 30}, "memory must hold at least one row per shard"),
    "rows": ({"window": "rows:5", "half_life": 4}, "shards must be 1 where a window counts the rows of a whole stream, as that of"),
    "another predicate": ({"predicate": "<"}, "shards are simulated for equal keys only, got predicate '<'"),
    "links": ({"predicate": "R.key = S.key"}, "for equal keys only, got predicate 'links'"),
    "the future": ({"stats": "whole"}, "stats of a join in shards must be one of window, decayed, sketch, got 'whole'"),
    "the optimum": ({"policy": "opt"}, "policy 'opt' replays the optimum of one memory, got shards"),
    "in place": ({"model": "inplace"}, "model of a join in shards must be one of buffered, got 'inplace'"),
    "the global clock": ({"clock": "global"}, "clock of a join in shards must be one of streams, got 'global'"),
    "rows ahead": ({"ahead": 5}, "ahead must be left out with shards"),
    "a batch of nothing": ({"batch": 0}, "batch must be a positive number of ticks or a duration such as \"1 minute\", got 0"),
    "a batch alone": ({"batch": 5, "shards": None}, "needs shards, got 5 without"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "said"), REFUSED.values(), ids=REFUSED)
def test_what_spark_does_not_do_is_refused(options, said):
    with pytest.raises(ps.PenstockError) as error:
        ps.simulate(a_trace(20), **{"window": 5, "memory": 20, "shards": 2} | options)
    assert said in str(error.value)
    with pytest.raises(ps.PenstockError, match="exact must be told no other than"):
        ps.exact(a_trace(20), window=5, shards=2)


def test_lifetimes_are_played_in_shards():
    table = a_trace().table
    mortal = ps.Trace(table.append_column("lifetime", pa.array([1 + 7 * n % 30 for n in range(len(table))])), streams=("R", "S"))
    options = {"window": 20, "policy": "life", "keep": EVERYTHING}
    got = ps.simulate(mortal, memory=24, shards=3, **options)
    parts = [ps.simulate(alone(mortal, n, 3)[0], memory=8, clock="streams", **options) for n in range(3)]
    assert (got.n_output, got.n_shed) == (sum(run.n_output for run in parts), sum(run.n_shed for run in parts)) and got.n_shed > 0
    assert ps.simulate(mortal, memory=4000, shards=3, **options).n_output == ps.exact(mortal, window=20).n_output


def test_keys_that_spark_cannot_hash_are_refused():
    table = a_trace(20).table
    noon = table.set_column(table.column_names.index("key"), "key", pa.array([5] * len(table), pa.time64("us")))
    with pytest.raises(ps.PenstockError, match=r"keys of several shards must be numbers, .* got time64"):
        ps.simulate(ps.Trace(noon), window=5, memory=20, shards=2)
