"""Random join graphs over random rows: a `Case` whose predicate is a list of links, as the oracle and penstock both understand it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import penstock as ps
from oracle import Row
from penstock.core.errors import PenstockError
from penstock.core.graph import Graph
from penstock.core.problem import Problem
from penstock.engine.opening import compiled_form
from penstock.engine.ranking_codes import Prices
from penstock.policies.table import open_policy
from policy_kinds import NEEDS_BOUND
from strategies import DETERMINISTIC, IMPORTANCES, MODELS, OBJECTIVES, SWITCHES, WINDOWS, Case

KINDS = {"a": pa.int64(), "b": pa.int32(), "x": pa.float64(), "y": pa.float64(), "s": pa.string(), "t": pa.large_string()}
SHAPES = ("chain", "star", "cycle", "complete", "parts")


def plays_links(policy: str) -> bool:
    """Whether a policy is defined where tuples have no common key."""
    try:
        open_policy(policy, Problem.of(("R", "S", "T"), window=4, memory=4, predicate="R.a = S.a, S.b < T.b"))
    except PenstockError:
        return False
    return True


def has_no_prices(policy: str) -> bool:
    """Whether a policy looks at nothing that other tuples could change."""
    problem = Problem.of(("R", "S"), window=4, memory=4)
    ranking = compiled_form(problem, open_policy(policy, problem))
    return ranking is not None and ranking.prices == Prices.NONE


ON_LINKS = tuple(filter(plays_links, DETERMINISTIC))
BLIND = tuple(filter(has_no_prices, ON_LINKS))
"""Whether links amount to one key makes no difference to them."""

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


TESTS = ("=", "=", "=", "<=", ">=", "!=", "!=", "<", ">", 0, 0.5, 1.5)
LOOSE = ("=", "=", "<=", ">=", "!=", 1, 1.5)  # for many links, which seldom hold together


def random_links(random: Random, n: int, shape: str) -> list[Link]:
    """A link, now and then two, along each edge, from either end."""
    out: list[Link] = []
    many = len(edges(shape, n)) > 2
    for edge in edges(shape, n):
        for _ in range(1 if many else random.choice((1, 1, 1, 2))):
            one, other = random.sample(edge, 2)
            test: Any = random.choice(LOOSE if many else TESTS)
            own, theirs = ((name,) for name in random.choices("st" if test in ("=", "!=") and random.random() < 0.3 else "abxy", k=2))
            if test == 1.5:
                own, theirs = random.choice(((("a", "x"), ("b", "y")), (("x", "y"), ("x", "y"))))
            out.append((one, own, test, other, theirs))
    return out


# Few values and few nulls, so that joins of several streams find something.
VALUES = {"a": (0, 1, 0, 1, 0, 1, 0, 1, 2, None), "x": (0.0, 0.5, 1.0, 0.0, 1.0, 0.0, -0.0, 1.0, 2.0, None), "s": (*"ppppqqqqr", None)}
VALUES |= {"b": VALUES["a"], "y": VALUES["x"], "t": VALUES["s"]}


def random_rows(random: Random, n: int, length: int, late: int, *, importance: bool) -> list[Row]:
    """Rows spread evenly over the streams; seeded, since what Hypothesis draws itself is too lopsided for a join of five."""
    times = accumulate(random.choices((0, 0, 0, 0, 1, 1, 1, 2, 6), k=length))
    streams = [number % n for number in range(length)]
    random.shuffle(streams)
    return [
        Row(
            stream,
            time - random.randint(0, late),
            number,
            random.choice(IMPORTANCES) if importance else 1.0,
            columns={name: random.choice(values) for name, values in VALUES.items()},
        )
        for number, (time, stream) in enumerate(zip(times, streams, strict=True))
    ]


@st.composite
def graph_cases(
    draw: st.DrawFn,
    *,
    most: int = 4,
    policies: Sequence[str] = ON_LINKS,
    windows: Sequence[str] = ("time", "rows", "tumbling", "landmark", "none"),
    longest: int = 6,
) -> GraphCase:
    """A case over a join graph of 2 to `most` streams."""
    random = Random(draw(st.integers(0, 1 << 32)))
    n = draw(st.integers(2, most))
    policy = draw(st.sampled_from(policies))
    length = random.choice((4, 8, 16, 32))
    unusual = draw(st.sampled_from((0, 2, 4)))  # of ten: how many windows are of another kind
    chosen = [
        ("time", length) if draw(st.integers(0, 9)) >= unusual else draw(st.one_of(*(WINDOWS[kind] for kind in windows))) for _ in range(n)
    ]
    if policy in NEEDS_BOUND:
        chosen = [window if window[0] not in ("none", "landmark") else ("time", 4) for window in chosen]
    late = 0 if any(window[0] == "rows" for window in chosen) else 3
    importance = draw(st.booleans())
    rows = random_rows(random, n, n * random.randint(2, longest), late, importance=importance)
    return GraphCase(
        rows=rows,
        windows=chosen,
        memory=random.choice((n, 2 * n, 3 * n, 5 * n)),
        policy=policy,
        allocation=random.choice(("variable", "variable", "fixed")),
        stats=draw(st.sampled_from(("whole", "window", "decayed"))),
        objective=draw(st.sampled_from(OBJECTIVES)),
        model=draw(st.sampled_from(MODELS)),
        clock=draw(st.sampled_from(("global", "streams"))),
        lateness=[random.randint(0, 3) for _ in range(n)],
        predicate=random_links(random, n, random.choice(SHAPES)),
        alpha=2.0,
        beta=0.25,
        half_life=1.0,
        weights=draw(st.sampled_from(((1, 1, 0), (-0.5, 2, 1)))),
        switches=draw(SWITCHES),
        importance=importance,
    )
