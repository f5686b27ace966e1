"""The other options of a problem, and what is refused."""

from __future__ import annotations

import math

import pytest

import penstock as ps
from nouns import STREAMS, refused, trace
from penstock.core.problem import SWITCHES, Problem
from penstock.engine.compiled.order.ranking import compare_products


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
        ({"alpha": 0}, 'alpha must be a positive number, or a duration such as "10 minutes", got 0'),
        ({"alpha": math.nan}, 'alpha must be a positive number, or a duration such as "10 minutes", got nan'),
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
