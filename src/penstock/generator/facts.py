"""Synthetic relations, seeded: facts about the keys of a trace, that stay or that come and go.

Each fact is one combination of keys, one of each stream; no two facts are the same. A fact is there for a while and away for a while,
again and again, so that about the same share of them is active at any time:

    fact (a, b)     0         40              100       130
                    |=========|...............|=========|..      two rows: [, 40) and [100, 130)

How long it stays, and how long it is away, are geometric draws, so that the relation is the same mixture from the first tick to the last.
The attributes follow Towne, section 4.1, which has them uniform; here they may be skewed too.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import PenstockError
from penstock.core.trace import Floats, Ints, Trace, check_trace
from penstock.generator.arguments import check_whole, one_per_stream
from penstock.generator.zipf import zipf_probabilities

ATTRIBUTES = "abcdefghijklmnopqrstuvwxyz"
"""The names of the attributes, one per stream in their order."""
_MOST = 20_000_000  # facts, and rows of facts that come and go
_LISTED = 1 << 22  # up to so many combinations of keys, each has a chance of its own
_ROUNDS = 64


def generate_facts(
    trace: Trace,
    facts: int = 250,
    *,
    skew: float | list[float] = 0.0,
    active: float = 1.0,
    lifetime: float | None = None,
    rate: float | None = None,
    weight: int | None = None,
    seed: int = 0,
) -> pa.Table:
    """A relation for the streams of a trace: columns `a`, `b`, ... with keys of the first stream, of the second, and so on.

    * `facts`: how many different ones there are. Their keys are those that come in the trace.
    * `skew`: of the keys among the facts, one number or one per stream; 0 is uniform. Which keys have most facts is drawn anew, and has
      nothing to do with which come most often.
    * `active`: the share of the facts that is there at any time. Below 1 facts come and go, and have columns `begin` and `end` (null where
      they were there before the trace, and where they are not deleted in it); a fact that comes back has another row.
    * `lifetime`: for how many ticks a fact stays, on average; a tenth of the trace if not given. Or `rate`: how many facts are inserted per
      tick, on average.
    * `weight`: a column with whole numbers from 1 to this one.

    >>> from penstock.generator.generate import generate
    >>> trace = generate(5000, keys=50, skew=(1.0, 0.0), importance="rare", seed=1)
    >>> generate_facts(trace, 250).num_rows
    250
    >>> changing = generate_facts(trace, 250, active=0.5, lifetime=400, seed=1)
    >>> changing.column_names, changing.num_rows
    (['a', 'b', 'begin', 'end'], 1678)
    """
    check_trace(trace)
    check_whole("facts", facts, 1)
    check_whole("seed", seed, 0)
    if weight is not None:
        check_whole("weight", weight, 1)
    if trace.n_streams > len(ATTRIBUTES):
        raise PenstockError(f"trace must have at most {len(ATTRIBUTES)} streams, one attribute for each, got {trace.n_streams}")
    skews = one_per_stream("skew", skew, trace.n_streams, "a number >= 0", lambda value: value >= 0)
    stay, away = _lengths(trace, facts, active, lifetime, rate)
    rngs = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(aspect,))) for aspect in range(4)]
    keys = [_keys(trace, stream) for stream in range(trace.n_streams)]
    places = [rngs[0].permutation(len(own)) for own in keys]
    chances = [zipf_probabilities(len(own), one) for own, one in zip(keys, skews, strict=True)]
    chosen = _different(chances, facts, rngs[1])
    columns: dict[str, Any] = {
        name: own.take(pa.array(place[at])) for name, own, place, at in zip(ATTRIBUTES, keys, places, chosen.T, strict=False)
    }
    if weight is not None:
        columns["weight"] = pa.array(rngs[2].integers(1, weight, facts, endpoint=True))
    table = pa.table(columns)
    if away == 0 and stay == math.inf:
        return table
    return _with_times(table, *_visits(int(trace.time.min()), int(trace.time.max()), facts, stay, away, rngs[3]), trace)


def _lengths(trace: Trace, facts: int, active: Any, lifetime: Any, rate: Any) -> tuple[float, float]:
    """How many ticks a fact stays and is away, on average; endless where nothing changes."""
    share, stay, inserted = (_number(name, got) for name, got in (("active", active), ("lifetime", lifetime), ("rate", rate)))
    if share is None or not 0 < share <= 1:
        raise PenstockError(f"active must be a share above 0 and at most 1, got {active!r}")
    if stay is not None and inserted is not None:
        raise PenstockError(f"lifetime and rate both say how fast facts change; leave one out, got {lifetime!r} and {rate!r}")
    if share == 1:
        if stay is not None or inserted is not None:
            name, got = ("rate", rate) if stay is None else ("lifetime", lifetime)
            raise PenstockError(f"{name} says how fast facts change and needs active below 1, got {got!r} with facts that all stay")
        return math.inf, 0.0
    if inserted is not None:
        if not inserted > 0:
            raise PenstockError(f"rate must be a number > 0 of facts per tick, got {rate!r}")
        stay = facts * share / inserted
        if stay < 1:
            raise PenstockError(f"rate must be at most {facts * share:g}, or facts would go before the next tick, got {rate!r}")
    elif stay is None:
        stay = max(1.0, (int(trace.time.max()) - int(trace.time.min()) + 1) / 10)
    elif stay < 1:
        raise PenstockError(f"lifetime must be a number of ticks >= 1, got {lifetime!r}")
    return stay, stay * (1 - share) / share


def _number(name: str, got: Any) -> float | None:
    if got is None:
        return None
    if isinstance(got, bool) or not isinstance(got, Real) or not math.isfinite(got):
        raise PenstockError(f"{name} must be a number, got {got!r}")
    return float(got)


def _keys(trace: Trace, stream: int) -> pa.Array:
    """The different keys of a stream, in order."""
    if len(trace.key_columns) != 1:
        raise PenstockError(f"facts are made for a trace with one key column, got {', '.join(trace.key_columns) or 'none'}")
    own = trace.key_values(trace.key_columns[0]).filter(pa.array(trace.stream == stream))
    own = pc.unique(own.drop_null())
    if len(own) == 0:
        raise PenstockError(f"facts need keys in each stream, got none in {trace.streams[stream]}")
    return own.take(pc.array_sort_indices(own))


def _different(chances: list[Floats], size: int, rng: np.random.Generator) -> Ints:
    """So many different combinations, as if drawn one after another and thrown back where they were there already."""
    combinations = math.prod(len(one) for one in chances)
    if size > min(combinations, _MOST):
        told = f"the {combinations:,} combinations of keys that there are" if combinations < _MOST else f"{_MOST:,}"
        raise PenstockError(f"facts must be at most {told}, got {size:,}")
    if combinations <= _LISTED:
        found = _weighed(chances, size, rng)
    else:
        found = _thrown_back(chances, size, rng)
    return np.stack(np.unravel_index(found, [len(one) for one in chances]), axis=1)


def _weighed(chances: list[Floats], size: int, rng: np.random.Generator) -> Ints:
    """Every combination in a race with its chance as its speed: the first to arrive are a draw without repetition."""
    logarithm = np.zeros(1)
    with np.errstate(divide="ignore"):
        for one in chances:
            logarithm = np.add.outer(logarithm, np.log(one)).ravel()
    arrival = np.log(rng.exponential(size=len(logarithm))) - logarithm
    first = np.argpartition(arrival, size - 1)[:size]
    return np.asarray(first[np.argsort(arrival[first], kind="stable")])


def _thrown_back(chances: list[Floats], size: int, rng: np.random.Generator) -> Ints:
    """Combinations in the order of their first draw."""
    shape = [len(one) for one in chances]
    if math.prod(shape) >= 1 << 62:
        raise PenstockError(f"the streams must have fewer than 2**62 combinations of keys for facts, got {math.prod(shape):.3g}")
    cumulative = [np.cumsum(one) / one.sum() for one in chances]
    found = np.empty(0, np.int64)
    for _ in range(_ROUNDS):
        many = max(1024, size)
        drawn = [np.minimum(np.searchsorted(one, rng.random(many), side="right"), len(one) - 1) for one in cumulative]
        found = np.concatenate([found, np.ravel_multi_index(drawn, shape)])
        found = found[np.sort(np.unique(found, return_index=True)[1])]
        if len(found) >= size:
            return found[:size]
    raise PenstockError(f"facts must be fewer, or skew lower: only {len(found):,} of {size:,} were found in {_ROUNDS * many:,} draws")


def _visits(first: int, last: int, size: int, stay: float, away: float, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """When facts come and go: the number of the fact, begin (before `first`: always there), end (after `last`: not deleted)."""
    if size * (1 + (last - first) / (stay + away)) > _MOST:
        raise PenstockError(f"facts must come and go at most {_MOST:,} times in all: ask for fewer, or for a longer lifetime")
    fact = np.arange(size)
    there = rng.random(size) < stay / (stay + away)
    # Those that are away come at a time that has no memory; a fact may come back in the tick in which it goes.
    begin = np.where(there, first - 1, first + rng.geometric(1 / (1 + away), size))
    at = np.where(there, first, begin)
    parts = []
    while len(fact):
        end = at + rng.geometric(1 / stay, len(fact))
        parts.append((fact, begin, end))
        at = begin = end + rng.geometric(1 / (1 + away), len(fact)) - 1
        going = begin <= last
        fact, begin, at = fact[going], begin[going], at[going]
    facts, begins, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    seen = begins <= last
    order = np.lexsort((facts[seen], begins[seen]))
    return facts[seen][order], begins[seen][order], ends[seen][order]


def _with_times(table: pa.Table, fact: Ints, begin: Ints, end: Ints, trace: Trace) -> pa.Table:
    """A row for each stay of a fact, in the order in which they begin."""
    kind = trace.table["time"].type
    kind = pa.timestamp("us", tz=kind.tz) if trace.timestamps else kind
    begins = pa.array(begin, mask=begin < trace.time.min()).cast(kind)
    ends = pa.array(end, mask=end > trace.time.max()).cast(kind)
    return table.take(pa.array(fact)).append_column("begin", begins).append_column("end", ends)
