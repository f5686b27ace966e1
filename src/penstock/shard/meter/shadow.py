"""The shadow: an engine that plays what a shard plays, and sheds nothing. What it makes and the shard does not is lost (meter.py)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.core.budget import Budget
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT, Ints
from penstock.engine.compiled.engine import FastEngine
from penstock.engine.contract import Engine, Keep
from penstock.engine.opening import open_engine
from penstock.engine.stepwise import StepwiseEngine
from penstock.policies.table import open_policy
from penstock.statistics.table import RUNNING

Shadow = FastEngine | StepwiseEngine


def open_shadow(problem: Problem, *, outputs: bool) -> Shadow:
    """A shadow of an engine for this problem, with nothing in it yet."""
    ample = replace(problem, budget=Budget.parse(LIMIT - 1, problem.streams), stats="window")
    engine = open_engine(ample, open_policy("fifo", ample), RUNNING["window"](ample), Keep(outputs=outputs))
    assert isinstance(engine, FastEngine | StepwiseEngine)
    return engine


def adopt(shadow: Shadow, engine: Engine) -> None:
    """Begin with the tuples of an engine; what happened before counts nowhere."""
    if isinstance(shadow, FastEngine):
        shadow.adopt(engine)
        arrivals = engine.arrays["lanes"]["arrivals"] if isinstance(engine, FastEngine) else getattr(engine, "arrivals", 0)
        shadow.arrays["lanes"]["arrivals"] = arrivals
        return
    assert isinstance(engine, StepwiseEngine)  # what the shadow cannot compile, nobody can
    own = ("problem", "policy", "statistics", "keep", "totals")
    for name, value in vars(engine).items():
        if name not in own:
            setattr(shadow, name, _copied(value))
    totals = engine.totals
    shadow.totals = replace(shadow.totals, instant=totals.instant, next_row=totals.next_row, retained=totals.retained, used=totals.retained)
    if shadow.memory is not None:
        shadow.memory["weight"] = np.ones(len(shadow.memory["row"]), np.int64)


def dismiss(shadow: Shadow, rows: Ints) -> None:
    """Let go of these rows, as if they had never come."""
    if isinstance(shadow, FastEngine):
        shadow.dismiss(rows)
    elif shadow.memory is not None:
        stays = ~np.isin(shadow.memory["row"], rows)
        shadow.memory = {name: column[stays] for name, column in shadow.memory.items()}
        held = int(np.count_nonzero(stays))
        shadow.totals = replace(shadow.totals, retained=held, used=held)


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value
