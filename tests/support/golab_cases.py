"""Random rows and random links for joins of two to five streams, as the twins in `golab` and as penstock take them."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import penstock as ps

OUTPUTS = ps.Keep(outputs=True)
NAMES = "RSTUV"
NUMBERS = st.none() | st.integers(0, 3)
COMPARISON = st.sampled_from(("=", "=", "!=", "<", "<=", ">=", ">"))


def make_trace(rows: list[tuple[int, int, dict[str, Any]]], n: int, key: str = "key") -> ps.Trace:
    """Rows (stream, time, columns) as penstock takes them."""
    columns: dict[str, Any] = {
        "stream": pa.array([NAMES[stream] for stream, _, _ in rows]),
        "time": pa.array([time for _, time, _ in rows], pa.int64()),
    }
    for name in rows[0][2]:
        columns[name] = pa.array([values[name] for _, _, values in rows], pa.float64() if name in "xy" else pa.int64())
    return ps.Trace(columns, key=key, streams=NAMES[:n])


def found(run: ps.JoinRun) -> list[tuple[int, tuple[int, ...]]]:
    assert run.outputs is not None and len(run.outputs) == run.n_output
    return sorted((time, tuple(members)) for time, *members in run.outputs.tolist())


@st.composite
def rows_of(draw: st.DrawFn, n: int, *, keys: Any = NUMBERS) -> list[tuple[int, int, dict[str, Any]]]:
    """Few rows where streams are many: the definition looks at all combinations."""
    value = st.fixed_dictionaries(
        {"key": keys, "a": NUMBERS, "b": NUMBERS, "x": st.none() | st.sampled_from((0.0, 0.5, 1.0, 2.0)), "y": st.just(1.0)}
    )
    drawn = draw(st.lists(st.tuples(st.integers(0, n - 1), st.sampled_from((0, 0, 1, 1, 2, 6)), value), min_size=1, max_size=32 - 4 * n))
    times = accumulate(step for _, step, _ in drawn)
    return [(stream, time, values) for time, (stream, _, values) in zip(times, drawn, strict=True)]


@st.composite
def links_of(draw: st.DrawFn, n: int) -> list[tuple[int, tuple[str, ...], Any, int, tuple[str, ...]]]:
    """A tree of links between columns, and some more."""
    column = st.sampled_from(("key", "a", "b"))

    def link(low: int, high: int) -> tuple[int, tuple[str, ...], Any, int, tuple[str, ...]]:
        kind = draw(st.sampled_from(("compare", "compare", "near", "near2")))
        if kind == "compare":
            return low, (draw(column),), draw(COMPARISON), high, (draw(column),)
        wide = ("x", "a") if kind == "near2" else ("x",)
        return low, wide, ("eps", draw(st.sampled_from((0.0, 0.5, 1.0)))), high, wide

    found = [link(draw(st.integers(0, high - 1)), high) for high in range(1, n)]
    for _ in range(draw(st.integers(0, 2))):
        high = draw(st.integers(1, n - 1))
        found.append(link(draw(st.integers(0, high - 1)), high))
    return found


def written(link: tuple[int, tuple[str, ...], Any, int, tuple[str, ...]]) -> str:
    low, own, comparison, high, theirs = link
    if isinstance(comparison, str):
        return f"{NAMES[low]}.{own[0]} {comparison} {NAMES[high]}.{theirs[0]}"
    sides = [
        f"{NAMES[s]}.({', '.join(names)})" if len(names) > 1 else f"{NAMES[s]}.{names[0]}" for s, names in ((low, own), (high, theirs))
    ]
    return f"|{sides[0]} - {sides[1]}| <= {comparison[1]}"
