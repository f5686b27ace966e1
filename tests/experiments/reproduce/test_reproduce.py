"""Cells are kept and not played again, a run goes on where it was stopped, and the report needs nothing beside it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import vl_convert as vlc

from penstock.experiments.catalog.table import CATALOG
from penstock.experiments.cells.results import Results
from penstock.experiments.reproduce import cell_store, chart, report, runner, verdicts

NAMES = ["golab-table5", "golab-fig03b", "das-fig04"]


class Quiet:
    """Hears how far a run is."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.done, self.most, self.said = 0, most, list[str]()

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        if self.done >= self.most:
            raise KeyboardInterrupt

    def say(self, label: str) -> None:
        self.said.append(label)


def made(folder: Path, **options: int) -> tuple[runner.CellsToPlay, cell_store.CellStore]:
    kept = cell_store.CellStore(folder)
    return runner.cells_to_play(NAMES, kept, seeds=2, quick=True), kept


def drawn(folder: Path, plan: runner.CellsToPlay, kept: cell_store.CellStore) -> str:
    found = runner.results(plan, kept)
    return report.write(folder, found, verdicts.verdicts(found), plan.absent, cell_store.versions(), quick=True).read_text(encoding="utf-8")


def test_an_interrupted_run_goes_on_and_gives_the_same_report(tmp_path):
    whole, kept = made(tmp_path / "whole")
    bar = Quiet()
    runner.run(whole, kept, spread=None, slots=1, bar=bar)
    assert bar.done == whole.n_missing == sum(map(len, whole.wanted.values())) and bar.said
    page = drawn(tmp_path / "whole", whole, kept)

    cut, kept = made(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        runner.run(cut, kept, spread=None, slots=1, bar=Quiet(most=1))
    (tmp_path / "cut" / "cells" / "das-fig04.abc.part").write_bytes(b"half of a file")
    rest, kept = made(tmp_path / "cut")
    assert 0 < rest.n_missing < whole.n_missing
    runner.run(rest, kept, spread=None, slots=1, bar=Quiet())
    again, kept = made(tmp_path / "cut")
    assert again.n_missing == 0
    assert drawn(tmp_path / "cut", again, kept) == page


def test_cells_of_another_version_are_played_again(tmp_path, monkeypatch):
    plan, kept = made(tmp_path)
    runner.run(plan, kept, spread=None, slots=1, bar=Quiet())
    assert made(tmp_path)[0].n_missing == 0
    monkeypatch.setattr(cell_store, "versions", lambda: "another")
    assert made(tmp_path)[0].n_missing == plan.n_missing


def test_a_damaged_file_is_played_again(tmp_path):
    plan, kept = made(tmp_path)
    runner.run(plan, kept, spread=None, slots=1, bar=Quiet())
    file = next((tmp_path / "cells").glob("golab-table5.*.parquet"))
    file.write_bytes(file.read_bytes()[:40])
    again, kept = made(tmp_path)
    assert again.n_missing and not again.missing["das-fig04"]


def test_cells_of_other_data_are_played_again(tmp_path, monkeypatch):
    folder = tmp_path / "web_http_1995"
    folder.mkdir()
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    (folder / "epa_http.parquet").write_bytes(b"one")
    before = cell_store.stamp("kwon-fig11")
    (folder / "epa_http.parquet").write_bytes(b"more")
    assert cell_store.stamp("kwon-fig11") != before and cell_store.stamp("das-fig04") == cell_store.versions()


def test_more_seeds_play_those_that_are_missing(tmp_path):
    plan, kept = made(tmp_path)
    runner.run(plan, kept, spread=None, slots=1, bar=Quiet())
    more = runner.cells_to_play(["das-fig04"], kept, seeds=3, quick=True)
    assert {cell.seed for cell in more.missing["das-fig04"]} == {2}


def test_what_is_spread_is_what_is_played_here(tmp_path):
    plan, kept = made(tmp_path / "here")
    runner.run(plan, kept, spread=None, slots=1, bar=Quiet())
    spread, apart = made(tmp_path / "spread")
    runner.run(spread, apart, spread=lambda work, pieces: [work(piece) for piece in pieces], slots=3, bar=Quiet())
    assert {name: kept.read(name) for name in NAMES} == {name: apart.read(name) for name in NAMES}


def test_what_lacks_data_is_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.delenv("PENSTOCK_DATA", raising=False)
    plan = runner.cells_to_play(["das-fig12", "golab-table5"], cell_store.CellStore(tmp_path), seeds=1, quick=True)
    assert list(plan.wanted) == ["golab-table5"]
    assert plan.absent == {"das-fig12": "needs real data (isd_weather_1929_1930, nyc_green_taxi): PENSTOCK_DATA names no folder"}
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    assert "is not in" in runner.lacking(CATALOG["das-fig12"])


def test_shares_that_are_close_are_told_apart_on_the_axis():
    experiment = CATALOG["das-fig04"]
    shares = {"adg": 0.996, "optimal": 1.0}
    played = Results.of((cell, shares[cell.line]) for cell in experiment.cells(2, quick=True))
    svg = vlc.vegalite_to_svg(chart.charts(experiment, played)[""].to_dict())
    labels = re.findall(r">([\d.]+%)<", svg)
    assert len(labels) > 2 and len(set(labels)) == len(labels)


def test_the_report_needs_nothing_beside_it_and_suits_light_and_dark(tmp_path):
    plan, kept = made(tmp_path)
    runner.run(plan, kept, spread=None, slots=1, bar=Quiet())
    page = drawn(tmp_path, plan, kept)
    assert not re.search(r'(src|href)="(?!#|data:)', page) and "<script" not in page and "@import" not in page
    assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page
    pictures = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(pictures) == sum(len(CATALOG[name].panels) for name in NAMES)
    names = []
    for picture in pictures:
        ElementTree.fromstring(picture)
        assert "currentColor" in picture and "#333333" not in picture and 'fill="white"' not in picture
        names += re.findall(r'\bid="([^"]+)"', picture)
        assert set(re.findall(r"url\(#([^)]+)\)", picture)) <= set(names)
    assert len(set(names)) == len(names)
    for name in NAMES:
        assert f'id="{name}"' in page
        assert (tmp_path / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG" and (
            tmp_path / "figures" / f"{name}.svg"
        ).stat().st_size
    found = verdicts.verdicts(runner.results(plan, kept))
    assert page.count('class="verdict') == len(found)
    table = verdicts.page(found, "versions", {"das-fig12": "needs data"})
    assert table.count("\n| `") == len(found) and "* `das-fig12` needs data." in table
    said = " ".join(table.split())
    assert all(one.because in said for one in found if not one.holds)
