"""How a claim is checked: one function per kind of claim, each of which says what it found and where.

A claim about several places holds where it holds at each of them; the figure is that of the place where it holds least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from penstock.experiments.cells.cell import X
from penstock.experiments.cells.experiment import Outcome
from penstock.experiments.cells.results import Results, Spread, shown

Check = Callable[[Results], Outcome]


def at_least(line: str, share: float, of: str, *, at: Sequence[X] | None = None, panel: str = "") -> Check:
    """A line is at least so many times another."""
    return _bounded(line, of, at, panel, lambda one: one.mean >= share, lambda one: one.mean, f"at least {share:g}")


def at_most(line: str, share: float, of: str, *, at: Sequence[X] | None = None, panel: str = "") -> Check:
    """A line is at most so many times another."""
    return _bounded(line, of, at, panel, lambda one: one.mean <= share, lambda one: -one.mean, f"at most {share:g}")


def about(line: str, of: str, within: float, *, at: Sequence[X] | None = None, panel: str = "") -> Check:
    """A line is as high as another, within such a share."""
    wanted = f"{1 - within:g} to {1 + within:g}"
    return _bounded(line, of, at, panel, lambda one: abs(one.mean - 1) <= within, lambda one: -abs(one.mean - 1), wanted)


def times(line: str, low: float, high: float, of: str, *, at: Sequence[X] | None = None, panel: str = "") -> Check:
    """A line is so many times another, from and to."""
    middle = (low + high) / 2
    return _bounded(line, of, at, panel, lambda one: low <= one.mean <= high, lambda one: -abs(one.mean - middle), f"{low:g} to {high:g}")


def on_average(line: str, share: float, of: str, *, panel: str = "") -> Check:
    """A line is at least so many times another, in the mean over the x axis."""

    def check(results: Results) -> Outcome:
        means = [results.ratio(line, of, x, panel).mean for x in results.xs(panel)]
        mean = sum(means) / len(means)
        figure = f"{line} / {of}: {shown(mean)} in the mean, {shown(min(means))} to {shown(max(means))}; wanted: at least {share:g}"
        return Outcome(mean >= share, figure)

    return check


def _bounded(
    line: str,
    of: str,
    at: Sequence[X] | None,
    panel: str,
    good: Callable[[Spread], bool],
    order: Callable[[Spread], float],
    wanted: str,
) -> Check:
    def check(results: Results) -> Outcome:
        found = {x: results.ratio(line, of, x, panel) for x in _places(results, at, panel)}
        worst = min(found, key=lambda x: order(found[x]))
        return Outcome(all(map(good, found.values())), f"{line} / {of}: {found[worst]} at {_named(worst)}; wanted: {wanted}")

    return check


def ordered(*lines: str, at: Sequence[X] | None = None, panel: str = "", slack: float = 0.0) -> Check:
    """Each line is at least as high as the next, at each place; with `slack`, at least all but such a share of it."""

    def check(results: Results) -> Outcome:
        broken = []
        for x in _places(results, at, panel):
            for high, low in pairwise(lines):
                one = results.ratio(high, low, x, panel)
                if not one.mean >= 1 - slack:
                    broken.append((one.mean, f"{high} / {low}: {one} at {_named(x)}"))
        places = len(_places(results, at, panel)) * (len(lines) - 1)
        if not broken:
            return Outcome(True, f"in all {places} comparisons")
        return Outcome(False, f"not in {len(broken)} of {places} comparisons; {min(broken)[1]}")

    return check


def best(line: str, among: Sequence[str], *, at: Sequence[X] | None = None, panel: str = "") -> Check:
    """A line is the highest of several, at each place."""
    return _extreme(line, among, at, panel, highest=True)


def lowest(line: str, among: Sequence[str], *, at: Sequence[X] | None = None, panel: str = "") -> Check:
    """A line is the lowest of several, at each place."""
    return _extreme(line, among, at, panel, highest=False)


def _extreme(line: str, among: Sequence[str], at: Sequence[X] | None, panel: str, *, highest: bool) -> Check:
    choice = max if highest else min

    def check(results: Results) -> Outcome:
        found = []
        for x in _places(results, at, panel):
            rival = choice((name for name in among if name != line), key=lambda name, x=x: results.mean(name, x, panel))  # type: ignore[misc]
            one = results.ratio(line, rival, x, panel)
            found.append((one.mean if highest else -one.mean, f"{line} / {rival}: {one} at {_named(x)}"))
        bound = 1 if highest else -1
        held = sum(1 for mean, _ in found if mean >= bound)
        return Outcome(held == len(found), f"at {held} of {len(found)} places; least at {min(found)[1]}")

    return check


def rises(line: str, *, at: Sequence[X] | None = None, panel: str = "", slack: float = 0.0) -> Check:
    """A line rises along the x axis; with `slack`, falls nowhere by more than such a share."""
    return _steps(line, at, panel, lambda before, after: after >= before * (1 - slack))


def falls(line: str, *, at: Sequence[X] | None = None, panel: str = "", slack: float = 0.0) -> Check:
    """A line falls along the x axis; with `slack`, rises nowhere by more than such a share."""
    return _steps(line, at, panel, lambda before, after: after <= before * (1 + slack))


def flat(line: str, within: float, *, at: Sequence[X] | None = None, panel: str = "") -> Check:
    """A line is level along the x axis: its highest mean is above its lowest by at most such a share."""

    def check(results: Results) -> Outcome:
        means = {x: results.mean(line, x, panel) for x in _places(results, at, panel)}
        high, low = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        more = means[high] / means[low] - 1
        return Outcome(more <= within, f"{100 * more:.0f} % between {_named(low)} and {_named(high)}; wanted: at most {100 * within:.0f} %")

    return check


def _steps(line: str, at: Sequence[X] | None, panel: str, good: Callable[[float, float], bool]) -> Check:
    def check(results: Results) -> Outcome:
        places = _places(results, at, panel)
        means = [results.mean(line, x, panel) for x in places]
        held = all(good(before, after) for before, after in pairwise(means))
        return Outcome(held, f"{line}: {' '.join(map(shown, means))} at {', '.join(map(_named, places))}")

    return check


def gap_grows(high: str, low: str, *, at: Sequence[X] | None = None, panel: str = "") -> Check:
    """The quotient of two lines is larger at the last place than at the first."""

    def check(results: Results) -> Outcome:
        places = _places(results, at, panel)
        first, last = (results.ratio(high, low, x, panel) for x in (places[0], places[-1]))
        figure = f"{high} / {low}: {first} at {_named(places[0])}, {last} at {_named(places[-1])}"
        return Outcome(last.mean > first.mean, figure)

    return check


def gaps_grow(highs: Sequence[str], low: str, *, panel: str = "") -> Check:
    """The quotients of all these lines over another are larger at the last place than at the first."""
    return _all([gap_grows(high, low, panel=panel) for high in highs])


def all_rise(lines: Sequence[str], *, panel: str = "", slack: float = 0.0) -> Check:
    """Each of these lines rises along the x axis."""
    return _all([rises(line, panel=panel, slack=slack) for line in lines])


def ratio_flat(line: str, of: str, within: float, *, panel: str = "") -> Check:
    """The quotient of two lines is level along the x axis: its highest is above its lowest by at most such a share."""

    def check(results: Results) -> Outcome:
        found = [results.ratio(line, of, x, panel).mean for x in results.xs(panel)]
        more = max(found) / min(found) - 1
        return Outcome(more <= within, f"{line} / {of}: {shown(min(found))} to {shown(max(found))}; wanted: within {100 * within:.0f} %")

    return check


def _all(parts: Sequence[Check]) -> Check:
    """All of several hold; the figures are of those that do not, or of the first."""

    def check(results: Results) -> Outcome:
        found = [part(results) for part in parts]
        broken = [one.figure for one in found if not one.holds]
        return Outcome(not broken, "; ".join(broken) if broken else f"all {len(found)}; {found[0].figure}")

    return check


def linear(line: str, *, least: float = 0.98, panel: str = "") -> Check:
    """A line is straight: the square of its correlation with x."""

    def check(results: Results) -> Outcome:
        import numpy as np

        places = [float(x) for x in results.xs(panel)]
        means = [results.mean(line, x, panel) for x in results.xs(panel)]
        square = float(np.corrcoef(places, means)[0, 1] ** 2)
        return Outcome(square >= least, f"{line}: squared correlation with x {square:.3f}")

    return check


def equals(line: str, wanted: float, at: X, *, digits: int = 1, panel: str = "") -> Check:
    """A number that the paper prints."""

    def check(results: Results) -> Outcome:
        found = results.mean(line, at, panel)
        return Outcome(round(found, digits) == round(wanted, digits), f"{found:,.{max(0, digits)}f}; printed: {wanted:,.{max(0, digits)}f}")

    return check


def _places(results: Results, at: Sequence[X] | None, panel: str) -> list[X]:
    """Those of the claim that were played; all where none is named."""
    found = [x for x in results.xs(panel) if at is None or x in at]
    if not found:
        raise ValueError(f"a claim looks at {at}, where nothing was played, of {results.xs(panel)}")
    return found


def _named(x: X) -> str:
    return x if isinstance(x, str) else shown(float(x))
