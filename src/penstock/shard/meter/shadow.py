"""The shadow: an engine that plays what a shard plays and lets nobody go early. What it makes and the shard does not is lost (meter.py)."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.budget import Pools
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT
from penstock.engine.contract import Engine, Keep
from penstock.engine.opening import open_engine
from penstock.policies.table import open_policy
from penstock.statistics.table import RUNNING


def open_shadow(problem: Problem, *, outputs: bool, stepwise: bool = False) -> Engine:
    """A shadow of an engine for this problem, with nothing in it yet."""
    ample = replace(problem, budget=Pools.parse(LIMIT - 1, problem.streams), stats="window", matches=())
    return open_engine(ample, open_policy("fifo", ample), RUNNING["window"](ample), Keep(outputs=outputs), stepwise=stepwise)
