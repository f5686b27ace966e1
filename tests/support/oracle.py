"""The oracle: a sliding-window stream join under a memory budget, slow and in plain Python.

It repeats docs/decisions/0001-exact-semantics.md rule by rule, shares no code with the engine, and uses the standard
library alone. Everything is recomputed from the definition at every instant.

    time      0   1   2   3   4
    R         a   .   b   .   .
    S         .   .   a   .   b      window 3: (a,a) at 2; (b,b) at 4
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

Number = Any  # int, float or Fraction: whole-trace counts stay exact
Window = tuple[Any, ...]
Output = tuple[int, tuple[int, ...]]
INFINITY = math.inf


@dataclass(frozen=True)
class Row:
    """One tuple of the input; its number is its index in the list of rows."""

    stream: int
    time: int
    key: Any
    importance: float = 1.0
    lifetime: int | None = None
    size: int = 1
    columns: Mapping[str, Any] = field(default_factory=dict)  # what links compare, by name


Match = Callable[[Row, Row], bool]


@dataclass(frozen=True, kw_only=True)
class Tuple(Row):
    """A row with what follows from its place in the trace; `expiry` and `limit` are fixed on arrival."""

    number: int
    ordinal: int  # its place among the rows of its stream
    instant: int  # the number of the instant in which it arrives
    expiry: Number  # the first tick at which it is outside its window
    limit: int | None  # count windows: it is inside while fewer than `limit` rows of its stream have followed
    per_key: bool = False  # only rows of its own key count there


@dataclass
class Result:
    """What happened in a run; `outputs` holds all of them, `n_output` and `value` those from `start` on."""

    n_input: int = 0
    n_output: int = 0
    value: Number = 0
    n_shed: int = 0
    n_expired: int = 0
    n_late: int = 0
    n_done: int = 0
    peak_memory: int = 0
    outputs: list[Output] = field(default_factory=list)  # (largest time, row numbers by stream)
    log: list[tuple[int, list[int]]] = field(default_factory=list)  # after each instant: (its time, rows retained)
    sheds: list[int] = field(default_factory=list)
    series: list[tuple[int, list[int]]] = field(default_factory=list)  # (time, tuples retained per stream)


def exact(
    rows: Sequence[Row],
    n_streams: int,
    windows: Sequence[Window],
    *,
    predicate: Any = "=",
    switches: Mapping[str, str] | None = None,
    batches: Iterable[int] | None = None,
) -> list[Output]:
    """The exact result: every combination of one tuple per stream that the definition admits.

    `batches` matters to count windows only, where the instant of arrival decides who is inside.

    >>> exact([Row(0, 0, "a"), Row(1, 2, "a"), Row(1, 3, "a")], 2, [("time", 3)] * 2)
    [(2, (0, 1))]
    """
    tuples = place(rows, windows, switches or {}, batches)
    match = matcher(predicate)

    def followers(x: Tuple, last: int) -> int:
        return sum(follows(y, x) and y.instant <= last for y in tuples)

    outputs = []
    for members in product(*([x for x in tuples if x.stream == s] for s in range(n_streams))):
        if admitted(members, match):
            last = max(x.instant for x in members)
            if all(x.limit is None or x.instant == last or followers(x, last) < x.limit for x in members):
                outputs.append(output(members))
    return sorted(outputs)


def simulate(
    rows: Sequence[Row], n_streams: int, *, windows: Sequence[Window], memory: Any,
    policy: str | Callable[[Tuple, Context], tuple[Any, ...]], allocation: str = "variable", stats: str = "whole",
    objective: str | Callable[[list[float]], Number] = "count", model: str = "buffered", clock: str = "global",
    lateness: int | Sequence[int] | None = None, predicate: Any = "=", start: int | None = None,
    alpha: float | None = None, beta: float | None = None, half_life: float | None = None,
    given: Mapping[tuple[int, Any], Number] | None = None, weights: tuple[float, float, float] = (1, 1, 0),
    switches: Mapping[str, str] | None = None, weighted: bool = False, batches: Iterable[int] | None = None,
    matches: Sequence[int | None] = (),
) -> Result:  # fmt: skip
    """Play the rows in their order, instant by instant, never keeping more than `memory` at the end of one.

    >>> rows = [Row(0, 0, "a"), Row(0, 1, "b"), Row(1, 2, "a"), Row(1, 3, "b")]
    >>> run = simulate(rows, 2, windows=[("time", 4)] * 2, memory=1, policy="fifo")
    >>> run.n_output, run.sheds
    (0, [0, 1, 2])
    """
    assert model in ("buffered", "inplace") and clock in ("global", "streams") and allocation in ("variable", "fixed")
    assert stats in ("whole", "window", "decayed", "given") and len(windows) == n_streams
    score = policy if callable(policy) else SCORES[policy]
    if policy == "dgl" and any(window[0] in ("none", "landmark") for window in windows):
        raise ValueError(f"dgl needs a bounded window in every stream, got {windows}")
    switches = switches or {}
    tuples = place(rows, windows, switches, batches)
    value = objective if callable(objective) else VALUES[objective]
    if half_life is None:
        half_life = longest(windows) if stats == "decayed" else INFINITY
    context = Context(
        tuples, n_streams, windows, matcher(predicate), value, objective == "count", stats, switches,
        alpha, beta, half_life, given or {}, weights,
    )  # fmt: skip
    context.compared = lambda x: looked_at(predicate, x)
    context.by_key = predicate == "=" and (objective == "count" or n_streams > 2)
    slack = list(lateness) if isinstance(lateness, Sequence) else [lateness or 0] * n_streams
    held: list[Tuple] = []
    result = Result(n_input=len(rows))

    for number in range(tuples[-1].instant + 1 if tuples else 0):
        arrivals = [x for x in tuples if x.instant == number]
        context.arrive(number, arrivals)
        horizon = context.horizon(clock, slack)

        # Step 1, expire. A count window already holds this instant's arrivals, and may have pushed some of them out.
        result.n_late += sum(x.limit is None and x.expiry <= horizon for x in arrivals)
        kept = [x for x in held if not context.pushed_out(x) and x.expiry > horizon]
        newcomers = [x for x in arrivals if not context.pushed_out(x)]
        result.n_expired += len(held) - len(kept) + len(arrivals) - len(newcomers)
        context.memory = kept
        context.begin()

        # Step 2, join. It comes before scoring in model `buffered`.
        def joined(met: list[Tuple], arrivals: list[Tuple] = arrivals) -> list[tuple[Tuple, ...]]:
            found = [members for members in combined(met, arrivals, n_streams) if admitted(members, context.match)]
            context.outputs += [(context.instant, members) for members in found]
            return found

        found = joined(kept) if model == "buffered" else []

        def done(x: Tuple) -> bool:
            most = matches[x.stream] if matches else None
            return most is not None and sum(x in members for _, members in context.outputs) >= most

        # Steps 3 and 4, score and shed. One set of scores serves the whole instant.
        candidates = kept + newcomers
        ranks = {x.number: (*score(x, context), x.time, x.stream, x.number) for x in candidates}
        held = candidates if model == "inplace" else [x for x in candidates if not done(x)]
        result.n_done += len(candidates) - len(held)
        for streams, budget in pools(memory, allocation, n_streams, context.now):
            while weight(pool := [x for x in held if x.stream in streams], weighted) > budget:
                victim = min(pool, key=lambda x: ranks[x.number])
                held = [x for x in held if x.number != victim.number]
                result.sheds.append(victim.number)

        # In model `inplace` the join comes now, with what remains of the memory.
        if model == "inplace":
            found = joined([x for x in kept if x in held])
            result.n_done += sum(done(x) for x in held)
            held = [x for x in held if not done(x)]
        context.end(held)
        for members in sorted(found, key=output):
            result.outputs.append(output(members))
            if start is None or max(x.time for x in members) >= start:
                result.n_output += 1
                result.value += value([x.importance for x in members])

        time = arrivals[0].time
        result.log.append((time, sorted(x.number for x in held)))
        result.series.append((time, [sum(x.stream == s for x in held) for s in range(n_streams)]))
        result.peak_memory = max(result.peak_memory, weight(held, weighted))
    result.n_shed = len(result.sheds)
    return result


@dataclass
class Context:
    """What a policy may ask about the present instant: `now`, `p`, `mn`, `remaining`, and a `state` per tuple."""

    tuples: list[Tuple]
    n_streams: int
    windows: Sequence[Window]
    match: Match
    value: Callable[[list[float]], Number]
    counting: bool
    stats: str
    switches: Mapping[str, str]
    alpha: float | None
    beta: float | None
    half_life: float
    given: Mapping[tuple[int, Any], Number]
    weights: tuple[float, float, float]
    instant: int = -1
    now: Number = -INFINITY
    seen: list[Tuple] = field(default_factory=list)  # every row that has arrived, shed or not
    memory: list[Tuple] = field(default_factory=list)  # after step 1 of this instant
    arrivals: list[Tuple] = field(default_factory=list)  # all of this instant
    state: dict[int, Number] = field(default_factory=dict)  # what a policy remembers of a tuple, by row number
    whole: dict[int, Number] = field(default_factory=dict)  # p of the whole trace: computed once per tuple
    compared: Callable[[Row], Any] = lambda x: x.key  # what the predicate looks at
    by_key: bool = True  # arrivals of one key are priced alike, whatever their importance
    outputs: list[tuple[int, tuple[Tuple, ...]]] = field(default_factory=list)  # so far: the instant, the members
    present: list[list[list[Any]]] = field(default_factory=list)  # for each instant: the keys in memory after step 1 and at its end
    patterns: dict[int, tuple[bool, ...]] = field(default_factory=dict)  # by row: which streams held the key when it arrived
    moved: int = 0  # half-lives since the first arrival at which rare keys were last forgotten
    forgotten: set[int] = field(default_factory=set)

    def arrive(self, instant: int, arrivals: list[Tuple]) -> None:
        """Begin an instant: the clock, the rows seen and the count windows take its arrivals in."""
        self.instant, self.arrivals = instant, arrivals
        self.seen = self.seen + arrivals
        self.now = max(self.now, arrivals[0].time)
        if self.stats == "decayed":
            self.forget(max(1, 8 // (self.n_streams - 1)), 1 / 256)

    def begin(self) -> None:
        """After step 1: note the keys in memory, and which streams hold the key of each arrival, earlier rows and itself included."""
        self.present.append([[y.key for y in self.memory]])
        for x in self.arrivals:
            there = [y for y in self.memory + self.arrivals if y is x or (y.number < x.number and same_key(x, y))]
            self.patterns[x.number] = tuple(any(y.stream == s for y in there) for s in range(self.n_streams))

    def end(self, held: list[Tuple]) -> None:
        """After the instant: note the keys in memory."""
        self.present[-1].append([y.key for y in held])

    def forget(self, step: int, least: float) -> None:
        """Every `step` half-lives: keys whose arrivals together weigh less than `least` of a new one are forgotten."""
        past = [x for x in self.seen if x not in self.arrivals]
        if not past or self.half_life == INFINITY:
            return
        begin = past[0].time
        age = math.floor((self.arrivals[0].time - begin) / self.half_life / step) * step
        if age <= self.moved:
            return
        self.moved = age
        weights: dict[Any, float] = {}
        classes = {
            x.number: (x.stream, self.compared(x), None if self.by_key else x.importance) for x in past if x.number not in self.forgotten
        }
        for x in past:
            if x.number in classes:
                weights.setdefault(classes[x.number], 0.0)
                weights[classes[x.number]] += 2.0 ** ((x.time - begin) / self.half_life - age)
        self.forgotten |= {number for number, one in classes.items() if weights[one] < least}

    def horizon(self, clock: str, lateness: Sequence[int]) -> Number:
        """The time up to which tuples may expire; a stream that has shown nothing yet holds it at minus infinity."""
        if clock == "global":
            return self.now
        times = [[x.time for x in self.seen if x.stream == s] for s in range(self.n_streams)]
        return min(max(seen, default=-INFINITY) - late for seen, late in zip(times, lateness, strict=True))

    def followed(self, x: Tuple) -> int:
        """The number of rows of x's stream that have followed x."""
        return sum(follows(y, x) for y in self.seen)

    def pushed_out(self, x: Tuple) -> bool:
        """Whether x has left its count window."""
        return x.limit is not None and self.followed(x) >= x.limit

    def remaining(self, x: Tuple) -> Number:
        """What is left of x's life: ticks, or rows in a count window; never below 0."""
        left = x.expiry - self.now if x.limit is None else x.limit - self.followed(x)
        return max(0, left - (self.switches.get("life-remaining") == "less-one"))

    def partners(self, x: Tuple) -> list[int]:
        """The streams other than x's."""
        return [s for s in range(self.n_streams) if s != x.stream]

    def near(self, x: Tuple, stream: int) -> list[Tuple]:
        """The tuples of a stream that mn counts for x: its memory after step 1 and its arrivals of this instant."""
        present = self.memory if self.switches.get("mn") == "memory" else self.memory + self.arrivals
        return [y for y in present if y.stream == stream and self.match(x, y)]

    def first_importance(self, x: Tuple) -> float:
        """What a score that begins at the importance begins at."""
        return x.importance

    def mn(self, x: Tuple) -> int:
        """The number of matches of x; with more than two streams the product over the others."""
        return math.prod(len(self.near(x, stream)) for stream in self.partners(x))

    def p(self, x: Tuple) -> Number:
        """p_other(x), up to a common factor: the expected value of the matches that a tick brings to x."""
        if null(x.key):
            return 0
        if self.stats != "whole":
            return math.prod(self.rate(x, stream) for stream in self.partners(x))
        if x.number not in self.whole:
            self.whole[x.number] = math.prod(self.rate(x, stream) for stream in self.partners(x))
        return self.whole[x.number]

    def rate(self, x: Tuple, stream: int) -> Number:
        """The factor of p_other(x) that one partner stream contributes."""
        if self.stats == "given":
            return self.given.get((stream, x.key), 0) * self.pair(x, x)
        if self.stats == "window":
            return total(self.pair(x, y) for y in self.near(x, stream))
        if self.stats == "decayed":
            found = (y for y in self.seen if y.stream == stream and self.match(x, y) and y.number not in self.forgotten)
            return rounded(math.fsum(self.pair(x, y) * 2.0 ** -((self.now - y.time) / self.half_life) for y in found))
        others = [y for y in self.tuples if y.stream == stream]
        count = total(self.pair(x, y) for y in others if self.match(x, y))
        if self.switches.get("rates") == "arrival" and others:
            return Fraction(count, len(others)) if isinstance(count, int) else count / len(others)
        return count

    def pair(self, x: Tuple, y: Tuple) -> Number:
        """val(x, y): the value of the output (x, y); 1 for `count` and whenever there are more than two streams."""
        if self.counting or self.n_streams > 2:
            return 1
        return self.value([z.importance for z in sorted((x, y), key=lambda z: z.stream)])

    def window(self, x: Tuple) -> Number:
        """The length of the window of x's stream, in ticks, or in rows for a count window."""
        kind, size = self.windows[x.stream]
        return piecewise(size, self.now) if kind == "schedule" else size


def life(x: Tuple, context: Context) -> tuple[Number]:
    """Remaining life times p; 0 where p is 0, in an unbounded window too."""
    p = context.p(x)
    return (context.remaining(x) * p if p else 0,)


def simpprob(x: Tuple, context: Context) -> tuple[Number, ...]:
    """Importance times the matches that x had when it arrived."""
    if x.instant == context.instant:
        context.state[x.number] = x.importance * context.mn(x)
    return (context.state[x.number], x.importance)


def dgl(x: Tuple, context: Context) -> tuple[Number, ...]:
    """A score that grows whenever a matching arrival comes and fades by beta at every other instant; a whole number of units."""
    mn = context.mn(x)
    times = multiplier(context)
    if x.instant == context.instant:
        simpprob = context.switches.get("dgl-init") == "simpprob"
        context.state[x.number] = units(x.importance * (times * mn) if simpprob else context.first_importance(x) * times)
    elif any(y.stream != x.stream and context.match(x, y) for y in context.arrivals):
        alpha = context.window(x) if context.alpha is None else context.alpha
        gain = units(x.importance * (mn * float(context.remaining(x)) * (times / alpha)))
        context.state[x.number] = min(context.state[x.number] + gain, units(math.inf))
    else:
        mean = float(sum(Fraction(y.importance) for y in context.seen) / len(context.seen)) if context.beta is None else 0.0
        lost = units(mean * (times / context.window(x)) if context.beta is None else context.beta * times)
        context.state[x.number] = max(0, context.state[x.number] - lost)
    return (context.state[x.number], x.importance, mn)


def units(number: float) -> int:
    """A number in whole units of 2 ** -90, at most 2 ** 95."""
    return math.floor(Fraction(number) * 2**90) if number < 2.0**95 else 2**185


def multiplier(context: Context) -> float:
    """What scores are kept times: the least common multiple of the windows and of an alpha that is whole, or 1 where that is too large."""
    divisors = [] if context.alpha is None or context.alpha % 1 else [int(context.alpha)]
    if None in (context.alpha, context.beta):
        divisors += [length for kind, size in context.windows for length in ([w for _, w in size] if kind == "schedule" else [size])]
    return float(math.lcm(*divisors) if math.lcm(*divisors) <= 2**48 else 1)


def additive(x: Tuple, context: Context) -> tuple[Number]:
    """A weighted sum of importance, matches and time since the first row of the run."""
    a, b, c = context.weights
    return (a * x.importance + b * context.mn(x) + c * (x.time - context.tuples[0].time),)


def newcomer(x: Tuple, context: Context) -> bool:
    """Kwon's policies shed an arrival only when nothing else is left."""
    return x.instant == context.instant


def ep(x: Tuple, context: Context) -> tuple[Any, ...]:
    """The outputs per tuple of x's stream and existence pattern so far; those that have met all partners before all others.

    Of these, first who finished first: by the row that completed its first output, or itself where it found all partners there.
    """

    def alike(y: Tuple) -> bool:
        return y.stream == x.stream and context.patterns[y.number] == context.patterns[x.number]

    made = sum(alike(y) for _, members in context.outputs for y in members)
    seen = sum(alike(y) for y in context.seen)
    finishers = [max(y.number for y in members) for _, members in context.outputs if x in members]
    if all(context.patterns[x.number]):
        finishers.append(x.number)
    if context.switches.get("ep-finishes") == "last":
        finishers = []
    done = bool(finishers) or all(context.patterns[x.number])
    worth, finish = Fraction(-1) if done else Fraction(made, seen), min(finishers, default=0)
    age: tuple[Any, ...] = (finish,)
    if context.switches.get("ep-drops") == "newest":
        age = (-finish, -x.time, -x.stream, -x.number)
    if context.switches.get("ep-ties") == "smallest-pattern":
        return newcomer(x, context), worth, (True,) * context.n_streams if done else context.patterns[x.number], *age
    return newcomer(x, context), worth, *age


def frequency(x: Tuple, context: Context) -> tuple[Any, ...]:
    """The number of tuples with x's key in all streams: memory after step 1 and arrivals."""
    return newcomer(x, context), sum(y is x or same_key(x, y) for y in context.memory + context.arrivals)


def yielded(x: Tuple, context: Context) -> tuple[Any, ...]:
    """The outputs with x's key since it was last missing in memory, after a step 1 or at the end of an instant; or all of them."""
    since = 0
    for instant, keys in enumerate(context.present if context.switches.get("output-counts") != "ever" else ()):
        if x.key not in keys[0]:
            since = instant
        if len(keys) > 1 and x.key not in keys[1]:
            since = instant + 1
    return newcomer(x, context), sum(instant >= since and same_key(x, members[0]) for instant, members in context.outputs)


SCORES: dict[str, Callable[[Tuple, Context], tuple[Any, ...]]] = {  # (score, tie-breaks); low leaves first
    "fifo": lambda x, context: (x.instant,),
    "prob": lambda x, context: (context.p(x),),
    "life": life,
    "simp": lambda x, context: (context.first_importance(x),),
    "simpprob": simpprob,
    "dimpprob": lambda x, context: (x.importance * context.mn(x), x.importance),
    "dgl": dgl,
    "additive": additive,
    "ep": ep,
    "frequency": frequency,
    "output": yielded,
}

VALUES: dict[str, Callable[[list[float]], Number]] = {
    "count": lambda members: 1,
    "min": min,
    "max": max,
    "sum": lambda members: total(members),
    "product": math.prod,
    "avg": lambda members: total(members) / len(members),
}

EXPIRIES: dict[str, Callable[..., Number]] = {  # the first tick outside the window, by the tuple's time
    "time": lambda time, w: time + w,
    "rows": lambda time, c: INFINITY,
    "rows_per_key": lambda time, c: INFINITY,
    "tumbling": lambda time, w: (time // w + 1) * w,
    "landmark": lambda time, t: -INFINITY if time < t else INFINITY,
    "none": lambda time: INFINITY,
    "schedule": lambda time, schedule: time + piecewise(schedule, time),
}

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def link_holds(link: tuple[int, tuple[str, ...], Any, int, tuple[str, ...]], x: Row, y: Row) -> bool:
    """Whether a link (stream, columns, comparison or largest distance, stream, columns) lets two tuples join; a null in it does not."""
    one, own, test, other, theirs = link
    if {x.stream, y.stream} != {one, other}:
        return True
    a, b = (x, y) if x.stream == one else (y, x)
    left, right = tuple(a.columns[name] for name in own), tuple(b.columns[name] for name in theirs)
    if null(left) or null(right):
        return False
    return bool(COMPARISONS[test](left[0], right[0]) if isinstance(test, str) else math.dist(left, right) <= test)


def matcher(predicate: Any) -> Match:
    """The predicate as a function of two tuples of different streams, in either order; nulls match nothing."""
    if isinstance(predicate, list):
        return lambda x, y: not null(x.key) and not null(y.key) and all(link_holds(link, x, y) for link in predicate)
    if callable(predicate):
        holds = predicate
    elif isinstance(predicate, tuple):
        assert predicate[0] == "eps", predicate
        holds = lambda a, b: distance(a, b) <= predicate[1]  # noqa: E731
    else:
        holds = COMPARISONS[predicate]

    def match(x: Row, y: Row) -> bool:
        low, high = (x, y) if x.stream < y.stream else (y, x)
        return not null(x.key) and not null(y.key) and bool(holds(low.key, high.key))

    return match


def looked_at(predicate: Any, x: Row) -> Any:
    """What of a tuple the predicate looks at: the columns that links compare, else the key."""
    if not isinstance(predicate, list):
        return x.key
    sides = (own if x.stream == one else theirs if x.stream == other else () for one, own, _, other, theirs in predicate)
    return tuple(x.columns[name] for names in sides for name in names)


def same_key(x: Row, y: Row) -> bool:
    """Whether two tuples, of whatever streams, have the same key; nulls are the same as nothing."""
    return not null(x.key) and not null(y.key) and bool(x.key == y.key)


def distance(a: Any, b: Any) -> float:
    """The Euclidean distance of two numbers or of two tuples of numbers."""
    return math.dist(a, b) if isinstance(a, tuple) else abs(a - b)


def null(key: Any) -> bool:
    """Whether a key is None or NaN, or has such a part."""
    return any(map(null, key)) if isinstance(key, tuple) else key is None or key != key


def admitted(members: Sequence[Tuple], match: Match) -> bool:
    """Whether a combination satisfies the predicate and each member outlives the largest time in it."""
    latest = max(x.time for x in members)
    return all(latest < x.expiry for x in members) and all(match(x, y) for x, y in combinations(members, 2))


def output(members: Sequence[Tuple]) -> Output:
    """A combination as it is reported: its largest time, and its row numbers in stream order."""
    return max(x.time for x in members), tuple(x.number for x in members)


def combined(memory: list[Tuple], arrivals: list[Tuple], n_streams: int) -> Iterator[tuple[Tuple, ...]]:
    """Every combination of one tuple per stream with at least one arrival, once: `first` is the first such stream."""
    for first in range(n_streams):
        sources = [memory] * first + [arrivals] + [memory + arrivals] * (n_streams - first - 1)
        yield from product(*([x for x in source if x.stream == s] for s, source in enumerate(sources)))


def place(
    rows: Sequence[Row], windows: Sequence[Window], switches: Mapping[str, str], batches: Iterable[int] | None, without: Iterable[int] = ()
) -> list[Tuple]:  # fmt: skip
    """The rows `without` some, with their instants and expiries; consecutive rows of one time and one batch are an instant."""
    boundaries, last = list(batches or ()), -1
    tuples: list[Tuple] = []
    instant = -1
    for number, row in enumerate(rows):
        if number in without:
            continue
        if number and row.time < rows[number - 1].time and any(window[0].startswith("rows") for window in windows):
            raise ValueError(f"a count window needs rows in order of time, got time {row.time} in row {number}")
        instant += last < 0 or any(last < one <= number for one in boundaries) or row.time != rows[last].time
        last = number
        kind, *size = windows[row.stream]
        if row.lifetime is not None:
            expiry, limit = row.time + row.lifetime, None
        else:
            varies = kind == "schedule" and switches.get("varying-window") == "instant"
            expiry = first_outside(row.time, *size) if varies else EXPIRIES[kind](row.time, *size)
            limit = size[0] if kind.startswith("rows") else None
            limit = 0 if kind == "rows_per_key" and row.key is None else limit  # without a key there is no window
        if expiry == -INFINITY:  # dead from the start: from here on it is a tuple with a null key
            row = replace(row, key=None)
        ordinal = sum(x.stream == row.stream for x in tuples)
        per_key = kind == "rows_per_key"
        tuples.append(Tuple(**vars(row), number=number, ordinal=ordinal, instant=instant, expiry=expiry, limit=limit, per_key=per_key))
    return tuples


def follows(y: Tuple, x: Tuple) -> bool:
    """Whether y comes after x in what a count window of x counts."""
    return y.stream == x.stream and y.ordinal > x.ordinal and (not x.per_key or y.key == x.key)


def piecewise(schedule: Sequence[tuple[int, Any]], time: Number) -> Any:
    """The last entry that has begun by `time`; the first entry holds before it begins, too."""
    return ([entry for begin, entry in schedule if begin <= time] or [schedule[0][1]])[-1]


def first_outside(time: int, schedule: Sequence[tuple[int, int]]) -> int:
    """The first tick t > time with time <= t - w(t), found tick by tick."""
    tick = time + 1
    while time > tick - piecewise(schedule, tick):
        tick += 1
    return tick


def longest(windows: Sequence[Window]) -> Number:
    """The window of the longest-lived stream, in ticks; a schedule counts with its longest entry."""
    if any(window[0] in ("none", "landmark", "rows", "rows_per_key") for window in windows):
        raise ValueError(f"half_life must be given unless every window is a length of time, got {windows}")
    return max(max(w for _, w in size) if kind == "schedule" else size for kind, size in windows)


def pools(memory: Any, allocation: str, n_streams: int, now: Number) -> list[tuple[list[int], int]]:
    """The pools of an instant: the streams of each and its budget."""
    streams = list(range(n_streams))
    if isinstance(memory, Sequence) and not isinstance(memory[0], tuple):
        return [([s], piecewise(memory[s], now) if isinstance(memory[s], Sequence) else memory[s]) for s in streams]
    budget = piecewise(memory, now) if isinstance(memory, Sequence) else memory
    return [([s], budget // n_streams) for s in streams] if allocation == "fixed" else [(streams, budget)]


def weight(tuples: Iterable[Tuple], weighted: bool) -> int:
    """What tuples take of a budget: their sizes when it is in bytes, else their number."""
    return sum(x.size if weighted else 1 for x in tuples)


def total(values: Iterable[Number]) -> Number:
    """The plain sum from left to right (the built-in one compensates floats from Python 3.12 on)."""
    result: Number = 0
    for value in values:
        result += value
    return result


def rounded(number: float) -> float:
    """A float at 42 significant bits, halves to even."""
    mantissa, exponent = math.frexp(number)
    return math.ldexp(round(math.ldexp(mantissa, 42)), exponent - 42)


class Ahead:
    """Which rows wait because they are ahead, from a list of all that came: no counts by cell, nothing forgotten."""

    def __init__(self, length: int) -> None:
        self.width = max(1, length // 4)
        self.reach = length if self.width == 1 else length // self.width - 1
        self.came: list[tuple[int, int]] = []  # cell, rows before its batch
        self.front: int | None = None

    def plays(self, batch: list[int], asked: list[int], stamp: int | None) -> list[bool]:
        """After a batch: whether rows of these times are played."""
        new = [time // self.width for time in batch]
        edge = None if stamp is None else stamp // self.width + self.reach
        before = len(self.came)
        self.came += [(cell, before) for cell in new]
        past = [cell for cell in new if edge is None or cell <= edge]
        if self.front is None and past:
            self.front = min(past)
        for future, share in ((False, 0.01), (True, 0.5)):
            for since in {rows for _, rows in self.came}:
                later = [cell for cell, rows in self.came if rows >= since and (edge is not None and cell > edge) == future]
                need = max(4, math.ceil(share * (len(self.came) - since)))
                if len(later) >= need:
                    found = sorted(later)[-need]
                    self.front = found if self.front is None else max(self.front, found)
        while self.front is not None:
            beneath = sum(self.front - self.reach <= cell <= self.front for cell, _ in self.came)
            last = self.front + self.reach if edge is None or self.front > edge else min(self.front + self.reach, edge)
            beyond = sorted(cell for cell, _ in self.came if self.front < cell <= last)
            need = max(min(4, beneath // 2), math.ceil(0.01 * beneath)) if beneath else 4
            if len(beyond) < need:
                break
            self.front = beyond[-need]
        near = None if stamp is None else stamp // self.width
        return [
            (self.front is not None and time // self.width <= self.front + self.reach)
            or (near is not None and abs(time // self.width - near) <= self.reach)
            for time in asked
        ]
