"""What is to be run: streams, windows, budget, predicate, objective and the rest, validated once and used by all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.budget import Pools
from penstock.core.errors import PenstockError, choose
from penstock.core.facts import Through, check_tree
from penstock.core.graph import Graph, is_graph
from penstock.core.predicate import Predicate
from penstock.core.trace import LIMIT, Ints
from penstock.core.value import COUNT, Objective
from penstock.core.window import COUNTING, NEVER, Window, by_stream, check_names, parse_windows, whole

STATS = ("whole", "window", "decayed", "given", "sketch")
SWITCHES = {
    "life-remaining": ("full", "less-one"),
    "varying-window": ("arrival", "instant"),
    "rand-newcomer": ("candidate", "safe"),
    "dgl-init": ("importance", "simpprob"),
    "mn": ("memory+arrivals", "memory"),
    "rates": ("tick", "arrival"),
    "ep-ties": ("oldest", "smallest-pattern"),
    "ep-drops": ("oldest", "newest"),
    "ep-finishes": ("all", "last"),
    "kwon-ties": ("oldest", "random"),
    "output-counts": ("present", "ever"),
    "pre-filter": ("both", "static", "none"),
}
"""The ambiguities of the papers that can be read either way (docs/readings.md, switches); the first reading is the default."""
_MATCHES = "a number of outputs >= 1, or nothing"


@dataclass(frozen=True)
class Problem:
    """A join under a budget: everything about a run but its policy and its rows.

    >>> problem = Problem.of(("R", "S"), window=10, memory=4)
    >>> problem.n_streams, problem.budget.most, problem.switch("mn")
    (2, 4, 'memory+arrivals')
    >>> Problem.of(("R", "S", "T"), window=10, memory=4, predicate="R.a = S.a, S.b < T.b").graph.columns(1)
    ('a', 'b')
    """

    streams: tuple[str, ...]
    windows: tuple[Window, ...]
    budget: Pools
    predicate: Predicate
    objective: Objective
    stats: str = "whole"
    model: str = "buffered"
    clock: str = "global"
    lateness: Ints = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    start: float = -math.inf
    seed: int = 0
    alpha: float | None = None
    beta: float | None = None
    half_life: float | None = None
    weights: tuple[float, float, float] = (1.0, 1.0, 0.0)
    switches: Mapping[str, str] = field(default_factory=dict)
    has_importance: bool = False
    lifetimes: tuple[bool, ...] = ()  # by stream, whether each tuple has a lifetime of its own; nothing where none has
    matches: tuple[int | None, ...] = ()  # by stream: in how many outputs a tuple takes part at most, as promised; None for any number
    through: tuple[Through, ...] = ()  # the relations that streams are joined through; `predicate` is "through" then
    graph: Graph | None = None  # the links, where the predicate was given as such; `predicate` is "=" where they amount to one key

    @classmethod
    def of(
        cls,
        streams: Sequence[str],
        *,
        window: Any,
        memory: Any,
        allocation: str = "variable",
        predicate: Any = "=",
        cross: bool = False,
        through: Sequence[Through] = (),
        objective: Any = None,
        stats: str = "whole",
        model: str = "buffered",
        clock: str = "global",
        lateness: Any = 0,
        matches: Any = None,
        start: Any = None,
        seed: int = 0,
        alpha: float | None = None,
        beta: float | None = None,
        half_life: float | None = None,
        weights: Sequence[float] = (1.0, 1.0, 0.0),
        switches: Mapping[str, str] | None = None,
        has_importance: bool = False,
        has_lifetime: bool | Sequence[bool] = False,
    ) -> Problem:
        """Read and check every argument; each error names the argument, what it got and what would be right."""
        if len(streams) < 2:
            raise PenstockError(f"a join needs at least two streams, the trace has only {', '.join(streams) or 'none'}")
        twice = sorted({name for name in streams if list(streams).count(name) > 1})
        if twice:
            raise PenstockError(f"streams must have different names, got {', '.join(twice)} more than once")
        graph = Graph.parse(predicate, streams, cross=cross) if is_graph(predicate) else None
        if cross and graph is None:
            raise PenstockError(f"cross=True lets the parts of a join graph match freely and needs links as predicate, got {predicate!r}")
        if through and predicate != "=":
            raise PenstockError(f"predicate must be left out where streams are joined through relations, got {predicate!r}")
        windows = parse_windows(window, streams)
        lifetimes = (has_lifetime,) * len(streams) if isinstance(has_lifetime, bool) else tuple(has_lifetime)
        if any(lifetimes) and any(w.kind in COUNTING for w in windows):
            raise PenstockError("window rows:C counts rows, which a column 'lifetime' in ticks cannot replace; leave one out")
        if objective is None:
            objective = "min" if has_importance or any(one.weighted for one in through) else "count"
        problem = cls(
            streams=tuple(streams),
            windows=windows,
            budget=Pools.parse(memory, streams, allocation=allocation),
            predicate=_predicate(predicate, graph, through),
            objective=Objective.parse(objective),
            stats=choose("stats", stats, STATS),
            model=choose("model", model, ("buffered", "inplace")),
            clock=choose("clock", clock, ("global", "streams")),
            lateness=_lateness(lateness, streams),
            matches=parse_matches(matches, streams),
            start=-math.inf if start is None else float(whole(start, "start")),
            seed=_seed(seed),
            alpha=_positive(alpha, "alpha"),
            beta=_positive(beta, "beta", zero=True),
            half_life=_half_life(half_life),
            weights=_weights(weights),
            switches=_switches(switches or {}),
            has_importance=has_importance,
            lifetimes=lifetimes if any(lifetimes) else (),
            through=tuple(through),
            graph=graph,
        )
        if through:
            problem.check_through()
        if problem.stats == "sketch" and not problem.predicate.is_equality:
            raise PenstockError(f"stats 'sketch' counts equal keys; for predicate {problem.predicate.name!r} use decayed or window")
        if problem.counts_keys and not problem.predicate.is_equality:
            raise PenstockError("window rows_per_key:C counts the rows of one key, so the predicate must be equality of keys")
        return problem

    def check_through(self) -> None:
        """Refuse what a join through relations cannot have (docs/decisions/0031)."""
        check_tree(self.through, self.streams)
        for name, window in zip(self.streams, self.windows, strict=True):
            if window.kind in COUNTING:
                told = f"{window.kind}:{window.length}"
                raise PenstockError(f"window of {name} must be a length of time in a join through relations, got {told}")
        if self.has_matches:
            raise PenstockError("matches must be left out in a join through relations, got a promise")
        if self.stats in ("given", "sketch"):
            raise PenstockError(f"stats must be decayed, window or whole in a join through relations, got {self.stats!r}")

    @property
    def counts_keys(self) -> bool:
        """Whether a window holds the last rows of each key."""
        return any(window.kind == "rows_per_key" for window in self.windows)

    @property
    def has_matches(self) -> bool:
        """Whether tuples of some stream leave after so many outputs (`matches`)."""
        return any(most is not None for most in self.matches)

    @property
    def most_outputs(self) -> Ints:
        """By stream, the outputs after which a tuple leaves; NEVER where it stays."""
        return np.array([NEVER if most is None else most for most in self.matches or (None,) * self.n_streams], dtype=np.int64)

    @property
    def n_streams(self) -> int:
        """How many streams are joined."""
        return len(self.streams)

    @property
    def has_lifetime(self) -> bool:
        """Whether tuples of some stream have lifetimes of their own."""
        return bool(self.lifetimes)

    @property
    def stays(self) -> tuple[int | None, ...]:
        """By stream, how many ticks a tuple stays at most; None where nothing says it.

        >>> Problem.of(("R", "S"), window=10, memory=4, has_lifetime=(False, True)).stays
        (10, None)
        """
        own = self.lifetimes or (False,) * self.n_streams
        return tuple(None if mortal else window.longest for window, mortal in zip(self.windows, own, strict=True))

    @property
    def priced_by_key(self) -> bool:
        """Whether all tuples of one stream and key have the same p: equality, and outputs that are all worth the same."""
        return self.predicate.is_equality and (self.objective.code == COUNT or not self.has_importance or self.n_streams > 2)

    @property
    def ages_in_order(self) -> bool:
        """Whether, of two tuples of one stream, the earlier never outlives the later."""
        return not self.has_lifetime and all(w.kind != "schedule" for w in self.windows)

    @property
    def steady(self) -> bool:
        """Whether outputs are all worth the same, so that they can be counted without looking at importances and weights of facts."""
        return not self.weighted and (self.objective.code == COUNT or not self.has_importance)

    @property
    def weighted(self) -> bool:
        """Whether facts that streams are joined through have weights."""
        return any(one.weighted for one in self.through)

    def switch(self, name: str) -> str:
        """The reading chosen for one of `SWITCHES`."""
        return self.switches.get(name, SWITCHES[name][0])

    def leader(self, which: int) -> int:
        """The stream of a pool with the longest window."""
        mine = [stream for stream, pool in enumerate(self.budget.pool) if pool == which]
        return max(mine, key=lambda stream: (self.windows[stream].length, -stream))

    def require_bounded(self, policy: str) -> None:
        """Refuse a policy that needs to know when tuples leave."""
        own = self.lifetimes or (False,) * self.n_streams
        for name, window, mortal in zip(self.streams, self.windows, own, strict=True):
            if not window.bounded and not mortal:
                raise PenstockError(f"policy {policy!r} needs a window that tuples leave, stream {name} has {window.kind!r}")

    def require_stream_windows(self) -> None:
        """Refuse windows that depend on the keys that come: the optimum does not know them."""
        if self.counts_keys:
            raise PenstockError("the optimum needs windows of time or of the rows of a whole stream, got rows_per_key")

    @property
    def ageless(self) -> bool:
        """Whether nothing says how fast decayed statistics age."""
        return self.half_life is None and any(not w.bounded or w.kind in COUNTING for w in self.windows)

    def ageing(self) -> float:
        """The half-life of decayed statistics: given, else the longest window."""
        if self.half_life is not None:
            return self.half_life
        if self.ageless:
            raise PenstockError(
                "half_life must be given where a window is not a length of time, got none: say how fast counts age, or have stats "
                "'window', whose counts do not age, or policy 'auto', which takes one that needs neither"
            )
        return float(max(max(length for _, length in w.schedule) if w.schedule else w.length for w in self.windows))


def _predicate(spec: Any, graph: Graph | None, through: Sequence[Through]) -> Predicate:
    if through:
        return Predicate("through")
    return Predicate.parse(spec) if graph is None else Predicate("=" if graph.shared_key else "links")


def _seed(seed: Any) -> int:
    number = whole(seed, "seed")
    if number < 0:
        raise PenstockError(f"seed must be a whole number >= 0, got {seed!r}")
    return number


def _lateness(spec: Any, streams: Sequence[str]) -> Ints:
    if isinstance(spec, str) and "=" in spec:
        spec = by_stream(spec, "lateness")
    if isinstance(spec, Mapping):
        given = check_names(spec, streams, "lateness")
        values = [whole(given[name], f"lateness of {name}") for name in streams]
    else:
        values = [whole(spec, "lateness")] * len(streams)
    if min(values) < 0:
        raise PenstockError(f"lateness must be a number of ticks >= 0, got {min(values)}")
    return np.array(values, dtype=np.int64)


def parse_matches(spec: Any, streams: Sequence[str]) -> tuple[int | None, ...]:
    """By stream, the outputs that a tuple takes part in at most: one number for all, or a mapping / "R=1,S=2" for some of the streams.

    >>> parse_matches({"S": 1}, ("R", "S")), parse_matches("2", ("R", "S")), parse_matches(None, ("R", "S"))
    ((None, 1), (2, 2), ())
    """
    if spec is None:
        return ()
    if isinstance(spec, str) and "=" in spec:
        spec = by_stream(spec, "matches")
    given = {str(name): most for name, most in spec.items()} if isinstance(spec, Mapping) else dict.fromkeys(streams, spec)
    for name in given:
        choose("stream of matches", name, streams)
    found = tuple(None if given.get(name) is None else whole(given[name], f"matches of {name}", _MATCHES) for name in streams)
    for name, most in zip(streams, found, strict=True):
        if most is not None and most < 1:
            raise PenstockError(f"matches of {name} must be {_MATCHES}, got {most}")
    return found if any(most is not None for most in found) else ()


def _positive(value: float | None, name: str, *, zero: bool = False) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (0 < number < math.inf or (zero and number == 0)):
        wanted = "number >= 0" if zero else 'positive number, or a duration such as "10 minutes"'
        raise PenstockError(f"{name} must be a {wanted}, got {value!r}")
    return number


def _half_life(value: float | None) -> float | None:
    number = _positive(value, "half_life")
    if number is not None and not 0.5 <= number < LIMIT:
        raise PenstockError(f"half_life must be at least half a tick and below 2**60, got {value!r}")
    return number


def _weights(weights: Sequence[float]) -> tuple[float, float, float]:
    try:
        importance, matches, time = (float(w) for w in weights)
    except (TypeError, ValueError):
        raise PenstockError(f"weights must be three numbers (importance, mn, time), got {weights!r}") from None
    if not all(map(math.isfinite, (importance, matches, time))):
        raise PenstockError(f"weights must be finite, got {weights!r}")
    return importance, matches, time


def _switches(switches: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(switches, Mapping):
        raise PenstockError(f"switches must be names with values, such as {{'mn': 'memory'}}, got {switches!r}")
    for name, value in switches.items():
        choose("switch", name, SWITCHES)
        choose(f"switch {name}", value, SWITCHES[name])
    return dict(switches)
