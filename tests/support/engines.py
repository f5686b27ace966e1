"""An engine as a shard has one: what it knows of keys is what it has seen."""

from __future__ import annotations

from typing import Any

from penstock.core.problem import Problem
from penstock.engine.contract import Engine, Keep
from penstock.engine.opening import open_engine
from penstock.policies.table import open_policy
from penstock.statistics.table import RUNNING


def running_engine(problem: Problem, policy: Any, keep: Keep | None = None, *, stepwise: bool = False) -> Engine:
    return open_engine(problem, open_policy(policy, problem), RUNNING[problem.stats](problem), keep, stepwise=stepwise)
