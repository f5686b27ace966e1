"""The figure of an experiment: a chart for each panel, with 95 % intervals over seeds; in colours that suit light and dark pages."""

from __future__ import annotations

import math
import re
from typing import Any

import altair as alt

from penstock.experiments.cells.experiment import Experiment
from penstock.experiments.cells.results import Results, Spread
from penstock.experiments.figures import GREY, INK, PALE, POLICY_COLOURS, styled

_WIDTH, _HEIGHT = 340, 230
_CLOSE = 0.03  # of shares whose labels would be alike in whole percents
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A4FBF")
_SAME = {
    "exact": "#8a8a8a",
    "optv": "#111111",
    "ossj": "#111111",
    "esja": "#111111",
    "optimal": "#111111",
    "adg": "#E69F00",
    "random": "#B5B5B5",
    "sja": "#009E73",
    "autov": "#9C6B30",
}
_THEME = {INK: "currentColor", "#111111": "currentColor", GREY: "var(--muted)", PALE: "var(--grid)", "#999999": "var(--muted)"}


def charts(experiment: Experiment, results: Results) -> dict[str, alt.TopLevelMixin]:
    """A chart for each panel, by its name."""
    return {panel: _chart(experiment, results, panel) for panel in experiment.panels}


def whole(experiment: Experiment, results: Results) -> alt.TopLevelMixin:
    """All panels in one picture, with the title of the experiment."""
    parts = [_chart(experiment, results, panel, bare=True) for panel in experiment.panels]
    head = alt.TitleParams(experiment.title, subtitle=experiment.name)
    return styled(alt.hconcat(*parts, spacing=30).resolve_scale(color="independent").properties(title=head))


def themed(svg: str, name: str) -> str:
    """An SVG to be put into a page: its ink is the page's, its background none, its names its own."""
    for colour, instead in _THEME.items():
        svg = re.sub(rf'(fill|stroke)="{colour}"', rf'\1="{instead}"', svg, flags=re.IGNORECASE)
    svg = re.sub(
        r'<rect width="[\d.]+" height="[\d.]+" fill="white"\s*/?>', lambda found: found[0].replace('"white"', '"none"'), svg, count=1
    )
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'<svg ([^>]*?)width="([\d.]+)" height="([\d.]+)"', r'<svg \1role="img" style="max-width:\2px"', svg, count=1)
    return svg


def numbers(experiment: Experiment, results: Results, panel: str) -> list[dict[str, Any]]:
    """The points of a chart; shares where the experiment draws them."""
    rows = []
    for line in experiment.lines:
        for x in results.xs(panel):
            one: Spread = results.ratio(line, experiment.of, x, panel) if experiment.of else results.spread(line, x, panel)
            if math.isfinite(one.mean):
                rows.append({"line": line, "x": x, "mean": one.mean, "low": one.low, "high": one.high})
    return rows


def _chart(experiment: Experiment, results: Results, panel: str, *, bare: bool = False) -> Any:
    rows = numbers(experiment, results, panel)
    if experiment.log:
        least = min((row["mean"] for row in rows if row["mean"] > 0), default=1.0)
        rows = [row | {"low": max(row["low"], least / 3), "mean": max(row["mean"], least / 3)} for row in rows]
    named = any(isinstance(row["x"], str) for row in rows)
    made = _bars(experiment, rows) if named else _lines(experiment, rows)
    if panel:
        made = made.properties(title=alt.TitleParams(panel, fontSize=13))
    return made if bare else styled(made)


def _lines(experiment: Experiment, rows: list[dict[str, Any]]) -> Any:
    places = sorted({row["x"] for row in rows})
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "x:Q",
            title=experiment.x,
            scale=alt.Scale(zero=False, nice=False, padding=12, type="log" if experiment.logx else "linear"),
            axis=alt.Axis(values=places, grid=False, labelOverlap=True, format="~s" if places[-1] >= 10_000 else ",.4~r"),
        ),
        color=_colour(experiment),
        tooltip=[
            "line:N",
            "x:Q",
            alt.Tooltip("mean:Q", format=",.4~g"),
            alt.Tooltip("low:Q", format=",.4~g"),
            alt.Tooltip("high:Q", format=",.4~g"),
        ],
    )
    scale = alt.Scale(type="log") if experiment.log else alt.Scale(zero=not experiment.of, clamp=True)
    height = alt.Y("mean:Q", title=experiment.y, scale=scale, axis=alt.Axis(format=_form(experiment, rows), tickCount=5))
    lines = base.mark_line(strokeWidth=2.2).encode(y=height)
    points = base.mark_point(filled=True, size=36, opacity=1).encode(y=height)
    band = base.mark_rule(strokeWidth=1.4, opacity=0.5).encode(y=alt.Y("low:Q", title=experiment.y, scale=scale), y2="high:Q")
    return alt.layer(band, lines, points).properties(width=_WIDTH, height=_HEIGHT)


def _bars(experiment: Experiment, rows: list[dict[str, Any]]) -> Any:
    one = len({row["x"] for row in rows}) == 1
    scale = alt.Scale(type="log") if experiment.log else alt.Scale(zero=True)
    names = list(dict.fromkeys(row["line"] if one else row["x"] for row in rows))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y(f"{'line' if one else 'x'}:N", title=None, sort=names, axis=alt.Axis(labelLimit=220)),
        x=alt.X("mean:Q", title=experiment.y, scale=scale, axis=alt.Axis(format=_form(experiment, rows), tickCount=5)),
        tooltip=["line:N", "x:N", alt.Tooltip("mean:Q", format=",.4~g")],
    )
    if not one:
        base = base.encode(color=_colour(experiment))
        return base.mark_point(filled=True, size=90, opacity=1).properties(width=_WIDTH, height=26 * len(names) + 20)
    return base.mark_bar(color=_COLOURS[0], height=14).properties(width=_WIDTH, height=24 * len(names) + 20)


def _form(experiment: Experiment, rows: list[dict[str, Any]]) -> str:
    """How numbers are written on the axis of what was found; shares that are close to each other in tenths of a percent."""
    if experiment.of and max(row["mean"] for row in rows) - min(row["mean"] for row in rows) < _CLOSE:
        return ".1%"
    return ".0%" if experiment.of else "~s" if max((row["mean"] for row in rows), default=0) >= 10_000 else ",.3~r"


def _colour(experiment: Experiment) -> alt.Color:
    spare = iter([colour for colour in _COLOURS * 3 if colour not in {_known(line) for line in experiment.lines}])
    colours = [_known(line) or next(spare) for line in experiment.lines]
    legend = alt.Legend(orient="bottom", columns=3, labelLimit=200, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, title=None)
    return alt.Color("line:N", sort=list(experiment.lines), scale=alt.Scale(domain=list(experiment.lines), range=colours), legend=legend)


def _known(line: str) -> str | None:
    plain = line.removesuffix("-s")
    return _SAME.get(plain) or POLICY_COLOURS.get(plain)
