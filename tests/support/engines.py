"""An engine as a shard has one: what it knows of keys is what it has seen."""

from __future__ import annotations

from typing import Any

from penstock.core.problem import Problem
from penstock.engine.contract import Engine, Keep
from penstock.engine.opening import open_engine
from penstock.policies.table import open_policy
from penstock.statistics.table import open_running


def running_engine(problem: Problem, policy: Any, keep: Keep | None = None, *, stepwise: bool = False) -> Engine:
    chosen = open_policy(policy, problem)
    return open_engine(problem, chosen, open_running(problem, chosen), keep, stepwise=stepwise)
