"""What tuples are worth, in one unit for all shards: computed again by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.engine.contract import Engine
from penstock.engine.opening import open_engine
from penstock.policies.table import POLICIES, open_policy
from penstock.shard.shares.worth_summary import Load, points_of
from penstock.statistics.table import open_running
from policy_kinds import DRAWN, NEEDS_BOUND


def an_engine(policy: str, rows: list[tuple[int, int, int]], memory: Any = 12, **options: Any) -> Engine:
    """An engine that has played rows of (stream, time, key)."""
    bound = {"half_life": 32} if policy in NEEDS_BOUND else {}
    problem = Problem.of(("R", "S"), window=64, memory=memory, clock="streams", stats="decayed", **(bound | options))
    chosen = open_policy(policy, problem)
    engine = open_engine(problem, chosen, open_running(problem, chosen))
    stream, time, key = (np.array(column) for column in zip(*rows, strict=True))
    engine.play(Batch(stream, time, key))
    return engine


def some_rows(seed: int, begin: int, n: int = 200) -> list[tuple[int, int, int]]:
    random = Random(seed)
    return [(random.randrange(2), begin + at, random.choice((0, 0, 0, 1, 1, 2, 3, 4, 5))) for at in range(n)]


@pytest.mark.parametrize("begin", (0, 17, 1000))
def test_the_worth_of_prob_is_the_decayed_count_of_now_whenever_the_shard_began(begin):
    rows = some_rows(begin, begin)
    engine = an_engine("prob", rows)
    found = engine.worths()
    now = begin + len(rows) - 1
    tuples = engine.tuples()
    assert found is not None and len(found.score) == len(tuples["row"]) == 12
    wanted = []
    for stream, key in zip(tuples["stream"], tuples["key"], strict=True):
        wanted.append(sum(2.0 ** -((now - at) / 64) for side, at, own in rows if own == key and side != stream))
    assert sorted(found.score) == pytest.approx(sorted(wanted))


def test_two_shards_that_began_at_other_times_agree_on_what_a_key_is_worth():
    # The same rows lately; one shard has seen a row long before, so that its rates have another origin.
    late = [(at % 2, 5000 + at, at // 2 % 3) for at in range(60)]
    found = [an_engine("prob", rows).worths() for rows in (late, [(0, 10, 9), *late])]
    assert sorted(found[0].score) == pytest.approx(sorted(found[1].score))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_has_a_worth_that_says_who_leaves_or_none_at_all(policy):
    engine = an_engine(policy, some_rows(5, 0), memory=30)
    found = engine.worths()
    if policy in ("fifo", *DRAWN):
        assert found is None
        return
    assert found is not None and np.isfinite(found.score).all()
    by_row = dict(zip(engine.tuples()["row"].tolist(), range(30), strict=True))
    live = engine.arrays["slots"]["row"][_live(engine)]  # type: ignore[attr-defined]
    score = {int(row): float(one) for row, one in zip(live, found.score, strict=True)}
    engine.problem.budget.caps[:] = 15  # type: ignore[attr-defined]
    gone = set(engine.trim().tolist())
    assert len(gone) == 15 and gone < set(by_row)
    kept = [score[row] for row in score if row not in gone]
    if policy != "elife":  # by its score now; its worth is the rent of a slot
        assert max(score[row] for row in gone) <= min(kept) + 1e-9


def _live(engine: Any) -> Any:
    from penstock.engine.compiled.memory import live_slots

    return live_slots(engine.memory)


def test_the_load_is_what_would_lie_in_the_windows():
    problem = Problem.of(("R", "S"), window=100, memory=4)
    load = Load(np.zeros(2))
    for begin in range(0, 2000, 50):
        times = np.arange(begin, begin + 50)
        load.add(Batch(np.zeros(50, np.int64), times, times), problem, begin + 49)
    assert load.sums.tolist() == [pytest.approx(100, rel=0.01), 0.0]  # one a tick for 100 ticks


def test_points_are_of_what_is_held_and_below_it_of_what_is_not():
    rows = some_rows(1, 0, 400)
    engine = an_engine("prob", rows, memory=20)
    load = Load(np.array([30.0, 34.0]))
    ((scores, weights),) = points_of(engine, engine.problem, load, np.array([20]))  # type: ignore[attr-defined]
    held, lost = np.array(scores[:64]), np.array(scores[64:])
    assert sum(weights[:64]) == pytest.approx(1.0) and sum(weights[64:]) == pytest.approx(0.5)  # of 2.2, no more than half of what is held
    assert (np.diff(held) >= 0).all() and lost.max() <= held.min()
    fifo = an_engine("fifo", rows, memory=20)
    assert points_of(fifo, fifo.problem, load, np.array([20])) == (((0.0,), (3.2,)),)  # type: ignore[attr-defined]
    sizes = an_engine("prob", rows, memory={"R": 5, "S": 15})
    first, second = points_of(sizes, sizes.problem, load, np.array([5, 15]))  # type: ignore[attr-defined]
    assert sum(first[1][:64]) == pytest.approx(1.0) and sum(second[1][:64]) == pytest.approx(1.0)
