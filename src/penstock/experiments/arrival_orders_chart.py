"""The picture of `penstock reproduce arrival-orders`: recall against memory, a panel for each skew and delay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from penstock.core.errors import PenstockError
from penstock.experiments.arrival_orders import POLICIES, OrdersPoint
from penstock.experiments.figures import GREY, POLICY_COLOURS, styled

_COLOURS = {name: (POLICY_COLOURS | {"ep-all": "#D6604D", "ep-newest": "#F4A582"})[name] for name in POLICIES}


def recall_by_setting(points: Sequence[OrdersPoint], *, width: int = 250) -> alt.TopLevelMixin:
    """A panel per skew (down) and delay (across): a line per policy with its interval.

    >>> point = OrdersPoint("ep", 1.0, 0.2, 0.1, 0.5, 0.4, 0.6, 0.1, 0.05, 0.15)
    >>> len(recall_by_setting([point]).to_dict()["hconcat"])
    1
    """
    if not points:
        raise PenstockError("points must be at least one, got none")
    panels: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        title = f"orders {point.orders:g}, delay {point.delay:.0%} of the window"
        row = {
            "policy": point.policy,
            "memory": point.memory,
            "recall": point.recall,
            "low": max(0.0, point.low),
            "high": min(1.0, point.high),
        }
        panels.setdefault(title, []).append(row)
    drawn = [_panel(title, rows, width) for title, rows in panels.items()]
    head = alt.TitleParams(
        "Who keeps most, by arrival order",
        subtitle="share of the exact result against memory; orders: the Zipf exponent; bands: 95 % over seeds",
        subtitleColor=GREY,
    )
    chart = _rows_of(drawn, len({point.delay for point in points}))
    return styled(chart.properties(title=head).resolve_scale(color="shared"))


def recall_by_trace(traces: Mapping[str, Sequence[Mapping[str, Any]]], *, width: int = 230) -> alt.TopLevelMixin:
    """The same for real streams: a panel per trace, from rows with `policy`, `memory` and `recall`.

    >>> len(recall_by_trace({"fines": [{"policy": "ep", "memory": 0.1, "recall": 0.9}]}).to_dict()["hconcat"])
    1
    """
    panels = [_panel(title, [dict(row) for row in rows], width) for title, rows in traces.items()]
    head = alt.TitleParams(
        "Shedding by arrival order on real streams", subtitle="share of the exact result against memory", subtitleColor=GREY
    )
    return styled(_rows_of(panels, 4).properties(title=head).resolve_scale(color="shared"))


def _rows_of(panels: Sequence[Any], across: int) -> Any:
    lines = [alt.hconcat(*panels[at : at + across], spacing=24) for at in range(0, len(panels), across)]
    return lines[0] if len(lines) == 1 else alt.vconcat(*lines, spacing=18)


def _panel(title: str, rows: Sequence[dict[str, Any]], width: int) -> Any:
    sizes = sorted({row["memory"] for row in rows})
    scale = alt.Scale(type="log", nice=False, padding=8, domain=[sizes[0], sizes[-1]])
    x = alt.X("memory:Q", title="memory, share of the exact join's", scale=scale, axis=alt.Axis(values=sizes, format=".0%", grid=False))
    axis = alt.Axis(format=".0%", tickCount=5)
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=x,
        color=alt.Color(
            "policy:N",
            title="policy",
            legend=alt.Legend(symbolOpacity=1),
            scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())),
        ),
    )
    y = alt.Y("recall:Q", title="recall", scale=alt.Scale(domain=[0, 1]), axis=axis)
    layers = [base.mark_line(strokeWidth=2.2).encode(y=y), base.mark_point(filled=True, size=32, opacity=1).encode(y=y)]
    if all("low" in row for row in rows):
        layers.insert(0, base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title="recall", scale=alt.Scale(domain=[0, 1])), y2="high:Q"))
    return alt.layer(*layers).properties(width=width, height=170, title=alt.TitleParams(title, fontSize=13, offset=6))
