"""The draws of `rand`: every candidate alike, and the same again with the same seed."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import chisquare

import penstock as ps
from plays import arrivals, each_form, played
from strategies import COMPILED, EVERYTHING


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
