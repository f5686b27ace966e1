"""State as data: whatever is put in comes out, and bytes of anybody else run nothing."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import penstock as ps
from penstock.core.state_encoding import pack, unpack
from penstock.engine.compiled.state import SLOT

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | st.binary(max_size=3)
KEYS = SCALARS | st.tuples(SCALARS, SCALARS)
ARRAYS = hnp.arrays(
    hnp.integer_dtypes(endianness="=") | hnp.floating_dtypes(sizes=(32, 64), endianness="=") | hnp.datetime64_dtypes(endianness="="),
    hnp.array_shapes(min_dims=0, max_side=3, min_side=0),
)
TREES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
        | st.frozensets(KEYS, max_size=3)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(TREES)
def test_what_is_packed_comes_out(value):
    assert same(unpack(pack(value)), value)


def test_structured_arrays_and_generators_come_out():
    slots = np.zeros(3, SLOT)
    slots["row"] = (5, 6, 7)
    drawn, plain = np.random.default_rng(7), random.Random(7)
    drawn.random(), plain.random()
    found = unpack(pack({"slots": slots[::2], "random": drawn, "plain": plain, "scalar": np.float64(0.1)}))
    assert found["slots"].dtype == SLOT and found["slots"]["row"].tolist() == [5, 7] and found["slots"].flags.writeable
    assert found["random"].random() == drawn.random() and found["plain"].random() == plain.random()
    assert type(found["scalar"]) is np.float64 and found["scalar"] == 0.1


@pytest.mark.parametrize("value", (len, object(), {"a": [object()]}, np.array([object()]), ps.Keep(), type))
def test_what_is_no_data_is_refused_by_name(value):
    with pytest.raises(ps.PenstockError, match=r"state of x(\['a'\]\[0\])? must be data, .*, got a "):
        pack(value, "state of x")


@given(st.data())
def test_damaged_bytes_are_refused_or_give_data(data):
    """Never anything else, and never an object in an array: its bytes would be taken for addresses."""
    raw = bytearray(pack({"a": np.arange(4), "b": [1, "two", (3, None)]}))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = unpack(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    except ps.PenstockError:
        return
    pack(found)


@pytest.mark.parametrize("kind", ('"|O"', '[["a", "|O"]]'))
def test_arrays_of_objects_are_refused(kind):
    raw = pack(np.arange(4)).replace(b'"<i8"', kind.encode())
    raw = raw[:16] + (int.from_bytes(raw[16:24], "little") + len(kind) - 5).to_bytes(8, "little") + raw[24:]
    with pytest.raises(ps.PenstockError, match="must be data that Penstock wrote"):
        unpack(raw)
