"""The picture of the demonstration: recall, memory and shedding, one under the other, over the time of the events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from penstock.experiments.demo import Demo
from penstock.experiments.figures import GREY, INK, PALE, POLICY_COLOURS, styled, thinned, time_axis

_WIDTH = 860
_RUSH = "#FBF0DC"  # behind bursts
_SHED = "#D55E00"
_ARRIVED = "#C9D7E3"


def timeline(found: Demo) -> alt.TopLevelMixin:
    """Three panels: the share of the exact result, the tuples in memory, and what came and was shed in each batch."""
    run, oldest, best = found.run, *found.rivals
    part = found.memory / found.whole.most
    panels = [_recall(found), _memory(found, last=not found.batches), *([_shed(found)] if found.batches else [])]
    how = f"through Spark in {len(found.batches)} batches" if found.batches else "through the simulator"
    head = alt.TitleParams(
        f"In {part:.0%} of the memory, {run.policy} keeps {found.recall(run):.0%} of the result; "
        f"dropping the oldest keeps {found.recall(oldest):.0%}, and no policy could keep more than {found.recall(best):.0%}",
        subtitle=f"{found.n_input:,} tuples of two streams, {how}, in a memory of {found.memory:,} tuples; "
        f"the exact join makes {found.whole.n_output:,} rows and holds up to {found.whole.most:,} tuples. Shaded: bursts.",
    )
    return styled(alt.vconcat(*panels, spacing=18).resolve_scale(x="shared", color="independent").properties(title=head))


def _recall(found: Demo) -> Any:
    played = [found.run, *found.rivals]
    colours = {one.name: POLICY_COLOURS.get(one.policy, INK) for one in played}
    rows = [{"time": at / 1000, "name": one.name, "recall": share} for one in played for at, share in found.over_time(one)]
    ends = [[row for row in rows if row["name"] == one.name][-1] | {"time": _end(found)} for one in played]
    colour = alt.Color("name:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=None)
    y = alt.Y("recall:Q", title="share of the exact result", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", tickCount=5))
    tips = [alt.Tooltip("name:N"), alt.Tooltip("recall:Q", format=".1%")]
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=time_axis(True, False), y=y, color=colour, tooltip=tips)
    layers = [base.mark_line(strokeWidth=2.5), base.mark_point(filled=True, size=40, opacity=1), _labels(ends, "recall", colour)]
    return _panel(found, layers, "How much of the result comes out", 200, last=False)


def _memory(found: Demo, *, last: bool) -> Any:
    whole = [{"time": at / 1000, "tuples": held} for at, held in thinned(found.whole.held).tolist()]
    run = [{"time": at / 1000, "tuples": held, "name": found.run.name} for at, held in thinned(found.run.held).tolist()]
    y = alt.Y("tuples:Q", title="tuples in memory", axis=alt.Axis(tickCount=4, format=",d"))
    x = time_axis(True, last)
    needed = alt.Chart(alt.InlineData(values=whole)).mark_area(
        interpolate="step-after", color=PALE, line={"color": "#A0A0A0", "strokeWidth": 1}
    )
    held = alt.Chart(alt.InlineData(values=run)).encode(x=x, y=y, tooltip=[alt.Tooltip("tuples:Q", format=",d")])
    colour = POLICY_COLOURS.get(found.run.policy, INK)
    edges = [{"time": row["time"], "tuples": found.memory} for row in (whole[0], whole[-1])]
    limit = alt.Chart(alt.InlineData(values=edges)).mark_line(color=INK, strokeWidth=1.5, strokeDash=[5, 3]).encode(x=x, y=y)
    labels = [
        {"time": _end(found), "tuples": whole[-1]["tuples"], "name": "the exact join"},
        {"time": _end(found), "tuples": found.memory, "name": f"budget: {found.memory:,}"},
    ]
    layers = [needed.encode(x=x, y=y), held.mark_line(color=colour, strokeWidth=2.5), limit, _labels(labels, "tuples", alt.value(INK))]
    if len(run) < 100:
        layers.insert(2, held.mark_point(filled=True, size=40, color=colour, opacity=1))
    return _panel(found, layers, "Memory: what the exact join takes, and what this run holds after each batch", 170, last=last)


def _shed(found: Demo) -> Any:
    rows = [{"time": b.begin / 1000, "end": b.end / 1000, "arrived": b.arrived, "shed": b.shed} for b in found.batches]
    base = alt.Chart(alt.InlineData(values=rows))
    tips = [alt.Tooltip("arrived:Q", format=",d"), alt.Tooltip("shed:Q", format=",d")]

    def bars(name: str, colour: str) -> Any:
        y = alt.Y(f"{name}:Q", title="tuples per batch", axis=alt.Axis(tickCount=4, format=",d"))
        marks = base.mark_bar(color=colour, stroke="white", strokeWidth=1)
        return marks.encode(x=time_axis(True, True), x2="end:T", y=y, y2=alt.value(120), tooltip=tips)

    last = rows[-1]
    colours = alt.Color("name:N", scale=alt.Scale(domain=["arrived", "shed"], range=["#7F9BB3", _SHED]), legend=None)
    labels = [{"time": last["end"], "tuples": last[name] * place, "name": name} for name, place in (("arrived", 1.0), ("shed", 0.55))]
    return _panel(
        found,
        [bars("arrived", _ARRIVED), bars("shed", _SHED), _labels(labels, "tuples", colours)],
        "What arrived, and what was shed",
        120,
        last=True,
    )


def _end(found: Demo) -> float:
    """The end of the axis of time, in milliseconds."""
    return (found.batches[-1].end if found.batches else int(found.whole.held[-1, 0])) / 1000


def _labels(rows: Sequence[dict[str, Any]], y: str, colour: Any) -> Any:
    """Names at the right end of what they name."""
    marks = alt.Chart(alt.InlineData(values=list(rows))).mark_text(align="left", dx=9, fontSize=12, clip=False)
    return marks.encode(x="time:T", y=f"{y}:Q", text="name:N", color=colour)


def _panel(found: Demo, layers: Sequence[Any], title: str, height: int, *, last: bool) -> Any:
    rush = alt.Chart(alt.InlineData(values=[{"time": begin / 1000, "end": end / 1000} for begin, end in found.bursts]))
    behind = rush.mark_rect(color=_RUSH).encode(x=time_axis(True, last), x2="end:T")
    name = alt.TitleParams(title, fontSize=13, offset=6, color=GREY)
    return alt.layer(behind, *layers).properties(width=_WIDTH, height=height, title=name)
