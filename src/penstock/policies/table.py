"""The table of policies."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import PenstockError, choose
from penstock.core.problem import Problem
from penstock.engine.chance_steps import least_room
from penstock.policies.additive import Additive
from penstock.policies.base import Policy
from penstock.policies.dgl import Dgl
from penstock.policies.dimpprob import DimpProb
from penstock.policies.elife import Elife
from penstock.policies.ep import Ep
from penstock.policies.fifo import Fifo
from penstock.policies.frequency import Frequency
from penstock.policies.kwon_random import KwonRandom
from penstock.policies.learned import Learned
from penstock.policies.life import Life
from penstock.policies.opt import Opt
from penstock.policies.output import Output
from penstock.policies.prob import Prob
from penstock.policies.rand import Rand
from penstock.policies.simp import Simp
from penstock.policies.simpprob import SimpProb

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (Rand, Fifo, Prob, Life, Elife, Learned, Simp, SimpProb, DimpProb, Dgl, Additive, Ep, Frequency, Output, KwonRandom)
}


AUTO = "auto"
"""The policy of a join whose user names none: the best that is defined for it (docs/decisions/0024)."""


def best_policy(problem: Problem, room: int | None = None) -> str:
    """What `auto` is: `learned` where keys are equal; elsewhere, where other statistics are asked for, or where the `room` for statistics
    is too little to learn in, `prob`, and with importance `dimpprob`. Where nobody says how fast counts age, a policy that needs none.

    >>> windows = {"window": 10, "memory": 4, "stats": "decayed"}
    >>> best_policy(Problem.of(("R", "S"), **windows)), best_policy(Problem.of(("R", "S"), predicate="<", **windows))
    ('learned', 'prob')
    """
    if problem.ageless and problem.stats == "decayed":
        return _best_without_counts(problem)
    if problem.predicate.is_equality and problem.stats == "decayed" and (room is None or room >= least_room(problem)):
        return Learned.name
    return Prob.name if problem.steady else DimpProb.name


def _best_without_counts(problem: Problem) -> str:
    """The best that asks for no decayed counts (docs/decisions/0024).

    >>> [best_policy(Problem.of(streams, window="none", memory=4, stats="decayed")) for streams in ("RS", "RST")]
    ['ep', 'frequency']
    """
    if not problem.predicate.is_equality:
        return DimpProb.name
    if problem.n_streams > 2:
        return Frequency.name
    return Ep.name if problem.steady else Simp.name


def open_policy(spec: Any, problem: Problem, *, also: tuple[str, ...] = (), room: int | None = None) -> Policy:
    """A policy by name, or the user's own object; refused where it is not defined for the problem.

    `also` are the names that the caller plays itself, for the list that a misspelt name gets; `room` are the bytes that there are for
    statistics.

    >>> open_policy("prob", Problem.of(("R", "S"), window=10, memory=4)).name
    'prob'
    """
    if spec == Opt.name:
        raise PenstockError(
            "policy 'opt' replays the optimum of a whole trace: only simulate can play it, got it where the future is unknown"
        )
    if isinstance(spec, str):
        name = choose("policy", spec, (AUTO, *POLICIES, *also))
        policy = POLICIES[best_policy(problem, room) if name == AUTO else name]()
    elif isinstance(spec, type):
        raise PenstockError(f"policy must be an object, got the class {spec.__name__}: write {spec.__name__}()")
    elif isinstance(spec, Policy):
        policy = spec
    elif callable(getattr(spec, "score", None)):
        policy = _Adopted(spec)
    else:
        raise PenstockError(f"policy must be a name or an object with a method score(view), got {spec!r}")
    policy.check(problem)
    return policy


class _Adopted(Policy):
    """A stranger's object with the methods it has, and the defaults for those it has not."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.name = str(getattr(spec, "name", type(spec).__name__))
        for method in ("score", "ties", "due", "observe", "after", "check", "snapshot", "restore"):
            if callable(getattr(spec, method, None)):
                setattr(self, method, getattr(spec, method))

    def snapshot(self) -> dict[str, Any]:
        """The attributes of the object."""
        return dict(getattr(self.spec, "__dict__", {}))

    def restore(self, state: dict[str, Any]) -> None:
        """Take over attributes."""
        for name, value in state.items():
            setattr(self.spec, name, value)
