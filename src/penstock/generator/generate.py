"""Synthetic streams, seeded: `generate`, with all kinds of keys.

Keys that are drawn one by one are in zipf.py, those that visit the streams in an order in orders.py, those that live for a while in
sessions.py; sequel.py puts one kind after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.trace import Trace
from penstock.generator.arguments import check_whole, one_per_stream, stream_names
from penstock.generator.orders import visits
from penstock.generator.sequel import check_first, followed
from penstock.generator.sessions import DELAY, visitors
from penstock.generator.zipf import one_by_one

_ZIPF = ("keys", "skew", "ranks", "burst", "disorder", "importance", "groups", "top", "drift")
_TAKES = {"orders": ("alone", "repeats", "first", "delay"), "sessions": ("delay",)}
"""What says more about keys that are drawn one by one, and about the other kinds of keys."""


def generate(
    n: int = 5600,
    *,
    streams: Sequence[str] = ("R", "S"),
    keys: int | Sequence[int] = 50,
    skew: float | Sequence[float] = 1.0,
    ranks: str = "uncorrelated",
    rate: float | Sequence[float] = 1.0,
    burst: str | None = None,
    disorder: int = 0,
    importance: str | None = None,
    groups: int = 5,
    top: int = 100,
    drift: int | None = None,
    orders: float | str | None = None,
    alone: float = 0.0,
    repeats: float | None = None,
    first: str = "any",
    sessions: str | None = None,
    delay: float | str | None = None,
    after: Trace | None = None,
    seed: int = 0,
) -> Trace:
    """A trace of `n` ticks, 0 to n - 1; at equal times the rows are in the order of `streams`.

    * `keys`, `skew`: keys are 0 to keys - 1, and the r-th most frequent key of a stream has a probability in proportion
      to r ** -skew; 0 is uniform. `keys`, `skew` and `rate` are one number, or one for each stream.
    * `ranks`: which keys are frequent. `uncorrelated`: drawn again for each stream; `correlated`: the same ones in all
      streams; `anti-correlated`: the reverse in every second stream, so that frequent meets rare.
    * `rate`: tuples per tick. A whole number is met exactly in every tick, any other is the mean of a Poisson draw.
    * `burst`, "period:length:factor": the rate is multiplied in the last ticks of every period, in all streams. If that
      makes it fractional in any tick, all of the stream is Poisson.

          "5:2:3"      tick     0  1  2  3  4  5  6  7  8  9
                       tuples   1  1  1  3  3  1  1  1  3  3

    * `disorder`: every tuple arrives 0 to `disorder` ticks late, uniformly, and after those of its tick of arrival that
      are less late; `time` stays the time of the event.
    * `importance`: `rare` cuts the keys of each stream into `groups` of equal size by frequency; the levels go from 1,
      for the most frequent, geometrically up to `top`, in whole numbers. `key` gives a key the level that it has in the
      first stream, whatever the stream; `uniform` draws a whole number from 1 to `top` for every tuple. "special:0.05" gives `top`
      to the rarest keys of each stream, which have about a twentieth of its tuples, and 1 to all others.

    * `drift`: every so many ticks all keys get new names: key k of the next period is k + keys, and as frequent.

    Or other kinds of keys, which take `rate` and `delay`, the ticks between two visits of a key: the mean of an exponential draw,
    "fixed:60", "gamma:2:60" (shape and mean) or "uniform:5:60".

    * `orders`: keys that visit each stream once, in an order that is drawn from a Zipf distribution of this exponent; or "listed", in the
      order of `streams`. A share `alone` of the keys has no partner. `delay` is 100 if not given. With `repeats` and `first` the keys are
      those of Kwon's experiments (`penstock.generator.orders`).
    * `sessions`, "5:20": keys that live for 5 to 20 clicks, each in one of the streams, in proportion to their rates, and never come back.
      `delay` is "uniform:5:60" if not given.

    `after` is a trace that these streams go on from, with new keys, so that they change their character in the middle.

    The same arguments give the same trace. Each stream, and each aspect of it, has a random sequence of its own: adding
    a stream, disorder or importances leaves the keys of the others as they were.

    >>> trace = generate(1000, skew=1.0, ranks="correlated", seed=7)
    >>> len(trace), trace.table.slice(0, 2).to_pylist()[1]
    (2000, {'stream': 'S', 'time': 0, 'key': 24})
    >>> sorted(set(generate(1000, importance="rare", seed=7).importance.tolist()))
    [1.0, 3.0, 10.0, 32.0, 100.0]
    >>> changing = generate(1000, sessions="5:20", rate=2, after=generate(1000, rate=2))
    >>> int(changing.time.max()), len(changing)
    (1999, 7190)
    """
    check_whole("n", n, 1, "ticks")
    check_whole("seed", seed, 0)
    _check_kind(locals())
    names = stream_names(streams)
    if after is not None:
        check_first(after, names)
    if orders is not None:
        (one,) = one_per_stream("rate", rate, 1, "one number > 0 with orders", lambda value: value > 0)
        waits = 100 if delay is None else delay
        made = visits(n, streams=names, orders=orders, alone=alone, delay=waits, rate=one, repeats=repeats, first=first, seed=seed)
    elif sessions is not None:
        rates = one_per_stream("rate", rate, len(names), "a number > 0", lambda value: value > 0)
        made = visitors(n, streams=names, sessions=sessions, delay=DELAY if delay is None else delay, rates=rates, seed=seed)
    else:
        made = one_by_one(
            n, rate, streams=streams, keys=keys, skew=skew, ranks=ranks, burst=burst, disorder=disorder, importance=importance,
            groups=groups, top=top, drift=drift, seed=seed,
        )  # fmt: skip
    return made if after is None else followed(after, made)


def _check_kind(given: Mapping[str, Any]) -> None:
    """Refuse what belongs to another kind of keys than the one that is asked for."""
    kinds = [kind for kind in _TAKES if given[kind] is not None]
    if len(kinds) > 1:
        raise PenstockError(f"orders and sessions are two kinds of keys; leave one out, got orders={given['orders']!r} and sessions too")
    defaults = {name: parameter.default for name, parameter in signature(generate).parameters.items()}
    for name in (name for name, default in defaults.items() if not np.array_equal(given[name], default)):
        if kinds and name in _ZIPF:
            raise PenstockError(f"{name} does not go with {kinds[0]}={given[kinds[0]]!r}, which has keys of its own; leave one out")
        takers = [kind for kind, takes in _TAKES.items() if name in takes]
        if takers and not set(takers) & set(kinds):
            wanted, got = " or ".join(f"{kind}=" for kind in takers), f"{kinds[0]}=" if kinds else "none"
            raise PenstockError(f"{name} says how keys visit streams, and needs {wanted}, got {got}")
