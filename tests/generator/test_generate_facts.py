"""`generate_facts`: facts as different, as skewed and as long there as was asked, and the same ones for the same seed."""

import datetime
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from penstock.cli import run as command_line
from penstock.core.errors import PenstockError
from penstock.core.tables import read_table
from penstock.core.trace import Trace
from penstock.generator.facts import _LISTED, generate_facts
from penstock.generator.generate import generate
from penstock.generator.zipf import zipf_probabilities

FAR = 10**9


def stays(table):
    """Each row as (fact, begin, end), with numbers for none."""
    rows = table.to_pylist()
    return [((r["a"], r["b"]), -FAR if r["begin"] is None else r["begin"], FAR if r["end"] is None else r["end"]) for r in rows]


def test_the_settings_of_towne():
    trace = generate(5000, keys=50, skew=(1.0, 0.0), importance="rare", seed=1)
    table = generate_facts(trace, 250, seed=1)
    assert table.column_names == ["a", "b"]
    assert len(set(zip(*table.to_pydict().values(), strict=True))) == 250
    drawn = [generate_facts(trace, 250, seed=seed)["a"].to_numpy() for seed in range(40)]
    assert chisquare(np.bincount(np.concatenate(drawn), minlength=50)).pvalue > 0.01


@given(st.integers(1, 60), st.floats(0.05, 0.95), st.sampled_from((1, 3.5, 40)), st.integers(0, 99))
def test_a_fact_is_there_once_at_a_time_and_within_the_trace(facts, active, lifetime, seed):
    trace = generate(80, keys=(8, 9), seed=seed)
    table = generate_facts(trace, facts, active=active, lifetime=lifetime, weight=4, seed=seed)
    found = stays(table)
    assert [begin for _, begin, _ in found] == sorted(begin for _, begin, _ in found)
    assert all(begin < end and begin <= 79 and (end <= 79 or end == FAR) and (begin >= 0 or begin == -FAR) for _, begin, end in found)
    latest, weights = {}, {}
    for (fact, begin, end), weight in zip(found, table["weight"].to_pylist(), strict=True):
        assert begin >= latest.get(fact, -FAR) and weights.setdefault(fact, weight) == weight in range(1, 5)
        latest[fact] = end
    assert len(latest) <= facts


def test_share_rate_and_lifetime_are_what_was_asked():
    trace = generate(5000, keys=50)
    for active, options, lifetime in ((0.5, {"lifetime": 30}, 30), (0.9, {"rate": 1.5}, 120), (0.95, {"lifetime": 20}, 20)):
        found = stays(generate_facts(trace, 200, active=active, seed=4, **options))
        lengths = [end - begin for _, begin, end in found if begin != -FAR and end != FAR]
        assert np.mean(lengths) == pytest.approx(lifetime, rel=0.06)
        assert len(found) / 5000 == pytest.approx(200 * active / lifetime, rel=0.06)
        at = np.arange(0, 5000, 25)
        begin, end = (np.array([row[place] for row in found]) for place in (1, 2))
        there = ((begin[:, None] <= at) & (at < end[:, None])).sum(axis=0)
        assert there.mean() == pytest.approx(200 * active, rel=0.03)
        assert there[:40].mean() == pytest.approx(there[-40:].mean(), rel=0.1)
        assert max(Counter(fact for fact, _, _ in found).values()) > 10  # facts come back


def test_skewed_keys_are_drawn_alike_in_both_ways():
    # The most frequent key of skew 2 has most of the facts; a domain too large to list is drawn one by one.
    small, large = generate(4000, keys=40, skew=0), generate(60_000, keys=(3000, 3000), skew=0)
    assert len(set(large.key)) ** 2 > _LISTED
    for trace in (small, large):
        counts = np.sort(np.unique(np.asarray(generate_facts(trace, 30, skew=(2.0, 0.0), seed=3)["a"]), return_counts=True)[1])[::-1]
        assert counts[0] / 30 == pytest.approx(zipf_probabilities(40, 2.0)[0], abs=0.2)
        flat = np.unique(np.asarray(generate_facts(trace, 30, skew=(0.0, 2.0), seed=3)["a"]), return_counts=True)[1]
        assert flat.max() <= 6
    every = generate_facts(small, 1600, skew=2.0)
    assert len(set(zip(every["a"].to_pylist(), every["b"].to_pylist(), strict=True))) == 1600
    with pytest.raises(PenstockError, match="facts must be fewer, or skew lower: only"):
        generate_facts(large, 100_000, skew=9.0)


def test_the_same_seed_gives_the_same_facts_and_times_leave_the_keys_alone():
    trace = generate(300, seed=1)
    options = {"skew": 1.0, "weight": 9}
    still, moving = (generate_facts(trace, 40, seed=5, **options, **more) for more in ({}, {"active": 0.3}))
    assert moving.equals(generate_facts(trace, 40, seed=5, active=0.3, **options))
    assert not still.equals(generate_facts(trace, 40, seed=6, **options))
    assert {row[:3] for row in zip(*moving.to_pydict().values(), strict=True)} <= set(zip(*still.to_pydict().values(), strict=True))


def test_any_keys_any_times_and_any_number_of_streams():
    begun = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    times = [begun + datetime.timedelta(seconds=s) for s in range(6)]
    trace = Trace({"stream": list("RSTRST"), "time": times, "key": ["x", "y", "u", None, "z", "v"]})
    table = generate_facts(trace, 4, active=0.5, lifetime=2_000_000, seed=2)
    assert table.schema.names == ["a", "b", "c", "begin", "end"]
    assert table["begin"].type == table["end"].type == pa.timestamp("us", tz="UTC")
    assert set(table["a"].to_pylist()) == {"x"} and set(table["b"].to_pylist()) <= {"y", "z"}


def test_streams_may_have_different_numbers_of_keys():
    trace = generate(2000, keys=(5, 80), skew=0, drift=1000)
    key = trace.table["key"].to_numpy()
    assert set(key[trace.stream == 0]) == set(range(10)) and set(key[trace.stream == 1]) == set(range(160))
    same = generate(2000, keys=(50, 80), seed=3).table["key"].to_numpy()[::2]
    assert (same == generate(2000, keys=50, seed=3).table["key"].to_numpy()[::2]).all()
    for options in ({"ranks": "correlated"}, {"importance": "key"}, {"keys": (5,)}, {"keys": (5, 0)}):
        with pytest.raises(PenstockError, match="keys"):
            generate(100, **({"keys": (5, 80)} | options))


def test_a_trace_and_a_relation_from_the_command_line(tmp_path, capsys):
    trace, facts = tmp_path / "trace.parquet", tmp_path / "facts.csv"
    arguments = ["generate", str(trace), "--n", "300", "--keys", "20,30", "--skew", "1,0", "--seed", "3", "--relation", str(facts)]
    more = ["--facts", "90", "--facts-active", "0.5", "--facts-rate", "0.9", "--facts-skew", "R=1,S=0", "--facts-weight", "3"]
    assert command_line([*arguments, *more]) == 0
    assert f'--relation {facts} --link "R.key = a" --link "S.key = b"' in capsys.readouterr().out
    made = generate(300, keys=(20, 30), skew=(1.0, 0.0), seed=3)
    wanted = generate_facts(made, 90, active=0.5, rate=0.9, skew=[1.0, 0.0], weight=3, seed=3)
    assert read_table(trace).equals(made.table) and read_table(facts).to_pylist() == wanted.to_pylist()
    assert command_line([*arguments[:2], "--facts", "9"]) == 2
    assert "--facts says what a relation is like and needs --relation FILE, got '9' without" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"facts": 0}, "facts must be a whole number >= 1, got 0"),
        ({"facts": 2501}, "facts must be at most the 2,500 combinations of keys that there are, got 2,501"),
        ({"active": 0}, "active must be a share above 0 and at most 1, got 0"),
        ({"active": "half"}, "active must be a number, got 'half'"),
        ({"active": 0.5, "lifetime": 0.5}, "lifetime must be a number of ticks >= 1, got 0.5"),
        ({"active": 0.5, "lifetime": 5, "rate": 1}, "lifetime and rate both say how fast facts change"),
        ({"rate": 1}, "rate says how fast facts change and needs active below 1, got 1 with facts that all stay"),
        ({"active": 0.5, "rate": 126}, "rate must be at most 125, or facts would go before the next tick, got 126"),
        ({"weight": 0}, "weight must be a whole number >= 1, got 0"),
        ({"skew": -1}, "skew must be a number >= 0 or one per stream, got -1"),
    ],
)
def test_bad_facts_are_named(options, message):
    with pytest.raises(PenstockError, match=message):
        generate_facts(generate(2000, keys=50, skew=0), **options)
