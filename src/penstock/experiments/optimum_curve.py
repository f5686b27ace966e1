"""The picture of `penstock optimum --curve`: the optimum against memory."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from penstock.core.errors import PenstockError
from penstock.experiments.figures import GREY, INK, styled

_LINE = "#0072B2"


def optimum_curve(
    memories: Sequence[int], values: Sequence[float], *, whole: float | None = None, worth: str = "outputs"
) -> alt.TopLevelMixin:
    """A line of the optimum over memory, and the exact result above it.

    >>> len(optimum_curve([1, 2, 4], [3.0, 5.0, 6.0], whole=7.0).to_dict()["layer"])
    3
    """
    if not memories:
        raise PenstockError("a curve needs at least one size of memory, got none")
    rows = [{"memory": memory, "value": value} for memory, value in zip(memories, values, strict=True)]
    x = alt.X("memory:Q", title="memory (tuples)", axis=alt.Axis(format=",d", grid=False, tickMinStep=1), scale=alt.Scale(nice=False))
    y = alt.Y("value:Q", title=worth, axis=alt.Axis(format="~s", tickCount=5), scale=alt.Scale(zero=True))
    tips = [alt.Tooltip("memory:Q", format=",d"), alt.Tooltip("value:Q", format=",.6~g")]
    line = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y, tooltip=tips)
    layers = [line.mark_line(color=_LINE, strokeWidth=2.5)]
    if len(rows) <= 60:
        layers.append(line.mark_point(filled=True, size=45, color=_LINE, opacity=1))
    subtitle = "the best that any policy could have reached, the future known"
    if whole is not None:
        edges = [{"memory": memory, "value": whole} for memory in (memories[0], memories[-1])]
        exact = alt.Chart(alt.InlineData(values=edges)).encode(x=x, y=y)
        layers.append(exact.mark_line(color=INK, strokeWidth=1.4, strokeDash=[5, 3]))
        share = f", {values[-1] / whole:.1%} of it at {memories[-1]:,} tuples" if whole else ""
        subtitle = f"{subtitle}; dashed: the exact result{share}"
    head = alt.TitleParams("The optimum by memory", subtitle=subtitle, subtitleColor=GREY)
    return styled(alt.layer(*layers).properties(width=560, height=320, title=head))
