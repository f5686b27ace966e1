"""The catalog has every figure and table that is to be repeated, and each of its cells can be played."""

from __future__ import annotations

import math
import os
from dataclasses import replace

import pytest

from penstock.experiments.catalog.beyond import mixed
from penstock.experiments.catalog.ojewole_offline import solve
from penstock.experiments.catalog.table import CATALOG, PAPERS
from penstock.experiments.cells.experiment import Experiment
from penstock.experiments.cells.joins import streams
from penstock.experiments.cells.results import Results
from penstock.experiments.reproduce.runner import lacking
from places import ROOT, SHARED

WANTED = {
    "das": [f"fig{n:02d}" for n in range(4, 21)],
    "ojewole": [*(f"fig{n:02d}" for n in range(2, 12)), "table1"],
    "towne": ["fig04", "fig05", "fig06"],
    "golab": ["fig02", "fig03a", "fig03b", "fig04a", "fig04b", "table5", "table6", "table7", "table8"],
    "kwon": ["fig05", "fig06", "fig07", "fig08", "fig09a", "fig09b", "fig10", "fig11"],
    "beyond": ["importance", "policies", "shared", "stale", "wrong"],
}
EXACT = [name for name in CATALOG if name.startswith(("golab-table5", "golab-table6", "golab-table7", "golab-fig02", "golab-fig03"))]
MEASURED = [name for name, one in CATALOG.items() if one.timed]


def test_every_figure_and_table_is_there():
    assert list(CATALOG) == [f"{paper}-{figure}" for paper, figures in WANTED.items() for figure in figures]
    assert set(PAPERS) == set(WANTED)


@pytest.mark.parametrize("experiment", CATALOG.values(), ids=list(CATALOG))
def test_its_claims_can_be_checked_on_a_quick_run_and_on_a_whole_one(experiment):
    """Every line, place and panel that a claim looks at is among the cells: else the check raises."""
    for quick in (True, False):
        made = Results.of((cell, 1.0 + number % 11) for number, cell in enumerate(experiment.cells(2, quick)))
        for claim in experiment.claims:
            assert claim.check(made).figure
        assert len({(cell.panel, cell.line, cell.x, cell.seed) for cell in experiment.cells(2, quick)}) == len(made.values)
    assert experiment.claims and experiment.setting and experiment.lines


def test_the_page_of_claims_has_each_of_them_and_the_reason_of_each_that_does_not_hold():
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert [(name.strip("| `"), claim) for name, claim, *_ in rows] == [
        (name, claim.text) for name, one in CATALOG.items() for claim in one.claims
    ]
    assert {verdict for *_, verdict, _ in rows} == {"yes", "no"}
    said = " ".join(page.split())
    for number, claim in enumerate(claim for one in CATALOG.values() for claim in one.claims):
        assert rows[number][2] == "yes" or (claim.because and claim.because in said), claim.text


def first_cells(experiment: Experiment) -> list[float]:
    """Each line at the first place of each panel, in a quick run."""
    found = []
    for panel in experiment.panels:
        x = experiment.places(panel, quick=True)[0]
        cells = [cell for cell in experiment.cells(1, quick=True) if (cell.panel, cell.x) == (panel, x)]
        found += [experiment.play(cell) for cell in cells]
    return found


@pytest.mark.wide
@pytest.mark.parametrize("name", [name for name in CATALOG if name not in MEASURED])
def test_its_cells_can_be_played(name, monkeypatch):
    if "PENSTOCK_DATA" not in os.environ and SHARED.is_dir():
        monkeypatch.setenv("PENSTOCK_DATA", str(SHARED))
    if lacking(CATALOG[name]):
        pytest.skip(lacking(CATALOG[name]))
    found = first_cells(CATALOG[name])
    assert all(value >= 0 for value in found if math.isfinite(value)) and any(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_its_times_can_be_measured(name):
    assert all(value >= 0 for value in first_cells(CATALOG[name]))


@pytest.mark.parametrize("name", EXACT)
def test_what_the_cost_model_says_is_what_the_paper_says(name):
    """But for the panel of Figure 3(b) that counts what the algorithms do, which is explained."""
    made = Results.of((cell, CATALOG[name].play(cell)) for cell in CATALOG[name].cells(1, quick=False))
    broken = [claim for claim in CATALOG[name].claims if not claim.check(made).holds]
    assert all("what they do" in claim.text and claim.because for claim in broken)


def test_the_same_cell_is_the_same_number():
    for name in ("das-fig07", "ojewole-fig09", "kwon-fig06"):
        cells = [cell for cell in CATALOG[name].cells(1, quick=True) if cell.line == CATALOG[name].lines[-1]][:2]
        assert [CATALOG[name].play(cell) for cell in cells] == [CATALOG[name].play(cell) for cell in reversed(cells)][::-1]
        assert CATALOG[name].play(cells[1]) != CATALOG[name].play(replace(cells[1], seed=1))


@pytest.mark.parametrize("half", (1, 2, 9))
def test_memory_states_and_the_flow_find_one_value(half):
    assert solve("odja", 1, 300, 10, half) == solve("esja", 1, 300, 10, half) > 0


def test_wrong_probabilities_are_those_of_other_keys():
    trace = streams(500, seed=3, keys=20)
    right, wrong = mixed(trace, 0.0, 3), mixed(trace, 1.0, 3)
    for name in trace.streams:
        assert sorted(rate for (own, _), rate in right.items() if own == name) == pytest.approx(
            sorted(rate for (own, _), rate in wrong.items() if own == name)
        )
    assert right != wrong
    half = mixed(trace, 0.5, 3)
    assert all(half[key] == pytest.approx((right[key] + wrong[key]) / 2) for key in right)
