"""Joins through relations against their oracle, which knows the definition and nothing else (docs/decisions/0031)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

import oracle_facts
import penstock as ps
from relations import EVERYTHING, FactCase, fact_cases


@given(case=fact_cases())
def test_a_run_is_that_of_the_oracle(case: FactCase) -> None:
    assert case.played() == case.expected()


@settings(max_examples=30)
@given(case=fact_cases(changes=True))
def test_facts_that_become_known_between_batches_count_from_then_on(case: FactCase) -> None:
    assert case.played() == case.expected()


@settings(max_examples=10)
@given(case=fact_cases(batches=True))
def test_a_snapshot_goes_on_as_if_nothing_had_happened(case: FactCase) -> None:
    assert case.played(snapshots=True) == case.played()


@given(case=fact_cases(policies=["fifo"]))
def test_with_ample_memory_the_exact_result_comes_out_whatever_is_filtered(case: FactCase) -> None:
    switch = case.switches["pre-filter"]
    through = case.through(case.known[0][1])
    keep = ps.Keep(outputs=True)
    run = ps.exact(case.trace, window=case.options()["window"], through=through, switches={"pre-filter": switch}, keep=keep)
    assert sorted(map(tuple, run.outputs.tolist())) == oracle_facts.exact(case.rows, case.windows, case.relations(case.known[0][1]))


@settings(max_examples=10)
@given(case=fact_cases())
def test_simulate_plays_what_the_engine_plays(case: FactCase) -> None:
    run = ps.simulate(case.trace, through=case.through(case.known[0][1]), keep=EVERYTHING, **case.options())
    wanted = replace(case, batches=()).played()
    assert sorted(map(tuple, run.outputs.tolist())) == wanted["outputs"] and run.sheds.tolist() == wanted["sheds"]
    assert (run.n_filtered, run.filtered.tolist(), run.value) == (wanted["n_filtered"], wanted["filtered"], wanted["value"])
