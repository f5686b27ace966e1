"""Where rows go: every combination has exactly one shard in which all of its members are."""

from __future__ import annotations

import math
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")
from pyspark.sql import functions as F  # noqa: N812

from penstock.spark.join.routes import Route, dimensions, offsets, stride
from sparks import ON_SPARK


@given(st.integers(1, 40), st.integers(2, 5))
def test_a_matrix_has_at_most_the_shards_it_is_given_and_short_sides(shards, streams):
    sides = dimensions(shards, streams)
    assert len(sides) == streams and math.prod(sides) <= shards
    assert max(sides) - min(sides) <= 1 and math.prod(sides) * (1 + 1 / min(sides)) > shards  # no side could be longer
    assert [Route.matrix(shards, streams).copies(i) for i in range(streams)] == [math.prod(sides) / side for side in sides]


@given(st.lists(st.integers(1, 3), min_size=2, max_size=4))
def test_rows_of_any_coordinates_meet_in_exactly_one_shard_of_a_matrix(sides):
    everywhere = set(range(math.prod(sides)))
    met = set()
    for place in product(*(range(side) for side in sides)):
        shards = [{at * stride(sides, i) + step for step in offsets(sides, i)} for i, at in enumerate(place)]
        common = everywhere.intersection(*shards)
        assert len(common) == 1
        met |= common
    assert met == everywhere  # none is idle


class TestOnSpark:
    pytestmark = ON_SPARK

    @pytest.mark.parametrize(("kind", "epsilon"), (("double", 0.3), ("bigint", 2.0)))
    def test_whatever_is_near_has_a_copy_in_the_shard_of_the_first(self, spark, kind, epsilon):
        """Also where rounding decides, and at the ends of what 64 bits hold; no row goes to a shard twice."""
        random = Random(kind)
        if kind == "double":
            values = [random.uniform(-4, 4) for _ in range(80)] + [random.choice((-1, 1)) * step * epsilon for step in range(40)]
            values += [1e18, 1e18 + 128, -1e300, 0.0, -0.0]
        else:
            values = [*range(-40, 40), (1 << 62) - 1, (1 << 62) - 3, -(1 << 62) + 1, -(1 << 62) + 2, -(1 << 63), (1 << 63) - 1]
        route = Route("cells", 5, epsilon=epsilon)
        frame = spark.createDataFrame([(value,) for value in values], f"x {kind}")
        places = [route.places(stream, [F.col("x")], kind == "bigint", [], F.lit(True)).alias(f"at{stream}") for stream in (0, 1)]
        found = [(row.x, row.at0, row.at1) for row in frame.select("x", *places).collect()]
        assert all(len(first) == 1 and len(set(others)) == len(others) <= 2 for _, first, others in found)
        pairs = [(first[0], others) for x, first, _ in found for y, _, others in found if abs(x - y) <= epsilon]
        assert len(pairs) > len(values) and all(shard in others for shard, others in pairs)
        assert any(len(others) == 2 for _, _, others in found) and len({first[0] for _, first, _ in found}) == 5

    def test_what_has_no_value_or_no_time_goes_to_one_shard(self, spark):
        frame = spark.createDataFrame([(None, 1), (0.5, None)], "x double, t int")
        for route in (Route("cells", 4, epsilon=1.0), Route.matrix(4, 2)):
            places = route.places(1, [F.col("x")], False, [F.col("x")], F.col("t").isNotNull())
            sizes = [len(row[0]) for row in frame.select(places).collect()]
            assert sizes == ([1, 1] if route.kind == "cells" else [2, 1])


def test_it_is_said_where_the_rows_go():
    assert Route("cells", 2, epsilon=1.0, columns=3).copies(2) == 2.0 and Route("key", 8).copies(0) == 1.0
