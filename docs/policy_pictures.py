"""Draw what each policy keeps: python docs/policy_pictures.py writes docs/policies.png.

Two Zipf streams in a memory of a quarter of what the exact join holds. A square is the tuples of one age and of keys of one rank; the
darker it is, the larger the share of them that is in memory.
"""

from __future__ import annotations

from pathlib import Path

import altair as alt
import numpy as np

import penstock as ps
from penstock.experiments.figures import save, styled

PAGE = Path(__file__).with_name("policies.png")
POLICIES = ("rand", "fifo", "prob", "life", "elife", "learned", "simp", "simpprob", "dimpprob", "dgl", "frequency", "output")
WEIGH = ("simp", "simpprob", "dimpprob", "dgl")
WINDOW, MEMORY, TICKS, KEYS = 400, 200, 6000, 40
_AGES, _RANKS = 10, 6  # keys of rank 1, 2 and 3, 4 to 7, ...
_BARE = {"labels": False, "ticks": False, "domain": False}


def main() -> None:
    """Play every policy, and draw what it holds."""
    plain = ps.generate(TICKS, keys=KEYS, skew=1.0, ranks="correlated", seed=3)
    weighed = ps.generate(TICKS, keys=KEYS, skew=1.0, ranks="correlated", importance="rare", seed=3)
    trace = plain  # both have the same keys
    key = np.asarray(trace.table["key"])
    rank = np.empty(KEYS, dtype=np.int64)
    rank[np.argsort(-np.bincount(key, minlength=KEYS))] = np.arange(KEYS)
    rows = []
    for policy in POLICIES:
        run = ps.simulate(weighed if policy in WEIGH else plain, window=WINDOW, memory=MEMORY, policy=policy, keep=ps.Keep(retained=True))
        held, there = np.zeros((_AGES, _RANKS)), np.zeros((_AGES, _RANKS))
        for now, kept in (run.memory_log or [])[2 * WINDOW :: 40]:
            alive = np.flatnonzero((trace.time <= now) & (trace.time > now - WINDOW))
            for counted, of in ((there, alive), (held, kept)):
                age, place = (now - trace.time[of]) * _AGES // WINDOW, np.log2(rank[key[of]] + 1).astype(np.int64)
                np.add.at(counted, (age, place), 1)
        share = np.divide(held, there, out=np.zeros_like(held), where=there > 0)
        rows += [
            {"policy": policy, "age": age / _AGES, "rank": 1 << place, "share": float(share[age, place])}
            for age in range(_AGES)
            for place in range(_RANKS)
        ]
    save(picture(rows), PAGE)


def picture(rows: list[dict[str, object]]) -> alt.TopLevelMixin:
    """A square of squares for each policy."""
    panels = [
        alt.Chart(alt.InlineData(values=[row for row in rows if row["policy"] == policy]))
        .mark_rect()
        .encode(
            x=alt.X("age:O", title="age, in windows", axis=alt.Axis(**_BARE)),
            y=alt.Y(
                "rank:O",
                title="frequent keys … rare",
                sort="descending",
                axis=alt.Axis(labels=False, ticks=False, domain=False, minExtent=10),
            ),
            color=alt.Color("share:Q", title="share kept", scale=alt.Scale(domain=[0, 1], scheme="blues"), legend=alt.Legend(format=".0%")),
        )
        .properties(width=150, height=110, title=alt.TitleParams(policy, fontSize=13))
        for policy in POLICIES
    ]
    return styled(alt.concat(*panels, columns=4, spacing=18))


if __name__ == "__main__":
    main()
