"""Penstock: stream joins in sliding windows under a hard memory budget. `import penstock as ps`."""

from penstock.core.engine import Keep
from penstock.core.errors import PenstockError
from penstock.core.quality import Quality, compare
from penstock.core.run import JoinRun
from penstock.core.trace import Trace, read_trace
from penstock.core.view import View
from penstock.generate import generate
from penstock.policies.base import Policy
from penstock.policies.table import POLICIES
from penstock.simulate import exact, simulate

__version__ = "0.1.0"
__all__ = [
    "POLICIES", "JoinRun", "Keep", "PenstockError", "Policy", "Quality", "Trace", "View", "compare", "exact", "generate", "read_trace",
    "simulate",
]  # fmt: skip
