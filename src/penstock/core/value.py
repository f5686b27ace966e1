"""The value of an output: 1, or a function of its members' importances (Ojewole 3.2; Das 6.1.3)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.errors import PenstockError, choose
from penstock.core.trace import Floats

COUNT, MIN, MAX, SUM, PRODUCT, AVG, USER = range(7)
ObjectiveSpec = str | Callable[[list[float]], float] | None
"""What a user may give as the value of an output: a name, or a function of the importances; None for the default."""
OBJECTIVES = ("count", "min", "max", "sum", "product", "avg")


@dataclass(frozen=True)
class Objective:
    """What outputs are worth: one of `OBJECTIVES`, or a function of the list of importances, in stream order; it may be negative.

    >>> Objective.parse("min").of([2.0, 5.0])
    2.0
    >>> Objective.parse(lambda imps: -max(imps)).of([2.0, 5.0])
    -5.0
    """

    name: str
    code: int
    function: Callable[[list[float]], float] | None = None

    @classmethod
    def parse(cls, spec: Any) -> Objective:
        """From a name or a callable."""
        if isinstance(spec, Objective):
            return spec
        if callable(spec):
            try:
                inspect.signature(spec).bind([1.0])
            except TypeError:
                raise PenstockError(f"objective must be a function of one argument, the list of importances, got {spec!r}") from None
            except ValueError:
                pass  # a built-in function that does not say what it takes
            return cls("user", USER, spec)
        name = choose("objective", spec, OBJECTIVES)
        return cls(name, OBJECTIVES.index(name))

    def of(self, importances: list[float]) -> float:
        """The value of one output."""
        if self.function is None:
            folded = start(self.code)
            for importance in importances:
                folded = fold(self.code, folded, importance)
            return float(finish(self.code, folded, len(importances)))
        value = self.function(importances)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            raise PenstockError(f"objective must return a number for a list of importances, got {value!r}")
        return number

    def pairs(self, low: Floats, high: Floats) -> Floats:
        """The values of pairs, broadcast; `low` from the stream of the lower position."""
        if self.code == USER:
            low, high = np.broadcast_arrays(low, high)
            values = [self.of([float(a), float(b)]) for a, b in zip(low.ravel(), high.ravel(), strict=True)]
            return np.array(values, dtype=np.float64).reshape(low.shape)
        if self.code == MIN:
            return np.minimum(low, high)
        if self.code == MAX:
            return np.maximum(low, high)
        if self.code == PRODUCT:
            return low * high
        if self.code == COUNT:
            return np.ones(np.broadcast_shapes(low.shape, high.shape))
        return (low + high) / (2 if self.code == AVG else 1)


@kernel
def start(code: int) -> float:
    """What `fold` begins with."""
    if code == MIN:
        return np.inf
    if code == MAX:
        return -np.inf
    if code == PRODUCT or code == COUNT:
        return 1.0
    return 0.0


@kernel
def fold(code: int, folded: float, importance: float) -> float:
    """Take one more member into the value of an output."""
    if code == COUNT:
        return folded
    if code == MIN:
        return min(folded, importance)
    if code == MAX:
        return max(folded, importance)
    if code == PRODUCT:
        return folded * importance
    return folded + importance


@kernel
def finish(code: int, folded: float, members: int) -> float:
    """The value, once all members are in."""
    return folded / members if code == AVG else folded
