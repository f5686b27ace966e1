"""The contract of a policy: a score per candidate, tie-breaks, and, if there is one, a compiled form.

A policy of your own needs `name` and `score` alone:

    class Freshest(Policy):
        name = "freshest-useful"

        def score(self, view):
            return view.produced_value + view.remaining / 1000

    penstock.simulate(trace, window=100, memory=50, policy=Freshest())

It sees the candidates of an instant (`penstock.engine.view.View`), among them what each has produced so far and, in `view.outputs`, the
outputs just made; it may keep state in its own attributes or, per tuple, in `view.memo`. On Spark its attributes are kept in the
checkpoint, as data: what is none (a model, a function) needs methods `snapshot` and `restore`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Bools, Floats, Ints
from penstock.engine.contract import Ranking
from penstock.engine.view import View


class Scores(Protocol):
    """The least that a policy of a user's own has."""

    def score(self, view: View) -> Any:
        """The score of every candidate; low leaves first."""


PolicySpec = str | Scores
"""What a user may give as a policy: a name from `penstock policies`, or an object with a score."""


class Policy:
    """Decides who leaves; low scores first. Subclass it, or write any object with the same methods.

    >>> Policy().ranking(Problem.of(("R", "S"), window=10, memory=4)) is None
    True
    """

    name: str = "policy"
    summary: str = ""
    needs: str = ""
    paper: str = ""

    def score(self, view: View) -> Floats:
        """The score of every candidate."""
        raise NotImplementedError(f"policy {self.name!r} has no method score(view)")

    def ties(self, view: View) -> tuple[Floats, ...]:
        """Tie-breaks between equal scores, before age (low leaves first)."""
        return ()

    def due(self, view: View) -> Bools | None:
        """The candidates that leave even where there is room (step by step only); nobody, as a rule."""
        return None

    def observe(self, view: View, stay: Ints) -> None:
        """Called after shedding with the positions of the candidates that stay, the next to leave first."""

    def after(self, view: View) -> None:
        """Called at the end of an instant, when `view.outputs` are complete whatever the model."""

    def ranking(self, problem: Problem) -> Ranking | None:
        """The compiled form; None plays the policy step by step."""
        return None

    def check(self, problem: Problem) -> None:
        """Refuse problems that the policy is not defined for."""

    def snapshot(self) -> dict[str, Any]:
        """What is kept between two batches, as data: numbers, texts, arrays, and lists and dicts of these. All attributes by default."""
        return dict(vars(self))

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` gave."""
        vars(self).update(state)


class Sparing(Policy):
    """A policy that sheds an arrival only when the instant alone exceeds memory; it looks at equal keys (Kwon)."""

    def worth(self, view: View) -> Floats:
        """What every candidate is worth; low leaves first."""
        raise NotImplementedError(f"policy {self.name!r} has no method worth(view)")

    def score(self, view: View) -> Floats:
        """The place of a candidate by worth, arrivals after all others."""
        places = np.unique(self.worth(view), return_inverse=True)[1]
        return places + view.new * float(len(view))

    def check(self, problem: Problem) -> None:
        """Other predicates have no keys to look at."""
        if not problem.predicate.is_equality:
            got = repr(problem.predicate.name) if problem.graph is None else "links that compare more than one key"
            got = "a join through relations" if problem.through else got
            raise PenstockError(f"policy {self.name!r} looks at equal keys, predicate must be '=', got {got}; use prob or dimpprob")
