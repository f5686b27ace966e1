"""Golab's algorithms in plain Python, loop by loop as they are printed, and the definition of a join over links: slow twins.

Nothing here knows how penstock stores windows or compiles loops. Windows and intervals of evaluation are half-open
(docs/readings.md, 24 and 25).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import oracle

Holds = Callable[[int, "Item", int, "Item"], bool]


@dataclass(frozen=True)
class Item:
    """A tuple: `number` is its row, `count` its place in its stream, `values` its columns by name."""

    stream: int
    time: int
    number: int
    count: int
    values: Mapping[str, Any]


@dataclass
class Work:
    """What an algorithm found and what it did."""

    outputs: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    visits: int = 0
    timely: int = 0


def items(rows: Iterable[tuple[int, int, Mapping[str, Any]]]) -> list[Item]:
    """Rows (stream, time, columns) with their numbers."""
    seen: dict[int, int] = {}
    found = []
    for number, (stream, time, values) in enumerate(rows):
        seen[stream] = seen.get(stream, 0) + 1
        found.append(Item(stream, time, number, seen[stream], values))
    return found


def definition(tuples: Sequence[Item], windows: Sequence[oracle.Window], links: Sequence[Any]) -> list[tuple[int, tuple[int, ...]]]:
    """Every combination of one tuple per stream of which all links hold and all members are in their windows: product, filter."""
    placed = oracle.place([oracle.Row(u.stream, u.time, 0) for u in tuples], windows, {}, None)
    found = []
    for members in product(*([x for x in placed if x.stream == s] for s in range(len(windows)))):
        latest, last = max(x.time for x in members), max(x.instant for x in members)
        chosen = {x.stream: tuples[x.number] for x in members}
        if (
            all(latest < x.expiry and x.key is not None for x in members)
            and all(x.limit is None or x.instant == last or followers(x, placed, last) < x.limit for x in members)
            and all(holds(link, chosen) for link in links)
        ):
            found.append((latest, tuple(x.number for x in members)))
    return sorted(found)


def followers(x: oracle.Tuple, placed: Sequence[oracle.Tuple], last: int) -> int:
    return sum(y.stream == x.stream and y.ordinal > x.ordinal and y.instant <= last for y in placed)


def holds(link: tuple[int, Sequence[str], Any, int, Sequence[str]], chosen: Mapping[int, Item]) -> bool:
    """Whether a link (stream, columns, comparison or ("eps", e), stream, columns) holds; a missing value matches nothing."""
    low, own, comparison, high, theirs = link
    a = [chosen[low].values[name] for name in own]
    b = [chosen[high].values[name] for name in theirs]
    if None in a or None in b:
        return False
    if isinstance(comparison, tuple):
        return math.dist(a, b) <= comparison[1]
    return bool(oracle.COMPARISONS[comparison](*a, *b))


def run(
    tuples: Sequence[Item], windows: Sequence[int], orders: Sequence[Sequence[int]], *, tau: int | None = None, expire: int | None = None,
    column: str = "key", buckets: Mapping[int, int] | None = None, check: bool = True, rows: bool = False,
) -> Work:  # fmt: skip
    """Join on equal values of one column. `orders[i]` is the nest of loops for new tuples of stream i, itself included.

    `check=False` leaves the timestamp check out, as Golab's first lazy algorithm does (Table 3). `rows`: windows count rows, and
    COMPUTECOUNTJOIN's condition takes the place of the timestamp check; nothing expires then.
    """
    work = Work()
    held: list[list[Item]] = [[] for _ in windows]
    begin = tuples[0].time
    swept = 0

    def inside(u: Item, k: Item) -> bool:
        if u.number > k.number:
            return False
        if not rows:
            return k.time - windows[u.stream] < u.time
        newest = max(v.count for v in tuples if v.stream == u.stream and v.time <= k.time)
        return newest - windows[u.stream] < u.count or u.time == k.time

    def nest(origin: int, new: Sequence[Item], bound: list[Item]) -> None:
        order = orders[origin]
        level, place = len(bound), list(order).index(origin)
        if level == len(order):
            members = sorted(bound, key=lambda u: u.stream)
            work.outputs.append((max(u.time for u in members), tuple(u.number for u in members)))
            return
        stream = order[level]
        for u in _scanned(new if stream == origin else held[stream], bound, stream, column, buckets):
            if check and level > place and u.number > bound[place].number:
                break
            work.visits += level > 0
            pivot = bound[place] if level > place else u if level == place else None
            if check and pivot and not all(inside(v, pivot) for v in ([u] if level > place else [*bound, u])):
                continue
            work.timely += level > 0
            if u.values[column] is not None and (not bound or u.values[column] == bound[0].values[column]):
                nest(origin, new, [*bound, u])

    for batch, following in _batches(tuples, tau):
        if tau is None and expire is None:
            _expire(held, windows, batch[0].time, rows)
        elif tau is None and (batch[0].time - begin) // expire > swept:
            swept = (batch[0].time - begin) // expire
            _expire(held, windows, batch[0].time, rows)
        for u in batch:
            held[u.stream].append(u)
        for origin in range(len(windows)):
            new = [u for u in batch if u.stream == origin]
            if new:
                nest(origin, new, [])
        if tau is not None and following and (following.time - begin) // (expire or tau) > swept:
            swept = (following.time - begin) // (expire or tau)
            _expire(held, windows, following.time, rows)
    return work


def _batches(tuples: Sequence[Item], tau: int | None) -> Iterator[tuple[list[Item], Item | None]]:
    """What is evaluated together, and the tuple that comes next."""
    begin = 0
    for at in range(1, len(tuples) + 1):
        ends = at == len(tuples) or tau is None
        if ends or (tuples[at].time - tuples[0].time) // tau > (tuples[begin].time - tuples[0].time) // tau:
            yield list(tuples[begin:at]), tuples[at] if at < len(tuples) else None
            begin = at


def _scanned(held: Sequence[Item], bound: Sequence[Item], stream: int, column: str, buckets: Mapping[int, int] | None) -> Iterator[Item]:
    """The whole window, or the bucket of what is bound (hash functions are modular divisions); values are whole numbers from 0 on."""
    for u in list(held):
        if not bound or not buckets or stream not in buckets:
            yield u
        else:
            a, b = u.values[column], bound[0].values[column]
            if a is not None and b is not None and a % buckets[stream] == b % buckets[stream]:
                yield u


def _expire(held: list[list[Item]], windows: Sequence[int], now: int, rows: bool) -> None:
    if not rows:
        for stream, window in enumerate(windows):
            held[stream] = [u for u in held[stream] if u.time > now - window]
