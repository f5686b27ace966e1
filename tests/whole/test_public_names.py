"""What `ps.` has, and what it says where a name is misspelt."""

from __future__ import annotations

import pytest

import penstock as ps

MISSPELT = {
    "joni": "join",
    "Simulate": "simulate",
    "read_traces": "read_trace",
    "POLICES": "POLICIES",
    "progres": "progress",
    "optimun": "optimum",
}


@pytest.mark.parametrize(("name", "meant"), MISSPELT.items())
def test_a_misspelt_name_is_told_the_nearest(name, meant):
    with pytest.raises(AttributeError) as refused:
        getattr(ps, name)
    assert str(refused.value) == f"module 'penstock' has no attribute {name!r}; did you mean {meant!r}?"


@pytest.mark.parametrize("name", ("flink", "__joni__", "_join"))
def test_a_name_that_is_near_none_and_one_that_is_not_public_are_told_nothing(name):
    with pytest.raises(AttributeError) as refused:
        getattr(ps, name)
    assert str(refused.value) == f"module 'penstock' has no attribute {name!r}"
