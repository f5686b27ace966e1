"""Random join graphs over random rows: a `Case` whose predicate is a list of links, as the oracle and penstock both understand it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import penstock as ps
from oracle import Row
from penstock.core.graph import Graph
from strategies import DETERMINISTIC, IMPORTANCES, MODELS, NEEDS_BOUND, OBJECTIVES, SWITCHES, WINDOWS, Case

KINDS = {"a": pa.int64(), "b": pa.int32(), "x": pa.float64(), "y": pa.float64(), "s": pa.string(), "t": pa.large_string()}
SHAPES = ("chain", "star", "cycle", "complete", "parts")
# Policies that look at no statistics: whether links amount to one key makes no difference to them.
BLIND = ("fifo", "simp")

Link = tuple[int, tuple[str, ...], Any, int, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class GraphCase(Case):
    """A case whose rows have columns and whose predicate is links."""

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple("RSTUV"[: len(self.windows)])

    @cached_property
    def trace(self) -> ps.Trace:
        columns: dict[str, Any] = {
            "stream": pa.array([self.streams[row.stream] for row in self.rows], pa.string()),
            "time": pa.array([row.time for row in self.rows], pa.int64()),
        }
        if self.importance:
            columns["importance"] = [row.importance for row in self.rows]
        columns |= {name: pa.array([row.columns[name] for row in self.rows], kind) for name, kind in KINDS.items()}
        return ps.Trace(columns, key=(), streams=self.streams)

    @property
    def links(self) -> list[str]:
        """The links as penstock reads them."""
        return [written(link, self.streams) for link in self.predicate]

    def options(self) -> dict[str, Any]:
        return super().options() | {"predicate": self.links, "cross": True}

    @property
    def on_one_key(self) -> bool:
        return Graph.parse(self.links, self.streams, cross=True).shared_key is not None


def written(link: Link, streams: Sequence[str]) -> str:
    one, own, test, other, theirs = link
    if isinstance(test, str):
        return f"{streams[one]}.{own[0]} {test} {streams[other]}.{theirs[0]}"
    return f"|{streams[one]}.({','.join(own)}) - {streams[other]}.({', '.join(theirs)})| <= {test}"


def edges(shape: str, n: int) -> list[tuple[int, int]]:
    """Which streams are linked."""
    chain = [(i, i + 1) for i in range(n - 1)]
    return {
        "chain": chain,
        "star": [(0, i) for i in range(1, n)],
        "cycle": chain + ([(n - 1, 0)] if n > 2 else []),
        "complete": list(combinations(range(n), 2)),
        "parts": chain[::2] if n > 2 else chain,
    }[shape]


NUMBERS = st.sampled_from(("a", "b", "x", "y"))
EQUAL = st.tuples(st.sampled_from(("=", "=", "!=")), st.tuples(NUMBERS, NUMBERS) | st.tuples(st.sampled_from("st"), st.sampled_from("st")))
THETA = st.tuples(st.sampled_from(("<", "<=", ">=", ">")), st.tuples(NUMBERS, NUMBERS))
NEAR = st.tuples(st.sampled_from((0, 0.5, 1.5)), st.tuples(NUMBERS, NUMBERS))
NEAR_IN_TWO = st.tuples(st.just(1.0), st.sampled_from(((("a", "x"), ("b", "y")), (("x", "y"), ("x", "y")))))


@st.composite
def links(draw: st.DrawFn, n: int) -> list[Link]:
    """A link or two along each edge of some shape, from either end."""
    out: list[Link] = []
    for i, j in edges(draw(st.sampled_from(SHAPES)), n):
        for test, (own, theirs) in draw(st.lists(EQUAL | THETA | NEAR | NEAR_IN_TWO, min_size=1, max_size=2)):
            own, theirs = ((own,), (theirs,)) if isinstance(own, str) else (own, theirs)
            out.append((i, own, test, j, theirs) if draw(st.booleans()) else (j, own, test, i, theirs))
    return out


INTEGER = st.none() | st.integers(0, 2)
REAL = st.none() | st.sampled_from((0.0, 0.5, 1.0, 2.0, -0.0))
WORD = st.none() | st.sampled_from(("p", "q"))
VALUES = st.fixed_dictionaries({"a": INTEGER, "b": INTEGER, "x": REAL, "y": REAL, "s": WORD, "t": WORD})


@st.composite
def graph_cases(
    draw: st.DrawFn,
    *,
    most: int = 4,
    policies: Sequence[str] = DETERMINISTIC,
    windows: Sequence[str] = ("time", "rows", "tumbling", "landmark", "none"),
    longest: int = 16,
) -> GraphCase:
    """A case over a join graph of 2 to `most` streams."""
    n = draw(st.integers(2, most))
    policy = draw(st.sampled_from(policies))
    chosen = [draw(st.one_of(*(WINDOWS[kind] for kind in windows))) for _ in range(n)]
    if policy in NEEDS_BOUND:
        chosen = [window if window[0] not in ("none", "landmark") else ("time", 4) for window in chosen]
    late = 0 if any(window[0] == "rows" for window in chosen) else 3
    importance = draw(st.booleans())
    row = st.tuples(st.integers(0, n - 1), st.sampled_from((0, 0, 1, 1, 2, 6)), VALUES, st.sampled_from(IMPORTANCES), st.integers(0, late))
    drawn = draw(st.lists(row, min_size=1, max_size=longest))
    times = accumulate(step for _, step, *_ in drawn)
    rows = [
        Row(stream, time - delay, number, weight if importance else 1.0, columns=columns)
        for number, (time, (stream, _, columns, weight, delay)) in enumerate(zip(times, drawn, strict=True))
    ]
    return GraphCase(
        rows=rows,
        windows=chosen,
        memory=draw(st.integers(n, n + 6)),
        policy=policy,
        allocation=draw(st.sampled_from(("variable", "fixed"))),
        stats=draw(st.sampled_from(("whole", "window", "decayed"))),
        objective=draw(st.sampled_from(OBJECTIVES)),
        model=draw(st.sampled_from(MODELS)),
        clock=draw(st.sampled_from(("global", "streams"))),
        lateness=draw(st.tuples(*(st.integers(0, 3) for _ in range(n)))),
        predicate=draw(links(n)),
        alpha=2.0,
        beta=0.25,
        half_life=1.0,
        weights=draw(st.sampled_from(((1, 1, 0), (-0.5, 2, 1)))),
        switches=draw(SWITCHES),
        importance=importance,
    )
