"""`generate`: the distributions that it promises, the bounds that it keeps, and independence of what was not asked."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from penstock.cli import run as command_line
from penstock.core.errors import PenstockError
from penstock.core.tables import read_table
from penstock.core.trace import Trace
from penstock.generator.generate import generate
from penstock.generator.zipf import Generator, zipf_probabilities
from places import ROOT


def keys_of(trace, stream):
    return trace.table["key"].to_numpy()[trace.stream == trace.streams.index(stream)]


def by_frequency(trace, stream, keys):
    """The keys of a stream, the most frequent first, as they came out."""
    return np.argsort(-np.bincount(keys_of(trace, stream), minlength=keys), kind="stable")


def per_tick(trace, stream, n):
    return np.bincount(trace.time[trace.stream == trace.streams.index(stream)], minlength=n)


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 2.0])
def test_frequencies_follow_zipf(skew):
    # A group for every key: then the importance tells the rank that the generator meant.
    trace = generate(20_000, skew=skew, keys=20, importance="rare", groups=20, top=10**9, seed=3)
    rank = np.unique(trace.importance, return_inverse=True)[1]
    expected = 20_000 * zipf_probabilities(20, skew)
    for number in range(2):
        observed = np.bincount(rank[trace.stream == number], minlength=20)
        assert chisquare(observed, expected).pvalue > 0.01


def test_zipf_probabilities():
    assert zipf_probabilities(4, 0).tolist() == [0.25] * 4
    weights = np.array([1, 1 / 4, 1 / 9])
    np.testing.assert_allclose(zipf_probabilities(3, 2), weights / weights.sum())


def test_skew_and_rate_may_differ_by_stream():
    trace = generate(5000, skew=(2.0, 0.0), rate=(1, 3), keys=10)
    assert len(keys_of(trace, "R")) == 5000
    assert len(keys_of(trace, "S")) == 15_000
    assert np.bincount(keys_of(trace, "R")).max() / 5000 == pytest.approx(zipf_probabilities(10, 2.0)[0], abs=0.03)
    assert np.bincount(keys_of(trace, "S")).max() / 15_000 == pytest.approx(0.1, abs=0.02)


def test_ranks_agree_disagree_or_contradict():
    options = {"streams": ("A", "B", "C"), "keys": 8, "skew": 2.0, "seed": 1}
    orders = {
        ranks: [by_frequency(generate(200_000, ranks=ranks, **options), stream, 8).tolist() for stream in "ABC"]
        for ranks in ("correlated", "anti-correlated", "uncorrelated")
    }
    a, b, c = orders["correlated"]
    assert a == b == c
    a, b, c = orders["anti-correlated"]
    assert a == c == b[::-1]
    a, b, c = orders["uncorrelated"]
    assert a != b != c != a
    assert orders["correlated"][0] == orders["anti-correlated"][0] == a


def test_uncorrelated_ranks_are_uncorrelated_on_average():
    correlations = []
    for seed in range(200):
        trace = generate(1500, skew=1.5, keys=30, seed=seed)
        counts = [np.bincount(keys_of(trace, stream), minlength=30) for stream in "RS"]
        correlations.append(np.corrcoef(*counts)[0, 1])
    # The correlation of random permutations has mean 0 and, over 30 keys, a deviation of 1 / sqrt(29).
    assert abs(np.mean(correlations)) < 3 / np.sqrt(29 * 200)


def test_one_tuple_per_stream_and_tick_in_the_order_of_streams():
    trace = generate(50, streams=("S", "R", "T"))
    assert trace.streams == ("S", "R", "T")
    assert trace.time.tolist() == [t for t in range(50) for _ in range(3)]
    assert trace.stream.tolist() == [0, 1, 2] * 50
    assert trace.importance is None


def test_a_fractional_rate_is_poisson():
    counts = per_tick(generate(20_000, rate=2.5), "S", 20_000)
    assert counts.mean() == pytest.approx(2.5, rel=0.02)
    assert counts.var() == pytest.approx(2.5, rel=0.05)


def test_bursts_multiply_the_rate_at_the_end_of_every_period():
    counts = per_tick(generate(20, rate=2, burst="5:2:3"), "R", 20)
    assert counts.tolist() == [2, 2, 2, 6, 6] * 4
    counts = per_tick(generate(50_000, rate=0.5, burst="10:4:8"), "S", 50_000).reshape(-1, 10)
    assert counts[:, :6].mean() == pytest.approx(0.5, rel=0.03)
    assert counts[:, 6:].mean() == pytest.approx(4.0, rel=0.03)


@given(st.integers(0, 12), st.integers(0, 99))
def test_disorder_delays_arrival_by_a_bounded_number_of_ticks(disorder, seed):
    trace = generate(60, disorder=disorder, seed=seed)
    newest = np.maximum.accumulate(trace.time)
    assert (newest - trace.time).max() <= disorder
    in_order = generate(60, seed=seed)
    for stream in trace.streams:
        code = trace.streams.index(stream)
        put_back = np.argsort(trace.time[trace.stream == code], kind="stable")
        assert (keys_of(trace, stream)[put_back] == keys_of(in_order, stream)).all()


def test_disorder_uses_all_of_its_bound():
    trace = generate(5000, disorder=7)
    assert (np.maximum.accumulate(trace.time) - trace.time).max() == 7
    assert trace.n_backwards > 1000
    assert generate(100, disorder=1).n_backwards > 10


def test_rare_keys_are_important_in_their_own_stream():
    trace = generate(100_000, skew=1.0, keys=20, importance="rare", groups=4, top=64)
    for number, stream in enumerate(trace.streams):
        worth = np.empty(20)
        worth[keys_of(trace, stream)] = trace.importance[trace.stream == number]
        ranked = worth[by_frequency(trace, stream, 20)]
        assert sorted(ranked.tolist()) == [1] * 5 + [4] * 5 + [16] * 5 + [64] * 5
        # Neighbours in rank may swap places in a finite sample, groups may not.
        means = ranked.reshape(4, 5).mean(axis=1).tolist()
        assert means == sorted(means)
    assert np.median(trace.importance) <= 4 < trace.importance.max() == 64


def test_importance_by_key_is_the_same_in_all_streams():
    trace = generate(5000, keys=20, importance="key", streams=("R", "S", "T"))
    key = trace.table["key"].to_numpy()
    assert all(len(set(trace.importance[key == value])) == 1 for value in range(20))
    rare = generate(5000, keys=20, importance="rare", streams=("R", "S", "T"))
    assert (trace.importance == rare.importance)[trace.stream == 0].all()
    assert not (trace.importance == rare.importance).all()


def test_uniform_importance_is_drawn_for_every_tuple():
    trace = generate(20_000, importance="uniform", top=8)
    assert chisquare(np.bincount(trace.importance.astype(int))[1:]).pvalue > 0.01
    assert set(trace.importance) == set(range(1, 9))


@pytest.mark.parametrize("ranks", ["correlated", "uncorrelated", "anti-correlated"])
def test_same_seed_same_trace_and_other_seed_other_trace(ranks):
    options = {"ranks": ranks, "rate": 1.5, "burst": "20:5:3", "disorder": 4, "importance": "uniform"}
    assert generate(300, seed=5, **options).table.equals(generate(300, seed=5, **options).table)
    assert not generate(300, seed=5, **options).table.equals(generate(300, seed=6, **options).table)


def test_what_is_added_leaves_the_rest_alone():
    plain = generate(300, rate=1.5, seed=2)
    more = generate(300, rate=1.5, seed=2, streams=("R", "S", "T"), importance="uniform")
    for stream in ("R", "S"):
        assert (keys_of(plain, stream) == keys_of(more, stream)).all()
        assert (per_tick(plain, stream, 300) == per_tick(more, stream, 300)).all()
    correlated = generate(300, rate=1.5, seed=2, ranks="correlated")
    assert (keys_of(plain, "R") == keys_of(correlated, "R")).all()


def test_drift_renames_all_keys_and_changes_nothing_else():
    options = {"n": 900, "keys": 20, "rate": 1.5, "disorder": 3, "importance": "rare", "seed": 4}
    still, moved = generate(**options), generate(**options, drift=300)
    period = moved.time // 300
    assert set(period) == {0, 1, 2}
    names = [set(moved.table["key"].to_numpy()[period == number]) for number in range(3)]
    assert not (names[0] & names[1] or names[1] & names[2] or names[0] & names[2])
    assert (moved.table["key"].to_numpy() - 20 * period == still.table["key"].to_numpy()).all()
    for column in ("stream", "time", "importance"):
        assert moved.table[column].equals(still.table[column])


def test_drift_is_the_same_however_a_stretch_is_cut():
    made = Generator(keys=9, drift=100, seed=2)
    whole, parts = made.arrivals(0, 1500), [made.arrivals(begin, begin + 300) for begin in range(0, 1500, 300)]
    assert whole["key"].to_pylist() == [key for part in parts for key in part["key"].to_pylist()]
    assert (whole["key"].to_numpy() // 9 == whole["time"].to_numpy() // 100).all()


def test_one_kind_after_another_is_both_with_new_keys():
    zipf, clicks = generate(500, keys=30, seed=1), generate(500, sessions="2:4", seed=2)
    both = generate(500, sessions="2:4", seed=2, after=zipf)
    assert both.table.slice(0, len(zipf)).equals(zipf.table)
    rest = both.table.slice(len(zipf))
    assert rest["time"].to_pylist() == (clicks.time + 500).tolist()
    assert rest["stream"].equals(clicks.table["stream"])
    shift = rest["key"].to_numpy() - clicks.table["key"].to_numpy()
    assert set(shift) == {int(zipf.table["key"].to_numpy().max()) + 1}
    thrice = generate(100, orders="listed", after=both)
    assert not set(thrice.table["key"].to_numpy()[: len(both)]) & set(thrice.table["key"].to_numpy()[len(both) :])
    assert thrice.n_backwards == 0


def test_keys_below_zero_stay_apart_too():
    first = generate(300, orders=0.0, repeats=10_000.0)
    assert min(first.table["key"].to_pylist()) < 0
    both = generate(300, orders=0.0, repeats=10_000.0, after=first).table["key"].to_numpy()
    assert not set(both[: len(first)]) & set(both[len(first) :])


def test_one_kind_after_another_from_the_command_line(tmp_path, capsys):
    first, both = tmp_path / "first.csv", tmp_path / "both.parquet"
    assert command_line(["generate", str(first), "--n", "200", "--keys", "9", "--drift", "50", "--seed", "3"]) == 0
    arguments = ["--n", "300", "--sessions", "3:5", "--delay", "uniform:2:9", "--rate", "2,1", "--after", str(first)]
    assert command_line(["generate", str(both), *arguments]) == 0
    begun = generate(200, keys=9, drift=50, seed=3)
    wanted = generate(300, sessions="3:5", delay="uniform:2:9", rate=(2, 1), after=begun)
    assert read_table(both).to_pylist() == wanted.table.to_pylist()
    assert command_line(["generate", str(both), "--sessions", "many"]) == 2
    assert "sessions must be least:most" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n must be a whole number of ticks >= 1, got 0"),
        ({"n": 2.5}, "n must be a whole number of ticks >= 1, got 2.5"),
        ({"keys": 0}, "keys must be a whole number of keys >= 1, got 0"),
        ({"skew": -1}, "skew must be a number >= 0 or one per stream, got -1"),
        ({"skew": (1, 2, 3)}, r"skew must be a number >= 0 or one per stream, got \(1, 2, 3\)"),
        ({"skew": float("nan")}, "skew must be a number >= 0 or one per stream, got nan"),
        ({"skew": "steep"}, "skew must be a number >= 0 or one per stream, got 'steep'"),
        ({"rate": 0}, "rate must be a number > 0 or one per stream, got 0"),
        ({"rate": [1, True]}, r"rate must be a number > 0 or one per stream, got \[1, True\]"),
        ({"n": 1, "rate": 1e-9}, "rate must give at least one tuple in 1 ticks, got 1e-09"),
        ({"ranks": "corelated"}, "ranks must be one of .* got 'corelated' .did you mean 'correlated'"),
        ({"burst": "10:20:2"}, "burst must be period:length:factor, .*such as \"100:10:5\", got '10:20:2'"),
        ({"burst": "10:2"}, "burst must be period:length:factor, .* got '10:2'"),
        ({"burst": "10:2:-1"}, "burst must be period:length:factor, .* got '10:2:-1'"),
        ({"disorder": -1}, "disorder must be a whole number of ticks >= 0, got -1"),
        ({"importance": "rarest"}, "importance must be one of rare, uniform, key, special:SHARE, got 'rarest'"),
        ({"importance": "rare", "groups": 60}, "groups must be at most keys, 50, got 60"),
        ({"groups": 0}, "groups must be a whole number >= 1, got 0"),
        ({"top": 0.5}, "top must be a whole number >= 1, got 0.5"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"streams": "RS"}, "streams must be a list of different names .* got 'RS'"),
        ({"streams": ("R", "R")}, "streams must be a list of different names"),
        ({"streams": ()}, "streams must be a list of different names"),
        ({"delay": 20}, "delay says how keys visit streams, and needs orders= or sessions=, got none"),
        ({"first": "complete"}, "first says how keys visit streams"),
        ({"repeats": 9.0}, "repeats says how keys visit streams"),
        ({"alone": 0.3}, "alone says how keys visit streams, and needs orders=, got none"),
        ({"sessions": "5:20", "alone": 0.3}, "alone says how keys visit streams, and needs orders=, got sessions="),
        ({"sessions": "5:20", "orders": 1.0}, "orders and sessions are two kinds of keys"),
        ({"sessions": "5:20", "drift": 9}, "drift does not go with sessions='5:20', which has keys of its own"),
        ({"sessions": "5"}, "sessions must be least:most, two whole numbers of clicks such as \"5:20\", got '5'"),
        ({"sessions": "20:5"}, "sessions must be least:most"),
        ({"sessions": "0:5"}, "sessions must be least:most"),
        ({"sessions": "5:20", "delay": "uniform:60:5"}, "delay must be .* got 'uniform:60:5'"),
        ({"sessions": "5:20", "rate": (1, 0)}, r"rate must be a number > 0 or one per stream, got \(1, 0\)"),
        ({"sessions": "5:20", "rate": 1e9}, "rate must make at most 1,000,000,000 rows"),
        ({"drift": 0}, "drift must be a whole number of ticks >= 1, got 0"),
        ({"after": "Zipf"}, r"after must be a trace, such as ps.generate\(1000\), got 'Zipf'"),
        ({"after": generate(9, streams=("A", "B"))}, r"streams must be those of after, \('A', 'B'\), got \('R', 'S'\)"),
        ({"after": generate(9, importance="rare")}, "after must be a trace with the columns stream, time, key, as what follows"),
        ({"after": Trace.from_streams(R="ab", S="ab")}, "after must be a trace with whole numbers in the column key"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(PenstockError, match=message):
        generate(**options)


@pytest.mark.jit_only  # minutes without compilation
def test_the_examples_of_the_guide_run():
    failed, tried = doctest.testfile(str(ROOT / "docs" / "generator.md"), module_relative=False)
    assert (failed, tried > 5) == (0, True)


def test_special_tuples_have_about_the_share_that_was_asked_for_and_are_the_rarest():
    for skew in (0.0, 1.0):
        trace = generate(50_000, keys=100, skew=skew, importance="special:0.05", top=7, seed=4)
        for number in range(2):
            key, worth = np.asarray(trace.table["key"])[trace.stream == number], trace.importance[trace.stream == number]
            assert set(worth.tolist()) == {1.0, 7.0}
            assert abs((worth == 7).mean() - 0.05) < 0.01
            counts = np.bincount(key, minlength=100)
            special = np.unique(key[worth == 7])
            ordinary = np.setdiff1d(np.arange(100), special)
            assert len(np.unique(worth[np.isin(key, special)])) == 1
            if skew:
                assert counts[special].mean() < counts[ordinary].min() * 1.2
    one = generate(100, keys=3, importance="special:0.01", seed=1)
    assert set(one.importance.tolist()) == {1.0, 100.0}  # at least one key


@pytest.mark.parametrize("wrong", ("special:", "special:0", "special:1", "special:x", "special:nan", "specials"))
def test_a_share_of_special_tuples_is_between_nothing_and_all(wrong):
    with pytest.raises(PenstockError, match="importance must be"):
        generate(100, importance=wrong)
