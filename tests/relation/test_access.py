"""Scan, hash and index find the same facts; what each of them looks at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core.facts import Facts
from penstock.relation.access import ACCESSES, open_access

ends = st.one_of(st.none(), st.integers(-3, 6))
facts = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), ends, ends), max_size=30)
lookups = st.lists(st.tuples(st.integers(-1, 5), st.integers(-4, 7)), max_size=20)


@given(facts, lookups, st.integers(0, 1), st.integers(0, 1))
def test_all_find_the_same(facts, lookups, slot, made_for):
    known = Facts.of([(0, 0), *(fact[:2] for fact in facts)], [0, *(fact[2] for fact in facts)], [0, *(fact[3] for fact in facts)])
    expected = [
        (place, number)
        for place, (value, time) in enumerate(lookups)
        for number, (*keys, begin, end) in enumerate(facts, 1)
        if keys[slot] == value and (begin is None or begin <= time) and (end is None or time < end)
    ]
    values, times = (np.array([one[part] for one in lookups], dtype=np.int64) for part in (0, 1))
    for kind in ACCESSES.values():
        access = kind(known, made_for)
        for _ in range(2):
            found = access.find(slot, values, times)
            assert list(zip(*(part.tolist() for part in found), strict=True)) == expected
        assert 2 * len(expected) <= access.examined <= 2 * len(lookups) * len(known)


def test_what_each_looks_at():
    """A thousand values by two attributes, with ten intervals each, of which the last is open."""
    keys, begins = np.divmod(np.arange(10_000), 10)
    known = Facts(np.stack([keys, keys], axis=1), begins, np.where(begins < 9, begins + 1, 100))
    values, times = np.arange(1000), np.full(1000, 50)
    looked = {}
    for name in ACCESSES:
        access = open_access(name, known, {0: 1000})
        for slot in (0, 1):
            assert len(access.find(slot, values, times)[0]) == 1000
            looked[name, slot] = access.examined
    assert looked["scan", 0] == 10_000_000 and looked["scan", 1] == 20_000_000
    assert looked["hash", 0] == 10_000 and looked["hash", 1] == 10_010_000
    assert looked["index", 0] == 1000 and looked["index", 1] == 2000


def test_an_access_nobody_knows_is_refused():
    with pytest.raises(ps.PenstockError, match="access must be one of auto, scan, hash, index, got 'btree'"):
        open_access("btree", Facts.of([(0, 0)]), {})
