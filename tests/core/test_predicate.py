"""Predicates and objectives against their definitions, and what is none."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
import penstock as ps
from nouns import refused, trace
from penstock.core.predicate import Predicate
from penstock.core.value import OBJECTIVES, Objective


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
