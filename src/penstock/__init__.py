"""Penstock: stream joins in sliding windows under a hard memory budget. `import penstock as ps`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import penstock.optimum  # these packages, before the functions of their names take their places here
import penstock.relation
from penstock.core.errors import PenstockError

if TYPE_CHECKING:  # so that editors and type checkers know them
    from penstock.core.quality import Quality, compare
    from penstock.core.trace import Trace, read_trace
    from penstock.engine.contract import Keep
    from penstock.engine.run import JoinRun
    from penstock.engine.view import View
    from penstock.experiments.plan.answer import Plan
    from penstock.experiments.plan.plan import plan
    from penstock.generator.facts import generate_facts
    from penstock.generator.generate import generate
    from penstock.multiway.order import order_joins
    from penstock.multiway.stats import WindowStats
    from penstock.multiway.strategies import StrategyRun
    from penstock.optimum.optimum import optimum
    from penstock.optimum.schedule import Optimum
    from penstock.policies.base import Policy
    from penstock.policies.table import POLICIES
    from penstock.relation.relation import Relation, relation
    from penstock.shard.shares.joint_budget import Budget
    from penstock.simulator.policy_checks import check_policy
    from penstock.simulator.simulate import exact, simulate
    from penstock.spark.join.explain import explain
    from penstock.spark.join.join import join
    from penstock.spark.join.stream import stream
    from penstock.spark.observe.progress import progress
    from penstock.spark.settle.settle import debt, settle
    from penstock.spark.static.truncate import truncate
    from penstock.spark.watch import watch
else:
    del penstock.optimum, penstock.relation

__version__ = "0.1.0"

_HOMES = {
    "Budget": "shard.shares.joint_budget", "JoinRun": "engine.run", "Keep": "engine.contract", "Optimum": "optimum.schedule",
    "POLICIES": "policies.table", "Plan": "experiments.plan.answer", "Policy": "policies.base", "Quality": "core.quality",
    "StrategyRun": "multiway.strategies",
    "Trace": "core.trace", "View": "engine.view", "WindowStats": "multiway.stats", "check_policy": "simulator.policy_checks",
    "compare": "core.quality", "exact": "simulator.simulate", "generate": "generator.generate", "generate_facts": "generator.facts",
    "optimum": "optimum.optimum", "order_joins": "multiway.order", "plan": "experiments.plan.plan", "read_trace": "core.trace",
    "relation": "relation.relation", "simulate": "simulator.simulate",
}  # fmt: skip
_ON_SPARK = {
    "debt": "settle.settle", "explain": "join.explain", "join": "join.join", "progress": "observe.progress", "settle": "settle.settle",
    "stream": "join.stream", "truncate": "static.truncate", "watch": "watch",
}  # fmt: skip


def lookup(stream: Any, relation: "Relation", *, access: str = "auto", time: str = "time", name: str | None = None) -> Any:
    """Each tuple of a stream with the facts of a relation that are active at its time: no window, no memory, no policy, and exact.

    `stream` is a trace, an Arrow table of one stream with its times in the column `time`, a Spark DataFrame of that kind, streaming or not,
    or what `ps.stream` made of one; the result is a table, or a DataFrame. It has the stream's columns, then those of the relation, or of
    them its `columns`, as `<relation>_<column>`. `name` says which of the streams in the links it is, where there are several; `access` is
    how facts are found: "scan", "hash", "index" or "auto".

    >>> import penstock as ps, pyarrow as pa
    >>> tariff = ps.relation({"zone": ["a"], "fare": [12]}, links=["rides.zone = zone"], columns=["fare"], name="tariff")
    >>> ps.lookup(pa.table({"time": [1, 5], "zone": ["a", "b"]}), tariff).to_pydict()
    {'time': [1], 'zone': ['a'], 'tariff_fare': [12]}
    """
    if type(stream).__module__.startswith(("pyspark.", "penstock.spark.")):
        from penstock.spark.session.presence import on_spark

        return on_spark("join.lookup", "lookup")(stream, relation, access=access, time=time, name=name)
    from penstock.relation.lookup import lookup as archived

    return archived(stream, relation, access=access, time=time, name=name)


def __getattr__(name: str) -> object:
    """Everything is imported when it is asked for: a worker of Spark needs little of it. A misspelt name is told the nearest."""
    if name in _HOMES:
        globals()[name] = found = getattr(import_module(f"penstock.{_HOMES[name]}"), name)
        return found
    if name in _ON_SPARK:
        from penstock.spark.session.presence import on_spark

        return on_spark(_ON_SPARK[name], name)
    from difflib import get_close_matches

    near = [] if name.startswith("_") else get_close_matches(name, __all__, n=1)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")


def __dir__() -> list[str]:
    """What there is for users."""
    return [*__all__, "__version__"]


__all__ = [
    "POLICIES", "Budget", "JoinRun", "Keep", "Optimum", "PenstockError", "Plan", "Policy", "Quality", "StrategyRun", "Trace", "View",
    "WindowStats", "check_policy", "compare", "debt", "exact", "explain", "generate", "generate_facts", "join", "lookup", "optimum",
    "order_joins", "plan", "progress", "read_trace", "relation", "settle", "simulate", "stream", "truncate", "watch",
]  # fmt: skip
