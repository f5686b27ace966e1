"""How many tuples of each key and relation to keep: the methods by name, budgets, and what the plan keeps and loses (Das, section 3).

A plan keeps exactly as many tuples as it may. Where they are of no use any more it takes what comes first: the keys in their order, and
of each key the relations in theirs. So `keep=k` and `drop=all - k` are one plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError, choose
from penstock.core.trace import Ints
from penstock.static import optimal, pair
from penstock.static.greedy import average_degree, node_degree
from penstock.static.limit import Estimate

MOST_OUTPUTS = 1 << 62
METHODS: dict[str, str] = {
    "auto": "optimal where it fits, else the greedy method for the budget",
    "optimal": "the most outputs that any choice keeps (two relations)",
    "adg": "keys by average degree (two relations, one budget); at least half of the optimum, at most twice its losses",
    "ndg": "tuples by degree, each relation by what is left of those before it; at most twice the optimum's losses (m relations: m times)",
    "ndg-independent": "tuples by degree in the whole join, each relation for itself; the same bound",
}
"""The methods, and what they do."""

Amounts = int | Sequence[int] | Ints | Mapping[str, int] | None
"""Of tuples: in all, or for each relation, in a sequence or by name."""


@dataclass(frozen=True)
class Allowance:
    """How many tuples to keep: one number for all relations, or one for each."""

    total: int | None
    each: tuple[int, ...] | None
    note: str = ""

    @property
    def instead(self) -> str:
        """The greedy method for such a budget."""
        return "adg" if self.each is None else "ndg"


@dataclass(frozen=True)
class KeepPlan:
    """Tuples to keep by relation and key, and the outputs that this keeps and loses."""

    method: str
    kept: Ints
    n_exact: int
    n_output: int
    most: int
    """No choice keeps more outputs than this: the optimum itself, or what is proven of it."""
    bound: str
    """What is proven of the method."""

    @property
    def n_lost(self) -> int:
        """Outputs of the exact join that the truncated one does not have."""
        return self.n_exact - self.n_output


def budget_of(names: Sequence[str], sizes: Sequence[int], keep: Amounts, drop: Amounts) -> Allowance:
    """What `keep` or `drop` asks for, within what there is.

    >>> budget_of(["A", "B"], [6, 4], None, 3).total
    7
    >>> budget_of(["A", "B"], [6, 4], {"A": 2, "B": 9}, None)
    Allowance(total=None, each=(2, 4), note='keep asks for 9 tuples of B, which has 4: all are kept')
    """
    argument, asked = asked_for(names, keep, drop)
    if isinstance(asked, int):
        whole = sum(sizes)
        note = f"{argument} asks for {asked:,} of {whole:,} tuples: " if asked > whole else ""
        if argument == "keep":
            return Allowance(min(asked, whole), None, note and note + "all are kept, nothing is lost")
        return Allowance(max(whole - asked, 0), None, note and note + "none is kept")
    over = [f"{k:,} tuples of {name}, which has {size:,}" for name, k, size in zip(names, asked, sizes, strict=True) if k > size]
    note = f"{argument} asks for {' and '.join(over)}: {'all are' if argument == 'keep' else 'none is'} kept" if over else ""
    pairs = zip(asked, sizes, strict=True)
    return Allowance(None, tuple(min(k, size) if argument == "keep" else max(size - k, 0) for k, size in pairs), note)


def asked_for(names: Sequence[str], keep: Amounts, drop: Amounts) -> tuple[str, int | list[int]]:
    """Which of `keep` and `drop` is given, and its number, or one for each relation."""
    if (keep is None) == (drop is None):
        raise PenstockError(f"truncate takes keep= or drop=, got {'neither' if keep is None else 'both'}")
    argument, asked = ("keep", keep) if drop is None else ("drop", drop)
    if isinstance(asked, Mapping):
        if set(asked) != set(names):
            raise PenstockError(f"{argument} must have a number for each of {', '.join(names)}, got {', '.join(map(str, asked)) or 'none'}")
        asked = [asked[name] for name in names]
    if isinstance(asked, Sequence | np.ndarray) and not isinstance(asked, str | bytes):
        if len(asked) != len(names):
            raise PenstockError(f"{argument} must be one number, or {len(names)} for the relations {', '.join(names)}, got {len(asked)}")
        return argument, [_number(argument, k) for k in asked]
    return argument, _number(argument, asked)


def kind_of(asked: int | list[int]) -> Allowance:
    """A budget of this kind, for checks before anything is counted."""
    return Allowance(asked, None) if isinstance(asked, int) else Allowance(None, tuple(asked))


def _number(argument: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise PenstockError(f"{argument} must be a whole number of tuples >= 0, or one for each relation, got {value!r}")
    return int(value)


def make_plan(counts: Ints, budget: Allowance, method: str = "auto", say: Callable[[str], None] | None = None) -> KeepPlan:
    """A plan for `counts` (relations by keys) within the budget. `say` is called with what the exact method will take before it begins.

    >>> plan = make_plan(np.array([[2, 3], [10, 3]]), Allowance(6, None), "adg")
    >>> plan.n_output, plan.most, make_plan(np.array([[2, 3], [10, 3]]), Allowance(6, None)).n_output
    (8, 9, 9)
    """
    check_method(method, len(counts), budget)
    _check_size(counts)
    chosen = method
    if method == "auto":
        chosen = "optimal" if len(counts) == 2 else "ndg"
    exact = int(counts.prod(axis=0).sum())
    if chosen == "optimal":
        matched = np.flatnonzero(counts.prod(axis=0))
        m, n = counts[:, matched]
        core = _core(m, n, budget)
        size = core.estimate()
        if method == "auto" and not size.fits:
            chosen = budget.instead
        else:
            if say is not None and size.keys:
                say(f"method optimal: {size}")
            size.check(budget.instead)
            kept = np.zeros_like(counts)
            kept[:, matched] = optimal.solve(m, n, core) if isinstance(core, optimal.Core) else pair.solve(m, n, core)
            most, proven = int(kept.prod(axis=0).sum()), "no choice keeps more"
    if chosen == "adg":
        assert budget.total is not None
        kept, most = average_degree(counts, budget.total)
        value = int(kept.prod(axis=0).sum())
        half = budget.total // 2  # so many tuples make at most as many outputs as one key of them
        most = min(most, 2 * value, exact - -(-(exact - value) // 2), half * (budget.total - half))
        proven = "keeps at least half of what is possible, loses at most twice what is necessary"
    elif chosen != "optimal":
        assert budget.each is not None
        kept, most = node_degree(counts, budget.each, original=chosen == "ndg-independent")
        most = min(most, math.prod(budget.each))
        times = "twice" if len(counts) == 2 else f"{len(counts)} times"
        proven = f"loses at most {times} what is necessary"
    kept = _filled(counts, kept, budget)
    return KeepPlan(chosen, kept, exact, int(kept.prod(axis=0).sum()), most, proven)


def estimate(counts: Ints, budget: Allowance) -> Estimate:
    """What method `optimal` would take for two relations.

    >>> estimate(np.array([[3, 2, 2], [3, 2, 2]]), Allowance(8, None)).keys
    2
    """
    m, n = counts[:, counts.prod(axis=0) > 0]
    return _core(m, n, budget).estimate()


def check_method(method: str, relations: int, budget: Allowance) -> None:
    """Refuse a method that is not for this number of relations or this kind of budget."""
    choose("method", method, METHODS)
    if relations > 2 and method not in ("auto", "ndg", "ndg-independent"):
        raise PenstockError(f'method must be "ndg" or "ndg-independent" for {relations} relations, got {method!r}, which is for two')
    if relations > 2 and budget.each is None:
        raise PenstockError(f"keep or drop must have a number for each of the {relations} relations, got one for all, which is for two")
    if method == "adg" and budget.each is not None:
        raise PenstockError('method must be "ndg" or "optimal" for a number per relation, got \'adg\', which takes one for both')
    if method.startswith("ndg") and budget.each is None:
        raise PenstockError(f'method must be "adg" or "optimal" for one number for both, got {method!r}, which takes one for each')


def _core(m: Ints, n: Ints, budget: Allowance) -> optimal.Core | pair.PairCore:
    if budget.each is None:
        assert budget.total is not None
        return optimal.reduce(m, n, min(budget.total, int(m.sum() + n.sum())))
    return pair.reduce(m, n, np.array(budget.each, dtype=np.int64))


def _check_size(counts: Ints) -> None:
    outputs = float(counts.astype(np.float64).prod(axis=0).sum())
    if outputs >= MOST_OUTPUTS:
        raise PenstockError(f"relations must have fewer than 2**62 outputs together, got about {outputs:.3g}")


def _filled(counts: Ints, kept: Ints, budget: Allowance) -> Ints:
    """The plan with as many tuples as it may have: those that come first of what is left."""
    if budget.each is None:
        assert budget.total is not None
        left = (counts - kept).T.ravel()
        more = np.clip(budget.total - int(kept.sum()) - (np.cumsum(left) - left), 0, left)
        return kept + more.reshape(kept.shape[::-1]).T
    left = counts - kept
    wanted = np.array(budget.each) - kept.sum(axis=1)
    return kept + np.clip(wanted[:, None] - (np.cumsum(left, axis=1) - left), 0, left)
