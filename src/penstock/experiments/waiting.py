"""What it costs to let arrivals wait: comparisons per tick against tau, a line per strategy (Golab, Figures 3 and 4(a))."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import altair as alt

from penstock.experiments.figures import INK, styled
from penstock.multiway.cost import Setting
from penstock.multiway.order import plan_of
from penstock.multiway.stats import MOST
from penstock.multiway.upkeep import Weights, upkeep

_COLOURS = {"naive": "#666666", "lazy": "#E69F00", "general": "#0072B2"}
_WIDTHS = {"naive": 2.5, "lazy": 5.0, "general": 2.0}
_EVERY_ORDER = 5  # streams; with more, the orders for a curve are found by descent


def intervals(setting: Setting, points: int = 25) -> list[int]:
    """Intervals from one tick to half of the longest window in ticks (as Golab's), evenly spread.

    >>> from penstock.multiway.stats import WindowStats
    >>> intervals(Setting.read([WindowStats(name, 1, 100, 50) for name in "RS"]), points=5)
    [1, 12, 25, 38, 50]
    """
    longest = max(one.length / one.rate if one.counts_rows else one.length for one in setting.streams)
    most = max(2, round(min(longest / 2, MOST)))
    return sorted({max(1, round(most * step / (points - 1))) for step in range(points)})


def costs_by_interval(
    setting: Setting, taus: Sequence[float], *, weights: Weights | None = None, progress: Callable[[int], None] | None = None
) -> list[dict[str, object]]:
    """The best plan of each lazy strategy at each interval: its comparisons per tick, and those with insertion and expiration.

    >>> from penstock.multiway.stats import WindowStats
    >>> rows = costs_by_interval(Setting.read([WindowStats(name, 1, 100, 50) for name in "RS"]), [10])
    >>> [(row["strategy"], row["comparisons"]) for row in rows]
    [('naive', 215.0), ('lazy', 210.0), ('general', 210.0)]
    """
    rows: list[dict[str, object]] = []
    method = "exhaustive" if len(setting.streams) <= _EVERY_ORDER else "descent"
    for tau in taus:
        for strategy in _COLOURS:
            here = replace(setting, strategy=strategy, tau=tau, expire=None)
            cost = plan_of(here, method=method).cost
            rows.append({"strategy": strategy, "tau": tau, "comparisons": cost, "all": cost + upkeep(here, weights).total})
            if progress:
                progress(1)
    return rows


def cost_by_interval(rows: list[dict[str, object]], eager: float, eager_all: float, width: int = 560) -> alt.TopLevelMixin:
    """The picture of it, with the eager plan's comparisons as a line across, and another for them with insertion and expiration.

    >>> rows = [{"strategy": "lazy", "tau": tau, "comparisons": 100 + tau, "all": 120 + tau} for tau in (1, 50)]
    >>> len(cost_by_interval(rows, 100.0, 110.0).to_dict()["layer"])
    5
    """
    named = [name for name in _COLOURS if any(row["strategy"] == name for row in rows)]
    # Where lines coincide the narrower one is drawn last, so that both are seen.
    drawn = [{**row, "thick": _WIDTHS[str(row["strategy"])]} for row in rows]
    heights = [float(str(row[name])) for row in rows for name in ("comparisons", "all")] + [eager, eager_all]
    domain = [0.95 * min(heights), 1.05 * max(heights)]
    base = alt.Chart(alt.InlineData(values=drawn)).encode(
        x=alt.X("tau:Q", title="ticks that arrivals wait at most (tau)", axis=alt.Axis(format=",d", tickCount=6)),
        color=alt.Color("strategy:N", title="strategy", sort=named, scale=alt.Scale(domain=named, range=[_COLOURS[n] for n in named])),
        order=alt.Order("tau:Q"),
        tooltip=["strategy:N", "tau:Q", alt.Tooltip("comparisons:Q", format=",.0f"), alt.Tooltip("all:Q", format=",.0f")],
    )
    axis = alt.Y(
        "comparisons:Q", title="comparisons per tick", scale=alt.Scale(type="log", domain=domain, nice=False), axis=alt.Axis(format="~s")
    )
    solid = base.mark_line().encode(y=axis, strokeWidth=alt.StrokeWidth("thick:Q", scale=None, legend=None))
    dashed = base.mark_line(strokeDash=[2, 4], strokeWidth=1.5).encode(y=alt.Y("all:Q"))
    across = alt.Chart(alt.InlineData(values=[{"eager": eager, "all": eager_all}])).encode(y=alt.Y("eager:Q"))
    rule = across.mark_rule(color=INK, strokeDash=[6, 4])
    dotted = across.mark_rule(color=INK, strokeDash=[2, 4]).encode(y=alt.Y("all:Q"))
    label = across.mark_text(text="eager", align="right", baseline="bottom", dx=-4, dy=-3, color=INK, fontSize=12).encode(
        x=alt.value(width)
    )
    subtitle = "the best order of each strategy; dotted: with insertion and expiration"
    head = alt.TitleParams("What it costs to let arrivals wait", subtitle=subtitle)
    return styled(alt.layer(solid, dashed, rule, dotted, label).properties(width=width, height=340, title=head))
