"""Policies of the user's own, and what is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from plays import arrivals, each_form, played, with_importance
from policy_kinds import NEEDS_BOUND


class Largest:
    """No relative of ours: a score, and nothing else. Rows with high numbers leave first."""

    def score(self, view: ps.View) -> Any:
        return -view.row


def test_an_object_with_a_score_is_a_policy():
    trace = ps.Trace.from_streams(R="abab", S="baba")
    run = played(trace, Largest(), window=9, memory=3)
    assert run.policy == "Largest"
    assert run.sheds.tolist() == [3, 5, 4, 7, 6]
    assert [rows.tolist() for _, rows in run.memory_log] == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2]]


class Productive(ps.Policy):
    """Keeps what has produced, by value, and notes the outputs of every instant."""

    name = "productive"

    def __init__(self) -> None:
        self.outputs: list[list[int]] = []

    def score(self, view: ps.View) -> Any:
        self.outputs += view.outputs.tolist()
        assert (view.produced_value >= view.produced).all()
        return view.produced_value

    def ties(self, view: ps.View) -> tuple[Any, ...]:
        return (-view.importance,)


def test_a_policy_sees_past_outputs():
    # time   0      1      2      3      4         importances 3, 2, 1, 1, 1; memory 2
    # R      a      b      .      .      .         at 2: r0 has produced nothing, r1 1 and s2 1
    # S      .      .      b      b      a         at 3: r1 2, s2 1, s3 1, and s2 is older
    #                                              at 4: r1 2, s3 1, s4 0
    trace = with_importance(("R", 0, "a", 3), ("R", 1, "b", 2), ("S", 2, "b", 1), ("S", 3, "b", 1), ("S", 4, "a", 1))
    policy = Productive()
    run = played(trace, policy, window=9, memory=2)
    assert run.sheds.tolist() == [0, 2, 4]
    assert policy.outputs == run.outputs.tolist() == [[2, 1, 2], [3, 1, 3]]


def test_a_policy_may_keep_a_number_per_tuple():
    class Aging(ps.Policy):
        name = "aging"

        def score(self, view: ps.View) -> Any:
            view.memo[:] += np.where(view.new, 10 - view.row, 1)
            return view.memo

    # Each starts at 10 - row and gains 1 per instant, so at 2 r0 has 12, r1 10 and r2 8.
    run = played(arrivals([0, 1, 2, 3]), Aging(), window=9, memory=2)
    assert run.sheds.tolist() == [2, 3]


def test_the_columns_of_a_view():
    seen = []

    class Curious(ps.Policy):
        name = "curious"

        def score(self, view: ps.View) -> Any:
            names = ("row", "stream", "time", "importance", "new", "arrived", "expiry", "remaining", "mn", "p", "matched", "produced")
            seen.append({name: getattr(view, name).tolist() for name in names} | {"now": view.now})
            return view.row

    # time    0    1    3        window 4
    # R       a    .    .        r0 is alone at 0, meets s1 at 1, and both meet again at 3: s1 has r0, r0 has s1 and s2
    # S       .    a    a
    trace = with_importance(("R", 0, "a", 3), ("S", 1, "a", 2), ("S", 3, "a", 1))
    played(trace, Curious(), window=4, memory=9, objective="count")
    assert seen[2] == {
        "row": [0, 1, 2],
        "stream": [0, 1, 1],
        "time": [0, 1, 3],
        "importance": [3.0, 2.0, 1.0],
        "new": [False, False, True],
        "arrived": [1, 2, 3],
        "expiry": [4, 5, 7],
        "remaining": [1, 2, 4],
        "mn": [2.0, 1.0, 1.0],
        "p": [2.0, 1.0, 1.0],
        "matched": [True, False, False],
        "produced": [2, 1, 1],
        "now": 3,
    }


@pytest.mark.parametrize(
    "scores", (lambda view: 1.0, lambda view: [1.0], lambda view: np.ones((len(view), 2)), lambda view: view.p * np.nan)
)
def test_scores_of_the_wrong_shape_are_refused(scores):
    class Wrong(ps.Policy):
        name = "wrong"

        def score(self, view: ps.View) -> Any:
            return scores(view)

    with pytest.raises(ps.PenstockError, match=r"policy 'wrong' must return one number per candidate \(2\)"):
        played(ps.Trace.from_streams(R="ab", S="ab"), Wrong(), window=2, memory=1)


def test_a_policy_without_a_score_is_refused():
    trace = ps.Trace.from_streams(R="ab", S="ab")
    with pytest.raises(ps.PenstockError, match=r"policy must be a name or an object with a method score\(view\), got 3"):
        ps.simulate(trace, window=2, memory=1, policy=3)
    with pytest.raises(NotImplementedError, match="policy 'policy' has no method score"):
        ps.simulate(trace, window=2, memory=1, policy=ps.Policy())


def test_an_unknown_policy_has_its_neighbour_named():
    with pytest.raises(ps.PenstockError, match=r"got 'lief' \(did you mean 'life'\?\)"):
        ps.simulate(ps.Trace.from_streams(R="ab", S="ab"), window=2, memory=1, policy="lief")
    with pytest.raises(ps.PenstockError, match=r"policy must be one of auto, rand, .*, opt, got 'optt' \(did you mean 'opt'\?\)"):
        ps.simulate(ps.Trace.from_streams(R="ab", S="ab"), window=2, memory=1, policy="optt")


@pytest.mark.parametrize("policy", NEEDS_BOUND)
@pytest.mark.parametrize("window", ("none", "landmark:3"))
def test_a_policy_that_needs_to_know_when_tuples_leave_says_so(policy, window):
    trace = ps.Trace.from_streams(R="ab", S="ab")
    with pytest.raises(ps.PenstockError, match=f"policy '{policy}' needs a window that tuples leave, stream R has"):
        ps.simulate(trace, window=window, memory=1, policy=policy)


def mayflies() -> ps.Trace:
    columns = {"stream": list("RRS"), "time": [0, 0, 1], "key": list("aba"), "lifetime": pa.array([9, 2, 5])}
    return ps.Trace(columns)


@each_form
def test_a_lifetime_bounds_an_unbounded_window(stepwise):
    # At 0 r0 has 9 ticks and one partner to come, r1 has none; at 1 r0 has 8 left, s2 5.
    run = played(mayflies(), "life", window="none", memory=1, stepwise=stepwise)
    assert run.sheds.tolist() == [1, 2]
    # r0 and r1 are alike at 0; at 1 r1 has faded to 0.5.
    run = played(mayflies(), "dgl", window="none", memory=1, alpha=4, beta=0.5, stepwise=stepwise)
    assert run.sheds.tolist() == [0, 1]


def test_without_a_window_dgl_has_no_alpha_and_beta_of_its_own():
    with pytest.raises(ps.PenstockError, match="alpha"):
        played(mayflies(), "dgl", window="none", memory=1)


def test_every_policy_of_the_table_describes_itself():
    for name, policy in ps.POLICIES.items():
        assert policy.name == name
        assert policy.summary and policy.needs and policy.paper
