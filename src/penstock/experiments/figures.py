"""Charts: memory per stream over time, and recall against memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from penstock.core.budget import Pools
from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.engine.run import JoinRun

MOST_POINTS = 2000
"""Points per line; a longer series is thinned, its peaks kept."""

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
_STREAMS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
POLICY_COLOURS = {
    "fifo": "#666666", "rand": "#B5B5B5", "prob": "#0072B2", "life": "#56B4E9", "elife": "#D55E00",
    "simp": "#E69F00", "simpprob": "#CC79A7", "dimpprob": "#009E73", "dgl": "#7A4FBF", "additive": "#9C6B30",
    "ep": "#B2182B", "frequency": "#1B7837", "output": "#E08BC4", "kwon-random": "#CFCFCF", "opt": "#111111",
    "learned": "#E6007E",
}  # fmt: skip
INK, PALE, GREY = "#333333", "#E6E6E6", "#666666"
_CLOCK = {"milliseconds": ".%L s", "seconds": "%H:%M:%S", "minutes": "%H:%M", "hours": "%H:%M", "date": "%d %b", "month": "%b %Y"}
_PLAIN = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelColor": INK, "titleColor": INK}
_LOOK: dict[str, Any] = {
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "background": "white",
    "padding": 18,
    "view": {"stroke": None},
    "axis": {**_PLAIN, "titlePadding": 8, "gridColor": PALE, "domainColor": "#999999", "tickColor": "#999999"},
    "axisLeft": {"minExtent": 50},  # plots and titles of stacked charts begin at one line
    "legend": {**_PLAIN, "symbolStrokeWidth": 2.5, "symbolSize": 110},
    "title": {
        "anchor": "start", "offset": 10, "color": INK, "fontSize": 18,
        "subtitleColor": GREY, "subtitleFontSize": 12, "subtitlePadding": 4,
    },
}  # fmt: skip


def memory_over_time(
    runs: Sequence[JoinRun],
    *,
    budget: Pools | None = None,
    timestamps: bool = False,
    title: str = "Who holds the memory",
    width: int = 720,
) -> alt.TopLevelMixin:
    """The tuples that each stream holds, stacked, with the budget as a line: one panel per run, one under the other.

    >>> from penstock.engine.contract import Keep
    >>> from penstock.core.trace import Trace
    >>> from penstock.simulator.simulate import simulate
    >>> trace = Trace.from_streams(R="abca", S="caba")
    >>> run = simulate(trace, window=4, memory=3, policy="fifo", keep=Keep(series=True))
    >>> len(memory_over_time([run]).to_dict()["vconcat"])
    1
    """
    if not runs:
        raise PenstockError("runs must be at least one run with keep=Keep(series=True), got none")
    for run in runs:
        if run.series is None or not len(run.series):
            raise PenstockError(f"the run of {run.policy!r} has no series; simulate with keep=Keep(series=True)")
    if budget is not None and budget.in_bytes:
        budget = None  # the series counts tuples
    panels = [_panel(run, budget, timestamps, width, run is runs[-1]) for run in runs]
    dashes = f"; dashed: the budget{f', {budget.most:,} tuples' if len(budget.times) == 1 else ''}" if budget else ""
    head = alt.TitleParams(title, subtitle=f"tuples in memory after each instant, by stream{dashes}", offset=14)
    chart = alt.vconcat(*panels, spacing=12).properties(title=head)
    return styled(chart.resolve_scale(x="shared", y="independent", color="shared"))


def recall_by_memory(
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str = "How much of the result remains",
    subtitle: str = "",
    width: int = 460,
    unit: str = "share",
) -> alt.TopLevelMixin:
    """Recall against memory, one curve per policy; that of the optimum, `opt`, is dashed.

    The rows have `policy`, `memory` (a share of what the exact join holds, or with `unit` so many "rows" or "bytes") and `recall`. Rows may
    have a `measure` too: then there is a panel for each, side by side.

    >>> rows = [{"policy": "prob", "memory": 0.1, "recall": 0.5}, {"policy": "prob", "memory": 1.0, "recall": 1.0}]
    >>> "layer" in recall_by_memory(rows).to_dict()
    True
    """
    if not rows:
        raise PenstockError("rows must be at least one point with policy, memory and recall, got none")
    measures = list(dict.fromkeys(str(row.get("measure", "")) for row in rows))
    panels = [_curves([row for row in rows if str(row.get("measure", "")) == m], m, width, unit) for m in measures]
    head = alt.TitleParams(title, subtitle=subtitle) if subtitle else alt.TitleParams(title)
    if len(panels) == 1:
        return styled(panels[0].properties(title=head))
    return styled(alt.hconcat(*panels, spacing=36).resolve_scale(color="independent").properties(title=head))


def together(*charts: alt.TopLevelMixin) -> alt.TopLevelMixin:
    """Several of these charts in one picture, one under the other."""
    parts: list[Any] = copy.deepcopy(list(charts))
    for part in parts:
        part.config = alt.Undefined  # the look belongs to the whole
    return styled(alt.vconcat(*parts, spacing=40).resolve_scale(color="independent"))


def save(chart: alt.TopLevelMixin, path: Path) -> None:
    """Write a chart as .png, .svg or .html, by the suffix; no browser is needed, and the HTML needs no network."""
    suffix = path.suffix.lower()
    if suffix not in (".png", ".svg", ".html"):
        raise PenstockError(f"a chart must be written to .png, .svg or .html, got {str(path)!r}")
    if suffix == ".html":
        menu = {"export": True, "source": False, "compiled": False, "editor": False}  # the editor is a web site
        chart.save(path, format="html", inline=True, embed_options={"actions": menu})
    elif suffix == ".png":
        chart.save(path, format="png", scale_factor=2)
    else:
        chart.save(path, format="svg")


def thinned(series: Ints, most: int = MOST_POINTS) -> Ints:
    """At most `most` of the rows (time, tuples per stream): in each stretch of time the one with the most tuples.

    >>> thinned(np.array([[0, 1, 0], [1, 5, 5], [2, 3, 0], [3, 1, 1]]), 2).tolist()
    [[1, 5, 5], [2, 3, 0]]
    """
    if len(series) <= most:
        return series
    stretch = np.arange(len(series)) * most // len(series)
    order = np.lexsort((-series[:, 1:].sum(axis=1), stretch))
    first = np.concatenate([[True], np.diff(stretch[order]) > 0])
    return series[np.sort(order[first])]


def _panel(run: JoinRun, budget: Pools | None, timestamps: bool, width: int, last: bool) -> Any:
    assert run.series is not None
    series = run.series.copy()
    series[:, 0] = np.maximum.accumulate(series[:, 0])  # rows may come late, time does not go back
    series = thinned(series)
    top = max(int(series[:, 1:].sum(axis=1).max()), budget.most if budget else 1)
    time = series[:, 0] / 1000 if timestamps else series[:, 0]  # Vega counts milliseconds
    held = [
        {"time": at, "stream": stream, "place": place, "tuples": count}
        for place, stream in enumerate(run.streams)
        for at, count in zip(time.tolist(), series[:, 1 + place].tolist(), strict=True)
    ]
    area = (
        alt.Chart(alt.InlineData(values=held))
        .mark_area(interpolate="step-after", opacity=0.9, line=False)
        .encode(
            x=time_axis(timestamps, last),
            y=alt.Y(
                "tuples:Q",
                title="tuples in memory",
                stack="zero",
                scale=alt.Scale(domain=[0, 1.06 * top], nice=False),
                axis=alt.Axis(tickCount=4, format=",d"),
            ),
            color=alt.Color(
                "stream:N",
                title="stream",
                scale=alt.Scale(domain=list(run.streams), range=_cycle(_STREAMS, len(run.streams))),
            ),
            order=alt.Order("place:Q"),
        )
    )
    layers: list[Any] = [area]
    if budget is not None:
        limit = [{"time": at / 1000 if timestamps else at, "budget": cap} for at, cap in _limits(budget, series[:, 0])]
        line = alt.Chart(alt.InlineData(values=limit)).encode(x=time_axis(timestamps, last), y="budget:Q")
        layers.append(line.mark_line(interpolate="step-after", color="white", strokeWidth=2.4, opacity=0.7))
        layers.append(line.mark_line(interpolate="step-after", color=INK, strokeWidth=1.6, strokeDash=[5, 3]))
    shed = f"{run.n_shed:,} tuples shed" if run.n_shed else "nothing shed"
    name = alt.TitleParams(f"{run.policy}: {run.n_output:,} outputs, {shed}", fontSize=13, offset=6)
    return alt.layer(*layers).properties(width=width, height=130, title=name)


def time_axis(timestamps: bool, last: bool) -> alt.X:
    """The axis of time; only the last panel names it."""
    shown: dict[str, Any] = {"labels": last, "ticks": last, "grid": False}
    if timestamps:
        axis = alt.Axis(format=_CLOCK, tickCount=8, **shown)
        return alt.X("time:T", title="time (UTC)" if last else None, scale=alt.Scale(type="utc"), axis=axis)
    scale = alt.Scale(nice=False, zero=False)
    return alt.X("time:Q", title="time (ticks)" if last else None, scale=scale, axis=alt.Axis(format=",d", tickCount=8, **shown))


def _limits(budget: Pools, time: Ints) -> list[tuple[int, int]]:
    """The budget over the time of a run, as the corners of a line of steps."""
    caps = budget.caps.sum(axis=1)
    first, last = int(time[0]), int(time[-1])
    inside = [at for at in budget.times.tolist() if first < at < last]
    at = np.array([first, *inside, last])
    step = np.maximum(np.searchsorted(budget.times, at, side="right") - 1, 0)
    return list(zip(at.tolist(), caps[step].tolist(), strict=True))


def _curves(rows: Sequence[Mapping[str, Any]], measure: str, width: int, unit: str) -> Any:
    least = min(row["memory"] for row in rows)
    ranked = sorted((row for row in rows if row["memory"] == least), key=lambda row: -row["recall"])
    policies = list(dict.fromkeys([row["policy"] for row in ranked] + [row["policy"] for row in rows]))
    sizes = sorted({row["memory"] for row in rows})
    form = {"share": ".0%", "rows": ",d", "bytes": ".3~s"}[unit]
    known = {POLICY_COLOURS[policy] for policy in policies if policy in POLICY_COLOURS}
    spare = iter(_cycle([colour for colour in POLICY_COLOURS.values() if colour not in known] or [INK], len(policies)))
    colours = [POLICY_COLOURS.get(policy) or next(spare) for policy in policies]
    base = alt.Chart(alt.InlineData(values=[dict(row) for row in rows])).encode(
        x=alt.X(
            "memory:Q",
            title="memory, as a share of what the exact join holds at its peak" if unit == "share" else f"memory ({unit})",
            scale=alt.Scale(type="log", domain=[sizes[0], sizes[-1]], padding=8, nice=False),
            axis=alt.Axis(values=sizes, format=form, grid=False, labelOverlap=True),
        ),
        y=alt.Y(
            "recall:Q",
            title=measure or "share of the exact result",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%", tickCount=5),
        ),
        color=alt.Color("policy:N", title="policy", sort=policies, scale=alt.Scale(domain=policies, range=colours)),
        tooltip=[alt.Tooltip("policy:N"), alt.Tooltip("memory:Q", format=form), alt.Tooltip("recall:Q", format=".1%")],
    )
    dashed = alt.condition(alt.datum.policy == "opt", alt.value([5, 3]), alt.value([1, 0]))
    lines = base.mark_line(strokeWidth=2.5).encode(strokeDash=dashed)
    points = base.mark_point(filled=True, size=55, opacity=1)
    return alt.layer(lines, points).properties(width=width, height=320)


def _cycle(colours: Sequence[str], count: int) -> list[str]:
    return [colours[number % len(colours)] for number in range(count)]


def styled(chart: Any) -> Any:
    """The chart in the look of all our charts."""
    return chart.configure(**_LOOK)
