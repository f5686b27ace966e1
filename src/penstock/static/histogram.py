"""Truncated joins of histograms: how many tuples of each key two or more relations keep (Das 3.1, the sensors' proxy)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.static.keep_plan import Allowance, Amounts, KeepPlan, budget_of, make_plan


@dataclass(frozen=True)
class Truncation:
    """What `truncate` decided: the relations as they are kept, and the outputs that this keeps and loses.

    `relations` holds, by name, what each relation keeps: a DataFrame, or counts by key as they were given.
    """

    relations: dict[str, Any]
    method: str
    n_tuples: dict[str, int]
    n_kept: dict[str, int]
    n_exact: int
    n_output: int
    most: int
    """No choice keeps more outputs: the optimum, or a proven bound on it."""
    bound: str
    """What is proven of the method."""
    note: str = ""
    """What was asked for beyond what there is."""
    counts: Ints = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64), repr=False, compare=False)
    """Tuples by relation and key, before."""
    one_budget: bool = True
    """Whether one number was given for all relations."""

    @property
    def n_lost(self) -> int:
        """Outputs of the exact join that the truncated one does not have."""
        return self.n_exact - self.n_output

    def summary(self) -> dict[str, Any]:
        """The figures, for JSON."""
        figures = {"method": self.method, "n_tuples": self.n_tuples, "n_kept": self.n_kept, "n_exact": self.n_exact}
        figures |= {"n_output": self.n_output, "n_lost": self.n_lost, "most": self.most, "bound": self.bound}
        return figures | ({"note": self.note} if self.note else {})


def truncate_histograms(
    relations: Any, *, keep: Amounts = None, drop: Amounts = None, method: str = "auto", say: Callable[[str], None] | None = None
) -> Truncation:
    """Truncate relations that are given as histograms: mappings from key to count, or arrays of counts over the same keys.

    >>> done = truncate_histograms({"A": {"x": 2, "y": 3}, "B": {"x": 10, "y": 3}}, keep=6)
    >>> done.n_output, done.n_exact, done.relations["A"]
    (9, 29, {'y': 3})
    >>> truncate_histograms(([2, 3], [10, 3]), keep=6, method="adg").n_output
    8
    """
    named = {name: _as_mapping(one) for name, one in named_relations(relations).items()}
    keys, counts = _counts(named)
    for name, row in zip(named, counts.tolist(), strict=True):
        if sum(row) >= 1 << 60:
            raise PenstockError(f"relation {name} must have fewer than 2**60 tuples in all, got {sum(row):,}")
    sizes = counts.sum(axis=1).tolist()
    budget = budget_of(list(named), sizes, keep, drop)
    plan = make_plan(counts, budget, method, say)
    kept = {name: row if keys is None else _by_key(keys, row) for name, row in zip(named, plan.kept, strict=True)}
    return summed(kept, plan, counts, budget)


def named_relations(relations: Any) -> dict[str, Any]:
    """The relations by name; those without are called A, B, C, ..."""
    if isinstance(relations, Mapping):
        strange = [name for name in relations if not isinstance(name, str)]
        if strange:
            raise PenstockError(f"relations must be called by texts, got {strange[0]!r}")
        named = dict(relations)
    elif isinstance(relations, Sequence | np.ndarray) and not isinstance(relations, str | bytes):
        named = {chr(ord("A") + place): one for place, one in enumerate(relations)}
    else:
        raise PenstockError(f"relations must be two or more, in a sequence or by name, got {type(relations).__name__}")
    if not 2 <= len(named) <= 26:
        raise PenstockError(f"relations must be two or more (26 at most), got {len(named)}")
    return named


def summed(relations: dict[str, Any], plan: KeepPlan, counts: Ints, budget: Allowance) -> Truncation:
    """A plan as the user sees it."""
    n_kept = dict(zip(relations, plan.kept.sum(axis=1).tolist(), strict=True))
    n_tuples = dict(zip(relations, counts.sum(axis=1).tolist(), strict=True))
    figures = (plan.n_exact, plan.n_output, plan.most, plan.bound, budget.note)
    return Truncation(relations, plan.method, n_tuples, n_kept, *figures, counts, budget.each is None)


def _as_mapping(one: Any) -> Any:
    """A Series of pandas is used as a mapping, though it is not declared as one: its index has the keys."""
    return one.to_dict() if type(one).__name__ == "Series" and hasattr(one, "to_dict") else one


def _counts(named: Mapping[str, Any]) -> tuple[list[Any] | None, Ints]:
    """The keys, in the order in which they appear, and counts by relation and key."""
    if all(isinstance(one, Mapping) for one in named.values()):
        keys = list(dict.fromkeys(key for one in named.values() for key in one if not _is_null(key)))
        nulls = list(dict.fromkeys(key for one in named.values() for key in one if _is_null(key)))
        kinds = {_kind(key) for key in keys}
        if len(kinds) > 1:
            raise PenstockError(f"keys must have the same type in all relations, got {' and '.join(sorted(kinds))}")
        columns = [*keys]
        rows = [[_count(name, one.get(key, 0)) for key in keys] for name, one in named.items()]
        for key in nulls:  # a null matches nothing, not even a null: its tuples are those of a key of their own
            for place, (name, one) in enumerate(named.items()):
                columns.append(key)
                for row_at, row in enumerate(rows):
                    row.append(_count(name, one.get(key, 0)) if row_at == place else 0)
        return columns, np.array(rows, dtype=np.int64).reshape(len(named), len(columns))
    if any(isinstance(one, Mapping) for one in named.values()):
        raise PenstockError("relations must be all mappings or all arrays of counts, got some of each")
    rows = []
    for name, one in named.items():
        try:
            array = np.asarray(one)
        except ValueError:
            array = np.empty((0, 0))
        if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
            raise PenstockError(f"relation {name} must be a DataFrame, a mapping from key to count or an array of counts, got {one!r:.60}")
        rows.append([_count(name, value) for value in array.tolist()])
    if len({len(row) for row in rows}) > 1:
        raise PenstockError(f"arrays must have a count for each of the same keys, got lengths {', '.join(str(len(row)) for row in rows)}")
    return None, np.array(rows, dtype=np.int64).reshape(len(rows), -1)


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < 1 << 60:
        much = " and below 2**60" if isinstance(value, int) and value > 0 else ""
        raise PenstockError(f"relation {name} must have counts that are whole numbers >= 0{much}, got {value!r}")
    return int(value)


def _is_null(key: Any) -> bool:
    """Nothing, in whatever form: None, NaN, NaT, NA, or a tuple with such a thing in it."""
    if isinstance(key, tuple):
        return any(map(_is_null, key))
    return key is None or type(key).__name__ in ("NAType", "NaTType") or bool(key != key)


def _kind(key: Any) -> str:
    return "number" if isinstance(key, int | float | np.number) and not isinstance(key, bool) else type(key).__name__


def _by_key(keys: Sequence[Any], row: Ints) -> dict[Any, int]:
    """Counts by key, without those of which none is kept."""
    out: dict[Any, int] = {}
    for key, count in zip(keys, row.tolist(), strict=True):
        if count:
            out[key] = out.get(key, 0) + count
    return out
