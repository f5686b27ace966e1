"""Outputs that truncated joins keep against the tuples that they keep, a line per method (Das, section 5.1)."""

from __future__ import annotations

from typing import Any

import altair as alt

from penstock.experiments.figures import styled
from penstock.static.histogram import Truncation
from penstock.static.keep_plan import Allowance, check_method, estimate, make_plan

_COLOURS = {"optimal": "#0072B2", "adg": "#E69F00", "ndg": "#009E73", "ndg-independent": "#CC79A7"}
_MOST_STEPS = 10**9  # of one point of a line


def outputs_by_budget(done: Truncation, points: int = 24, width: int = 560) -> alt.TopLevelMixin:
    """The outputs that each method for such a budget keeps, for budgets from nothing to everything, in the proportions of this one.

    >>> from penstock.static.histogram import truncate_histograms
    >>> chart = outputs_by_budget(truncate_histograms(([2, 3], [10, 3]), keep=6), points=4).to_dict()
    >>> chart["layer"][0]["encoding"]["color"]["scale"]["domain"]
    ['optimal', 'adg']
    """
    rows = [row for step in range(points + 1) for row in _at(done, step / points)]
    methods = [name for name in _COLOURS if any(row["method"] == name for row in rows)]
    scale = alt.Scale(domain=methods, range=[_COLOURS[name] for name in methods])
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("tuples:Q", title="tuples kept", axis=alt.Axis(format=",d", tickCount=6)),
        y=alt.Y("share:Q", title="share of the exact result", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", tickCount=5)),
        color=alt.Color("method:N", title="method", sort=methods, scale=scale),
        strokeDash=alt.StrokeDash("method:N", sort=methods, legend=None),
        tooltip=["method:N", alt.Tooltip("tuples:Q", format=",d"), alt.Tooltip("share:Q", format=".2%")],
    )
    here = {"tuples": sum(done.n_kept.values()), "share": done.n_output / max(done.n_exact, 1)}
    mark = alt.Chart(alt.InlineData(values=[here])).mark_point(size=90, filled=True, color="#333333").encode(x="tuples:Q", y="share:Q")
    head = alt.TitleParams(
        "What a truncated join keeps", subtitle=f"{done.n_exact:,} outputs in the exact join; the dot: {done.method}, as asked for"
    )
    return styled(alt.layer(base.mark_line(strokeWidth=2.5), mark).properties(width=width, height=320, title=head))


def _at(done: Truncation, part: float) -> list[dict[str, Any]]:
    """A point per method: of one budget for all if the plan had that, else the same part of each relation."""
    single = done.method == "adg" or (done.method == "optimal" and done.one_budget)
    sizes = list(done.n_tuples.values())
    budget = Allowance(round(part * sum(sizes)), None) if single else Allowance(None, tuple(round(part * size) for size in sizes))
    rows = []
    for method in _COLOURS:
        try:
            check_method(method, len(sizes), budget)
        except ValueError:
            continue
        if method == "optimal" and estimate(done.counts, budget).steps > _MOST_STEPS:
            continue
        plan = make_plan(done.counts, budget, method)
        rows.append({"method": method, "tuples": int(plan.kept.sum()), "share": plan.n_output / max(plan.n_exact, 1)})
    return rows
