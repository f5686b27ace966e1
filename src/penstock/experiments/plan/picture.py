"""A plan as a picture: what each policy keeps in each memory, what is wanted, and where that is reached."""

from __future__ import annotations

from typing import Any

import altair as alt

from penstock.experiments.figures import INK, POLICY_COLOURS, styled
from penstock.experiments.plan.answer import Plan


def picture(plan: Plan) -> alt.TopLevelMixin:
    """Curves of recall over memory, a band around the best, the memory that is recommended, and the optimum there.

    >>> import penstock as ps
    >>> found = ps.plan(ps.generate(2000, seed=1), window=100, recall=0.8, policies=["prob", "fifo"])
    >>> len(picture(found).to_dict()["layer"])
    6
    """
    rows: list[dict[str, Any]] = [
        {"policy": one.policy, "memory": one.memory, "share": one.kept.share, "low": one.kept.low, "high": one.kept.high}
        for one in plan.points
    ]
    names = sorted(plan.others, key=lambda name: -plan.others[name])
    colours = [POLICY_COLOURS.get(name, INK) for name in names]
    sizes = sorted({one.memory for one in plan.points})
    span = [sizes[0], sizes[-1]]
    x = alt.X(
        "memory:Q", title="memory (rows)", scale=alt.Scale(type="log", domain=span, nice=False), axis=alt.Axis(format=",d", grid=False)
    )
    title = "share of the value" if plan.by_value else "share of the exact result"
    y = alt.Y("share:Q", title=title, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", tickCount=5))
    color = alt.Color("policy:N", title="policy", sort=names, scale=alt.Scale(domain=names, range=colours))
    tips = [alt.Tooltip("policy:N"), alt.Tooltip("memory:Q", format=",d"), alt.Tooltip("share:Q", format=".1%")]
    every = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y, color=color, tooltip=tips)
    own = alt.Chart(alt.InlineData(values=[row for row in rows if row["policy"] == plan.policy]))
    band = own.mark_area(opacity=0.15, color=POLICY_COLOURS.get(plan.policy, INK)).encode(x=x, y=alt.Y("low:Q", title=title), y2="high:Q")
    layers: list[Any] = [band, every.mark_line(strokeWidth=2.5), every.mark_point(filled=True, size=40, opacity=1)]
    wanted = alt.Chart(alt.InlineData(values=[{"memory": at, "share": plan.wanted} for at in span]))
    layers.append(wanted.mark_line(color=INK, strokeDash=[5, 3], strokeWidth=1.4).encode(x=x, y=y))
    here = alt.Chart(alt.InlineData(values=[{"memory": plan.memory, "share": share} for share in (0, 1)]))
    layers.append(here.mark_line(color=INK, strokeWidth=1.4).encode(x=x, y=y))
    if plan.optimum is not None:
        best = alt.Chart(alt.InlineData(values=[{"memory": plan.memory, "share": plan.optimum}]))
        layers.append(best.mark_point(shape="diamond", size=120, color=INK, filled=True).encode(x=x, y=y))
    best_text = "" if plan.optimum is None else f"; diamond: the optimum there, {plan.optimum:.1%}"
    under = f"dashed: {plan.wanted:.0%} wanted; line: {plan.memory:,} rows under {plan.policy} keep {plan.kept.share:.1%}{best_text}"
    head = alt.TitleParams("How much memory this join needs", subtitle=under)
    return styled(alt.layer(*layers).properties(width=560, height=340, title=head))
