"""Which engine plays a problem: the compiled one wherever it can, else the stepwise one."""

from __future__ import annotations

from penstock.core.problem import Problem
from penstock.engine.compiled.engine import FastEngine
from penstock.engine.contract import Engine, Keep, Policy, Ranking, Statistics, read_keep
from penstock.engine.stepwise import StepwiseEngine


def open_engine(problem: Problem, policy: Policy, statistics: Statistics, keep: Keep | None = None, *, stepwise: bool = False) -> Engine:
    """The engine for a problem and a policy; `stepwise=True` insists on the plain form."""
    keep = read_keep(keep)
    ranking = None if stepwise else compiled_form(problem, policy)
    if ranking is None:
        return StepwiseEngine(problem, policy, statistics, keep)
    return FastEngine(problem, ranking, statistics, keep)


def compiled_form(problem: Problem, policy: Policy) -> Ranking | None:
    """How the compiled engine would rank for this policy; None where only the stepwise engine will do."""
    if not problem.predicate.is_equality or problem.objective.function is not None or problem.counts_keys:
        return None
    return policy.ranking(problem)
