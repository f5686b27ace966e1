"""Which engine plays a problem: the compiled one wherever it can, else the stepwise one."""

from __future__ import annotations

from penstock.core.problem import Problem
from penstock.engine.contract import Engine, Keep, PolicyContract, Ranking, Statistics, read_keep


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


def compiled_form(problem: Problem, policy: PolicyContract) -> Ranking | None:
    """How the compiled engine would rank for this policy; None where only the stepwise engine will do."""
    if not problem.predicate.is_equality or problem.objective.function is not None or problem.counts_keys:
        return None
    return policy.ranking(problem)


def why_stepwise(problem: Problem) -> str:
    """What of a problem that is played step by step keeps it from being compiled."""
    if problem.predicate.name == "links":
        return "links between columns"
    if not problem.predicate.is_equality:
        return f"the predicate {problem.predicate.name}"
    if problem.counts_keys:
        return "windows of the rows of each key"
    return "the policy" if problem.objective.function is None else "a value function of yours"
