"""Predicates: which tuples match (Das 6.1.2). All but a function of the user's own are compiled."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError

PredicateSpec = str | Sequence[str] | Callable[[Any, Any], object]
"""What a user may give as a predicate: a comparison, links, or a function of two keys."""
_THETA: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
_HELP = 'one of =, !=, <, <=, >, >=, "eps:0.5", a function of two keys, or links such as "R.a = S.a, S.b < T.b"'


@dataclass(frozen=True)
class Predicate:
    """A condition on two keys, the first from the stream of the lower position; `links` stands for those of a join graph (graph.py),
    and `through` for relations (facts.py).

    >>> Predicate.parse("eps:0.5").matrix(np.array([[0.0], [2.0]]), np.array([[0.4]])).tolist()
    [[True], [False]]
    >>> Predicate.parse("<").matrix(np.array([[1], [3]]), np.array([[2]])).tolist()
    [[True], [False]]
    """

    name: str
    epsilon: float = 0.0
    function: Callable[[Any, Any], object] | None = None

    @classmethod
    def parse(cls, spec: Any) -> Predicate:
        """From its text or a callable."""
        if isinstance(spec, Predicate):
            return spec
        if callable(spec):
            try:
                inspect.signature(spec).bind(0, 0)
            except TypeError:
                raise PenstockError(f"predicate must be a function of two arguments, the keys of two tuples, got {spec!r}") from None
            except ValueError:
                pass  # a built-in function that does not say what it takes
            return cls("user", function=spec)
        if isinstance(spec, str) and spec in _THETA:
            return cls(spec)
        if isinstance(spec, str) and spec.startswith("eps:"):
            try:
                epsilon = float(spec[4:])
            except ValueError:
                epsilon = -1.0
            if not 0 <= epsilon < np.inf:
                raise PenstockError(f"predicate eps must be a number >= 0, such as eps:0.5, got {spec!r}")
            return cls("eps", epsilon)
        raise PenstockError(f"predicate must be {_HELP}, got {spec!r}")

    @property
    def is_equality(self) -> bool:
        """Whether equal keys, and only they, match."""
        return self.name == "="

    @property
    def takes_numbers(self) -> bool:
        """Whether keys must be numeric columns."""
        return self.name not in ("=", "!=", "user", "links", "through")

    def _agree(self, low: Any, high: Any) -> bool:
        """What a user's function says of two keys."""
        assert self.function is not None
        try:
            return bool(self.function(low, high))
        except Exception as error:
            raise PenstockError(
                f"predicate must take any two keys, got {type(error).__name__} for {low!r} and {high!r}: {error}"
            ) from error

    def matrix(self, low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows of `low` (keys, one row each) match which of `high`."""
        if self.function is not None:
            cells = [[self._agree(_key(a), _key(b)) for b in high] for a in low]
            return np.array(cells, dtype=bool).reshape(len(low), len(high))
        if self.name == "eps":
            exact = (
                low.dtype.kind == "i" and high.dtype.kind == "i" and max(np.abs(low).max(initial=0), np.abs(high).max(initial=0)) < 2**62
            )
            with np.errstate(over="ignore"):  # what is farther apart than floating point can say is farther than epsilon
                difference = (low if exact else low.astype(np.float64))[:, None, :] - high[None, :, :]
                distance = np.abs(difference[:, :, 0]) if low.shape[1] == 1 else np.sqrt((difference.astype(np.float64) ** 2).sum(axis=2))
            return np.asarray(distance <= self.epsilon)
        check_one_column(self, low.shape[1])
        return np.asarray(_THETA[self.name](low[:, 0][:, None], high[:, 0][None, :]), dtype=bool)


def check_one_column(predicate: Predicate, width: int) -> None:
    """Refuse several columns where a comparison takes one."""
    if width != 1:
        raise PenstockError(f"predicate {predicate.name!r} compares one key column, got {width}")


def _key(row: Sequence[Any]) -> Any:
    """What a user's function sees of a key: the value, or a tuple of several."""
    values = tuple(v.item() if isinstance(v, np.generic) else v for v in row)
    return values[0] if len(values) == 1 else values
