"""The picture of `penstock reproduce policies`: the share of the optimum against memory, a panel for each data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from penstock.core.errors import PenstockError
from penstock.experiments.figures import GREY, INK, POLICY_COLOURS, styled
from penstock.experiments.policy_sets import SETS
from penstock.experiments.policy_table import JUDGED, PolicyRow

_ACROSS = 4
_COLOURS = POLICY_COLOURS | {"ep-printed": "#F4A582", "output-printed": "#F7CFE3"}
_LETTERS = 40  # of a line of a panel's title


def shares_of_optimum(rows: Sequence[PolicyRow], *, width: int = 225) -> alt.TopLevelMixin:
    """A panel per data set, a line per policy: of the optimum, or where that is out of reach of the best.

    >>> row = PolicyRow("orders", 0.1, {"ep": 80.0, "learned": 100.0}, 200.0)
    >>> len(shares_of_optimum([row]).to_dict()["vconcat"][0]["hconcat"])
    1
    """
    if not rows:
        raise PenstockError("rows must be at least one, got none")
    policies = [JUDGED, *(name for name in rows[0].values if name != JUDGED)]
    sets = list(dict.fromkeys(row.data for row in rows))
    panels = [_panel([row for row in rows if row.data == data], policies, width) for data in sets]
    lines = [alt.hconcat(*panels[at : at + _ACROSS], spacing=22) for at in range(0, len(panels), _ACROSS)]
    head = alt.TitleParams(
        "What each policy keeps of each kind of stream",
        subtitle=f"share of the optimum against memory, a share of the mean window; bold: {JUDGED}",
        subtitleColor=GREY,
    )
    return styled(alt.vconcat(*lines, spacing=16).properties(title=head).resolve_scale(color="shared"))


def _panel(rows: Sequence[PolicyRow], policies: Sequence[str], width: int) -> Any:
    known = all(row.optimum is not None for row in rows)
    values = [
        {"policy": policy, "memory": row.memory, "share": row.values[policy] / (row.optimum or row.values[row.best] or 1.0)}
        for row in rows
        for policy in policies
    ]
    sizes = [row.memory for row in rows]
    colours = [_COLOURS.get(policy, INK) for policy in policies]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X(
            "memory:Q",
            title=None,
            scale=alt.Scale(type="log", nice=False, padding=8, domain=[min(sizes), max(sizes)]),
            axis=alt.Axis(values=sizes, format=".0%", grid=False),
        ),
        y=alt.Y("share:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", tickCount=5, minExtent=38)),
        color=alt.Color(
            "policy:N",
            title="policy",
            scale=alt.Scale(domain=list(policies), range=colours),
            legend=alt.Legend(symbolOpacity=1),
        ),
    )
    others = base.transform_filter(alt.datum.policy != JUDGED)
    mine = base.transform_filter(alt.datum.policy == JUDGED)
    layers = [
        others.mark_line(strokeWidth=1.5, opacity=0.75),
        mine.mark_line(strokeWidth=3.6),
        mine.mark_point(filled=True, size=45, opacity=1),
    ]
    title = _lines(SETS[rows[0].data].title + ("" if known else " (share of the best)"))
    return alt.layer(*layers).properties(width=width, height=150, title=alt.TitleParams(title, fontSize=12, offset=6))


def _lines(text: str) -> list[str]:
    """A text in lines for a title.

    >>> _lines("orders: unique keys, a partner for 70 %, gamma delays")
    ['orders: unique keys, a partner for 70 %,', 'gamma delays']
    """
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > _LETTERS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
