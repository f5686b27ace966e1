"""Each kind of claim: holds where it should, does not where it should not, and says where."""

from __future__ import annotations

import math

import pytest

from penstock.experiments.cells import checks
from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.results import Results, Spread

LINES = {"up": (1.0, 2.0, 4.0), "down": (4.0, 3.0, 1.0), "level": (2.0, 2.1, 2.0), "straight": (1.0, 2.0, 3.0)}
XS = (1, 2, 3)


def results(panel: str = "") -> Results:
    """Two seeds of each line, a tenth above and below its mean; the same share in all lines of a seed."""
    cells = [
        (Cell("toy", panel, line, x, seed), mean * (0.9 + 0.2 * seed))
        for line, means in LINES.items()
        for x, mean in zip(XS, means, strict=True)
        for seed in (0, 1)
    ]
    return Results.of(cells)


@pytest.mark.parametrize(
    ("check", "holds", "figure"),
    (
        (checks.at_least("up", 0.25, "down"), True, "up / down: 0.25 at 1"),
        (checks.at_least("up", 0.3, "down"), False, "up / down: 0.25 at 1"),
        (checks.at_least("up", 3.9, "down", at=(3,)), True, "up / down: 4 at 3"),
        (checks.at_most("up", 4.0, "down"), True, "up / down: 4 at 3"),
        (checks.at_most("up", 3.9, "down"), False, "up / down: 4 at 3"),
        (checks.about("up", "straight", 0.35), True, "up / straight: 1.33 at 3"),
        (checks.about("up", "straight", 0.3), False, "up / straight: 1.33 at 3"),
        (checks.about("level", "down", 0.5), False, "level / down: 2 at 3"),
        (checks.ordered("up", "straight"), True, "in all 3 comparisons"),
        (checks.ordered("up", "level"), False, "not in 2 of 3 comparisons; up / level: 0.5 at 1"),
        (checks.ordered("up", "level", slack=0.5), True, "in all 3 comparisons"),
        (checks.best("up", ("up", "straight")), True, "at 3 of 3 places"),
        (checks.best("up", ("up", "down", "level")), False, "at 1 of 3 places; least at up / down: 0.25 at 1"),
        (checks.lowest("straight", ("up", "straight")), True, "at 3 of 3 places"),
        (checks.lowest("up", ("up", "down", "level")), False, "at 2 of 3 places; least at up / down: 4 at 3"),
        (checks.rises("up"), True, "up: 1 2 4 at 1, 2, 3"),
        (checks.rises("level"), False, "level: 2 2.1 2 at 1, 2, 3"),
        (checks.rises("level", slack=0.1), True, "level"),
        (checks.falls("down"), True, "down: 4 3 1"),
        (checks.falls("up"), False, "up: 1 2 4"),
        (checks.flat("level", 0.06), True, "5 % between 1 and 2"),
        (checks.flat("level", 0.04), False, "5 % between 1 and 2"),
        (checks.gap_grows("up", "down"), True, "up / down: 0.25 at 1, 4 at 3"),
        (checks.gap_grows("down", "up"), False, "down / up: 4 at 1, 0.25 at 3"),
        (checks.linear("straight"), True, "squared correlation with x 1.000"),
        (checks.linear("up"), False, "squared correlation with x 0.964"),
        (checks.times("up", 3.5, 4.5, "down", at=(3,)), True, "up / down: 4 at 3; wanted: 3.5 to 4.5"),
        (checks.times("up", 1.0, 3.0, "down", at=(3,)), False, "up / down: 4 at 3"),
        (checks.on_average("up", 1.6, "down"), True, "up / down: 1.64 in the mean, 0.25 to 4; wanted: at least 1.6"),
        (checks.on_average("up", 1.7, "down"), False, "up / down: 1.64 in the mean"),
        (checks.ratio_flat("level", "level", 0.0), True, "level / level: 1 to 1"),
        (checks.ratio_flat("up", "straight", 0.3), False, "up / straight: 1 to 1.33; wanted: within 30 %"),
        (checks.gaps_grow(("up", "straight"), "down"), True, "all 2"),
        (checks.gaps_grow(("up", "down"), "straight"), False, "down / straight: 4 at 1, 0.333 at 3"),
        (checks.all_rise(("up", "straight")), True, "all 2"),
        (checks.all_rise(("up", "down")), False, "down: 4 3 1"),
        (checks.equals("down", 3.0, 2), True, "3.0; printed: 3.0"),
        (checks.equals("down", 3.1, 2), False, "3.0; printed: 3.1"),
        (checks.equals("down", 3.4, 2, digits=0), True, "3; printed: 3"),
    ),
)
def test_a_check_holds_or_not_and_says_where(check, holds, figure):
    finding = check(results())
    assert finding.holds is holds
    assert finding.figure.startswith(figure) or figure in finding.figure


def test_a_check_looks_at_its_panel_alone():
    both = Results({**results().values, **{("b", line, x, 0): 1.0 for line in LINES for x in XS}})
    assert not checks.rises("level")(both).holds
    assert checks.flat("up", 0.0, panel="b")(both).holds


def test_a_check_of_places_that_were_not_played_fails():
    with pytest.raises(ValueError, match="where nothing was played"):
        checks.at_least("up", 1, "down", at=(7,))(results())


def test_what_is_no_number_is_in_no_order():
    one = Results.of((Cell("toy", "", line, 1, seed), value) for line, values in {"a": (1, 1), "b": (2, 0)}.items()
                     for seed, value in enumerate(values))  # fmt: skip
    assert not checks.ordered("a", "b")(one).holds and not checks.at_least("a", 0.1, "b")(one).holds


def test_ratios_are_taken_seed_by_seed():
    one = Results.of([(Cell("toy", "", line, 1, seed), value) for line, values in {"a": (1, 4), "b": (2, 2)}.items()
                      for seed, value in enumerate(values)])  # fmt: skip
    assert one.ratio("a", "b", 1).mean == 1.25
    assert one.spread("a", 1).mean == 2.5


def test_one_seed_has_no_interval():
    assert str(Spread.of([0.5])) == "0.5"
    assert Spread.of([0.4, 0.6]).low < 0.4


def test_where_a_cell_has_no_number_there_is_no_mean():
    assert math.isnan(Spread.of([1.0, math.nan]).mean) and math.isnan(Spread.of([math.inf, 1.0]).high)
