"""`penstock reproduce`: a list, experiments by name, and clear errors."""

from __future__ import annotations

import json

import pytest

from penstock.cli import run
from penstock.experiments.catalog.table import CATALOG


def test_the_list_has_every_experiment_with_its_claims(capsys):
    assert run(["reproduce", "list", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == list(CATALOG)
    assert all(one["setting"] and one["claims"] for one in listed)
    assert run(["reproduce", "list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in CATALOG)


def test_an_experiment_by_its_name(tmp_path, capsys):
    out, page = tmp_path / "made", tmp_path / "claims.md"
    command = ["reproduce", "golab-table5", "golab-fig02", "--here", "--out", str(out), "--page", str(page)]
    assert run([*command, "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["report"] == str(out / "report.html") and (out / "report.html").is_file()
    assert len(said["claims"]) == 7 and all(one["holds"] for one in said["claims"])
    assert page.read_text().count("\n| `golab-") == 7
    assert run(command) == 0
    printed = capsys.readouterr()
    assert "7 of 7 claims of the papers hold" in printed.out and "are in" in printed.err


def test_a_quick_run_may_come_before_the_names(tmp_path, capsys):
    assert run(["reproduce", "--quick", "golab-table5", "--here", "--out", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["claims"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    (
        ("golab-tabel5", "did you mean 'golab-table5'?"),
        ("all golab-tabel5", "did you mean 'golab-table5'?"),
        ("golab-table5 --seeds 0", "--seeds must be"),
        ("golab-table5 --seeds 12", "--seeds must be at most 11, got 12"),
        ("golab-table5 --page claims.txt", "--page must be a file that ends in .md"),
        ("golab-table5 --out /dev/null/x", "--out must be a folder that can be written to, got '/dev/null/x'"),
    ),
)
def test_bad_input_is_refused_in_a_sentence(options, sentence, capsys):
    assert run(["reproduce", *options.split()]) == 2
    assert sentence in capsys.readouterr().err


def test_only_data_that_is_not_there_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("PENSTOCK_DATA", raising=False)
    assert run(["reproduce", "kwon-fig11", "--out", str(tmp_path)]) == 2
    assert "none of the experiments named can be played here" in capsys.readouterr().err


def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    from penstock.experiments.reproduce import runner

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", stopped)
    assert run(["reproduce", "golab-table5", "--here", "--out", str(tmp_path)]) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
