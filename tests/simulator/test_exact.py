"""Exact joins: with ample memory, and by `ps.exact`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import oracle
import penstock as ps
from agreement import PREDICATES
from strategies import (
    ANY_WINDOW,
    BOUNDED,
    EVERYTHING,
    NO_WINDOW,
    WINDOWS,
    Case,
    cases,
    examples,
    kept_promise,
)


def joins_exactly(case: Case, outputs: Callable[[Case], Any]) -> None:
    options = {"predicate": case.predicate, "switches": case.switches, "batches": case.batches}
    wanted = oracle.exact(case.rows, len(case.windows), case.windows, **options)
    assert outputs(case) == [(time, *members) for time, members in wanted]


@examples(4)
@given(cases(n=st.integers(2, 4), windows=ANY_WINDOW, predicates=PREDICATES, batches=True, longest=20))
def test_ample_memory_gives_the_exact_join(case):
    ample = replace(case, memory=len(case.rows), allocation="variable")
    for stepwise in (False, True):
        joins_exactly(ample, lambda case, form=stepwise: case.played(stepwise=form)["outputs"])


@examples(4)
@given(cases(n=st.integers(2, 3), windows=BOUNDED | NO_WINDOW | WINDOWS["landmark"], disorder=6, longest=20))
def test_out_of_order_too_while_every_stream_keeps_its_promise(case):
    lateness = kept_promise(case.rows, len(case.windows))
    options = {"memory": len(case.rows), "allocation": "variable", "clock": "streams", "lateness": lateness}
    for stepwise in (False, True):
        joins_exactly(replace(case, **options), lambda case, form=stepwise: case.played(stepwise=form)["outputs"])


@examples()
@given(cases(windows=ANY_WINDOW))
def test_exact_is_the_exact_join(case):
    window = case.options()["window"]
    joins_exactly(case, lambda case: sorted(map(tuple, ps.exact(case.trace, window=window, keep=EVERYTHING).outputs)))
