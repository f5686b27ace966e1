"""Penstock: stream joins in sliding windows under a hard memory budget. `import penstock as ps`."""

from typing import Any

from penstock.core.engine import Keep
from penstock.core.errors import PenstockError
from penstock.core.quality import Quality, compare
from penstock.core.run import JoinRun
from penstock.core.trace import Trace, read_trace
from penstock.core.view import View
from penstock.generate import generate
from penstock.multiway.order import order_joins
from penstock.multiway.stats import WindowStats
from penstock.multiway.strategies import StrategyRun
from penstock.optimum.optimum import optimum
from penstock.optimum.schedule import Optimum
from penstock.policies.base import Policy
from penstock.policies.table import POLICIES
from penstock.simulate import exact, simulate

__version__ = "0.1.0"

_ON_SPARK = {
    "debt": "settle", "explain": "explain", "join": "operator", "progress": "progress", "settle": "settle", "stream": "inputs",
    "truncate": "truncate", "watch": "watch",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """What needs Spark is imported when it is asked for."""
    if name in _ON_SPARK:
        from penstock.spark.presence import on_spark

        return on_spark(_ON_SPARK[name], name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


__all__ = [
    "POLICIES", "JoinRun", "Keep", "Optimum", "PenstockError", "Policy", "Quality", "StrategyRun", "Trace", "View", "WindowStats",
    "compare", "exact", "generate", "optimum", "order_joins", "read_trace", "simulate",
]  # fmt: skip
