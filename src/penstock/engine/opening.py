"""Which engine plays a problem: the compiled one wherever it can, else the stepwise one."""

from __future__ import annotations

from typing import Any

from penstock.core.problem import Problem
from penstock.core.state_encoding import is_data
from penstock.engine.contract import Engine, Keep, PolicyContract, Ranking, Statistics, read_keep
from penstock.engine.finding import can_index, needs_index
from penstock.engine.pickled import is_pickle


def open_engine(
    problem: Problem, policy: PolicyContract, statistics: Statistics, keep: Keep | None = None, *, stepwise: bool = False
) -> Engine:
    """The engine for a problem and a policy; `stepwise=True` insists on the plain form."""
    from penstock.engine.compiled.engine import CompiledEngine  # takes a second, which `penstock --help` need not wait for
    from penstock.engine.stepwise import StepwiseEngine

    keep = read_keep(keep)
    ranking = None if stepwise else compiled_form(problem, policy)
    if ranking is None:
        return StepwiseEngine(problem, policy, statistics, keep)
    return CompiledEngine(problem, ranking, statistics, keep)


def is_stepwise(state: Any) -> bool:
    """Whether the stepwise engine gave this `snapshot` or `freeze`. It goes on with it, though another might begin today."""
    return "snapshot" in state if isinstance(state, dict) else is_pickle(state) or is_data(state)


def compiled_form(problem: Problem, policy: PolicyContract) -> Ranking | None:
    """How the compiled engine would rank for this policy; None where only the stepwise engine will do."""
    if problem.objective.function is not None:
        return None
    ranking = policy.ranking(problem)
    if ranking is None or (needs_index(problem, ranking) and not can_index(problem, ranking)):
        return None
    return ranking


def why_stepwise(problem: Problem) -> str:
    """What of a problem that is played step by step keeps it from being compiled."""
    if problem.predicate.function is not None:
        return "a predicate of yours"
    if problem.objective.function is not None:
        return "a value function of yours"
    if problem.through and problem.switch("mn") == "memory":
        return "mn=memory in a join through relations"
    return "the policy"
