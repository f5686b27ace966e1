"""The windows of a join as linked lists of tuples in arrival order, one list per hash bucket (Golab 6.1).

A window without a hash index is one list. A tuple is a node: the instant at which it is outside its window, and the next
tuple of each list that it is in.

    bucket 0   head -> 3 -> 7 -> 8 <- tail        expiration moves the head, insertion the tail;
    bucket 1   head -> 4 <- tail                  `fresh` is the first tuple since the last evaluation

Differs from the paper: both kinds of windows come down to one number per tuple. A tuple of a time-based window leaves at the
first instant that reaches its expiry, one of a window of C rows at the instant of its C-th follower, which is COMPUTECOUNTJOIN's
condition tmp.cnt - C < u.cnt (docs/readings.md, 14, 24 and 26). Rows are taken in order of time, so that arrival numbers decide
who is newer (docs/readings.md, 25).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Ints, Trace
from penstock.core.window import NEVER, Window, expiries

OUT = 0  # the column of a node before those of its lists
HEAD, TAIL, FRESH = range(3)  # the columns of a bucket's ends; a fourth makes them half a line of cache


class Tuples(NamedTuple):
    """The rows of a trace in order of time."""

    row: Ints  # as the trace numbers them
    stream: Ints
    time: Ints
    instant: Ints
    out: Ints  # the first instant at which the tuple is outside its window


class WindowStore(NamedTuple):
    """All windows. An index is a set of buckets over one stream; those of one stream are neighbours, the first counts tuples."""

    nodes: Ints  # by tuple: out, then the next tuple in each list
    ends: Ints  # by bucket: its first tuple, its last, the first since the last evaluation; side by side, to be fetched at once
    first: Ints  # by stream: its first index; one more at the end
    column: Ints  # by index: the code that is hashed, or -1
    buckets: Ints  # by index, beside one more for tuples without a value
    base: Ints  # by index: its first bucket


def arrange(trace: Trace, windows: Sequence[Window], *, instantly: bool = False) -> Tuples:
    """Sort the rows of a trace by time and say when each leaves its window.

    >>> trace = Trace({"stream": ["R", "R", "S", "S"], "time": [0, 5, 7, 8], "key": [1, 1, 1, 1]})
    >>> arrange(trace, [Window.parse(6), Window.parse("rows:1")]).out.tolist() == [2, 4, 3, NEVER]
    True
    """
    order = np.argsort(trace.time, kind="stable")
    stream, time = trace.stream[order], trace.time[order]
    starts = np.flatnonzero(np.diff(time, prepend=time[0] - 1))
    instant = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(time)))
    lifetime = None if trace.lifetime is None else trace.lifetime[order]
    expiry = expiries(windows, stream, time, lifetime, np.zeros(len(windows), dtype=np.int64), instantly=instantly)
    out = np.searchsorted(time[starts], expiry)
    out[expiry == NEVER] = NEVER
    for number, window in enumerate(windows):
        if window.kind == "rows":
            mine = stream == number
            out[mine] = np.maximum(followers(instant[mine], window.length), instant[mine] + 1)  # tuples of one instant always meet
    return Tuples(order, stream, time, instant, out)


def followers(instant: Ints, length: int) -> Ints:
    """The instants at which the tuples of one stream have been followed by `length` others.

    >>> followers(np.array([0, 0, 1, 4]), 2).tolist() == [1, 4, NEVER, NEVER]
    True
    """
    found = np.full(len(instant), NEVER, dtype=np.int64)
    found[:-length] = instant[length:]
    return found


def count_keys(tuples: Tuples, windows: Sequence[Window], codes: Ints) -> Tuples:
    """The same tuples, where those of a `rows_per_key` window leave when enough of their own key have followed; without a key at once.

    >>> trace = Trace({"stream": ["R", "R", "S", "R"], "time": [0, 1, 2, 3], "key": [1, 2, 1, 1]})
    >>> windows = [Window.parse("rows_per_key:1"), Window.parse(9)]
    >>> count_keys(arrange(trace, windows), windows, trace.key[:, None]).out.tolist() == [3, NEVER, 4, NEVER]
    True
    """
    key = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
    out = tuples.out.copy()
    for number, window in enumerate(windows):
        if window.kind == "rows_per_key":
            mine = np.flatnonzero(tuples.stream == number)
            mine = mine[np.argsort(key[mine], kind="stable")]
            earlier, later = mine[: -window.length], mine[window.length :]
            instant = np.where(key[earlier] == key[later], tuples.instant[later], NEVER)
            out[mine] = NEVER
            out[earlier] = np.maximum(instant, tuples.instant[earlier] + 1)  # tuples of one instant always meet
            out[mine[(codes[mine] < 0).any(axis=1)]] = 0
    return tuples._replace(out=out)


def open_store(tuples: Tuples, n_streams: int, indexes: Sequence[tuple[int, int, int]]) -> WindowStore:
    """Empty windows with these indexes: stream, column, number of buckets; in order of streams."""
    stream = np.array([index[0] for index in indexes], dtype=np.int64)
    buckets = np.array([index[2] for index in indexes], dtype=np.int64)
    base = np.concatenate([[0], np.cumsum(buckets + 1)])
    lists = int(np.bincount(stream, minlength=n_streams).max())
    nodes = np.full((len(tuples.row), 1 + lists), -1, dtype=np.int64)
    nodes[:, OUT] = tuples.out
    ends = np.full((int(base[-1]), 4), -1, dtype=np.int64)
    first = np.searchsorted(stream, np.arange(n_streams + 1))
    column = np.array([index[1] for index in indexes], dtype=np.int64)
    return WindowStore(nodes, ends, first, column, buckets, base[:-1].copy())


@inlined
def bucket_of(store: WindowStore, codes: Ints, index: int, u: int) -> int:
    """The bucket of an index to which a tuple belongs, by its own code."""
    column = store.column[index]
    if column < 0:
        return store.base[index]
    code = codes[u, column]
    return store.base[index] + (code % store.buckets[index] if code >= 0 else store.buckets[index])


@inlined
def insert(store: WindowStore, codes: Ints, stream: int, u: int) -> None:
    """Append a tuple to the lists of its window."""
    for index in range(store.first[stream], store.first[stream + 1]):
        at = bucket_of(store, codes, index, u)
        if store.ends[at, HEAD] < 0:
            store.ends[at, HEAD] = u
        else:
            store.nodes[store.ends[at, TAIL], 1 + index - store.first[stream]] = u
        store.ends[at, TAIL] = u
        if store.ends[at, FRESH] < 0:
            store.ends[at, FRESH] = u


@inlined
def settle_down(store: WindowStore, codes: Ints, stream: int, u: int) -> None:
    """A tuple has been evaluated: it is fresh no more."""
    for index in range(store.first[stream], store.first[stream + 1]):
        store.ends[bucket_of(store, codes, index, u), FRESH] = -1


@inlined
def drop_from(store: WindowStore, at: int, link: int, instant: int) -> int:
    """Expire from the head of one bucket; how many went."""
    u = store.ends[at, HEAD]
    gone = 0
    while u >= 0 and store.nodes[u, OUT] <= instant:
        u = store.nodes[u, link]
        gone += 1
    store.ends[at, HEAD] = u
    return gone


@kernel
def expire(store: WindowStore, instant: int, counts: Ints) -> int:
    """Expire from all windows what is outside at an instant; how many tuples went. `counts` gets the buckets looked at."""
    gone = 0
    for stream in range(len(store.first) - 1):
        for index in range(store.first[stream], store.first[stream + 1]):
            link = 1 + index - store.first[stream]
            base = store.base[index]
            for at in range(base, base + store.buckets[index] + 1):
                went = drop_from(store, at, link, instant)
                if link == 1:
                    gone += went
            counts[0] += store.buckets[index]
    return gone
