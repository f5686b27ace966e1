"""`ps.truncate` and `penstock static` on histograms: budgets, what is said, and bad input."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import penstock as ps
from penstock.cli import run
from penstock.static import limit
from penstock.static.keep_plan import METHODS

shares = st.floats(0, 1)


def outputs_of(kept):
    return sum(int(a) * int(b) for a, b in zip(*kept, strict=True))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=5), shares, st.sampled_from(sorted(METHODS)))
@example([(0, 3), (2, 0)], 1.0, "adg")
def test_keep_and_drop_are_two_names_of_one_plan_that_keeps_as_many_as_it_may(keys, share, method):
    a, b = ([key[place] for key in keys] for place in (0, 1))
    sizes = [sum(a), sum(b)]
    keep = [round(share * size) for size in sizes] if method.startswith("ndg") else round(share * sum(sizes))
    drop = [size - k for size, k in zip(sizes, keep, strict=True)] if isinstance(keep, list) else sum(sizes) - keep
    one, two = ps.truncate((a, b), keep=keep, method=method), ps.truncate((a, b), drop=drop, method=method)
    assert [row.tolist() for row in one.relations.values()] == [row.tolist() for row in two.relations.values()]
    kept = list(one.n_kept.values())
    assert kept == keep if isinstance(keep, list) else sum(kept) == keep
    assert one.n_output == outputs_of(one.relations.values()) and one.n_exact == outputs_of((a, b)) == one.n_output + one.n_lost


def test_histograms_by_key_match_equal_keys_only_and_nulls_never():
    done = ps.truncate({"R": {"a": 2, None: 5, "b": 1}, "S": {"b": 3, None: 4, "c": 9}}, keep=4)
    assert done.n_exact == done.n_output == 3
    assert done.relations == {"R": {"b": 1}, "S": {"b": 3}}
    more = ps.truncate({"R": {"a": 2, None: 5, "b": 1}, "S": {"b": 3, None: 4, "c": 9}}, keep=20)
    assert more.relations == {"R": {"a": 2, None: 5, "b": 1}, "S": {"b": 3, "c": 9}}  # nulls last


@pytest.mark.parametrize(("asked", "kept", "said"), (
    ({"keep": 100}, 10, "keep asks for 100 of 10 tuples: all are kept, nothing is lost"),
    ({"keep": [9, 2]}, 8, "keep asks for 9 tuples of A, which has 6: all are kept"),
    ({"drop": 11}, 0, "drop asks for 11 of 10 tuples: none is kept"),
    ({"drop": {"A": 7, "B": 0}}, 4, "drop asks for 7 tuples of A, which has 6: none is kept"),
    ({"keep": 0}, 0, ""), ({"keep": (0, 0)}, 0, ""), ({"drop": 0}, 10, ""), ({"keep": 10}, 10, ""),
))  # fmt: skip
def test_more_than_there_is_means_all_and_is_said(asked, kept, said):
    done = ps.truncate(([3, 3], [2, 2]), **asked)
    assert sum(done.n_kept.values()) == kept and done.note == said
    assert done.n_output == (12 if kept == 10 else 6 * (kept == 8))
    assert done.summary().get("note", "") == said


@pytest.mark.parametrize(("arguments", "message"), (
    ({"keep": 1, "drop": 1}, "keep= or drop=, got both"),
    ({}, "got neither"),
    ({"keep": -1}, "keep must be a whole number of tuples >= 0, or one for each relation, got -1"),
    ({"keep": 2.5}, "got 2.5"),
    ({"keep": True}, "got True"),
    ({"keep": "many"}, "got 'many'"),
    ({"drop": [1, -2]}, "drop must be a whole number"),
    ({"keep": [1, 2, 3]}, "keep must be one number, or 2 for the relations A, B, got 3"),
    ({"keep": {"A": 1}}, "keep must have a number for each of A, B, got A"),
    ({"keep": 1, "method": "agd"}, "did you mean 'adg'"),
    ({"keep": 1, "method": "ndg"}, '"adg" or "optimal"'),
    ({"keep": [1, 1], "method": "adg"}, '"ndg" or "optimal"'),
    ({"keep": 1, "on": "k"}, "on is for DataFrames"),
))  # fmt: skip
def test_bad_budgets_and_methods_are_refused(arguments, message):
    with pytest.raises(ps.PenstockError, match="(?s).*" + message.replace("(", r"\(").replace("*", r"\*")):
        ps.truncate(([1, 2], [2, 1]), **arguments)


@pytest.mark.parametrize(("relations", "message"), (
    (([1, 2],), "two or more"),
    (7, "two or more"),
    (([1, 2], [1]), "lengths 2, 1"),
    (([1, 2], [1, -1]), "whole numbers >= 0, got -1"),
    (([1, 2], [0.5, 1]), "relation B must be"),
    (({"a": 1}, [1]), "some of each"),
    (({"a": 1}, {1: 1}), "same type in all relations, got number and str"),
    (({"a": 1.5}, {"a": 1}), "got 1.5"),
    (([2**40], [2**40]), "fewer than 2\\*\\*62 outputs"),
    (([[1], [2]], [[1], [2]]), "relation A must be"),
))  # fmt: skip
def test_bad_relations_are_refused(relations, message):
    with pytest.raises(ps.PenstockError, match=message):
        ps.truncate(relations, keep=1)


def test_more_than_two_relations_have_the_greedy_method_only():
    table = {"A": [1, 2], "B": [2, 1], "C": [1, 1]}
    done = ps.truncate(table, keep=[1, 1, 1])
    assert done.method == "ndg" and done.n_exact == 4 and "3 times" in done.bound
    with pytest.raises(ps.PenstockError, match="number for each of the 3 relations"):
        ps.truncate(table, keep=3)
    with pytest.raises(ps.PenstockError, match='"ndg" or "ndg-independent" for 3 relations'):
        ps.truncate(table, keep=[1, 1, 1], method="optimal")


def test_what_would_not_fit_is_refused_and_the_method_that_would_do_is_named(monkeypatch):
    random = np.random.default_rng(0)
    table = random.integers(1, 30, (2, 60))
    said = []
    ps.truncate(table, keep=(200, 200), method="optimal", say=said.append)
    assert len(said) == 1 and "keys are open" in said[0] and "cells each" in said[0]
    monkeypatch.setattr(limit, "MOST_BYTES", 1000)
    with pytest.raises(ps.PenstockError, match=r'would need too much here.*method "ndg" will do'):
        ps.truncate(table, keep=(200, 200), method="optimal")
    with pytest.raises(ps.PenstockError, match=r'would need too much here.*method "adg" will do'):
        ps.truncate(table, keep=400, method="optimal")
    assert ps.truncate(table, keep=(200, 200)).method == "ndg"
    assert ps.truncate(table, keep=400).method == "adg"


def test_a_huge_problem_is_refused_at_once():
    keys = np.arange(1, 3001)
    with pytest.raises(ps.PenstockError, match='"ndg" will do'):
        ps.truncate((10**6 + keys % 7, 10**6 + keys % 11), keep=(10**8, 10**8), method="optimal")


# -------------------------------------------------------------------------------------------------------- command line


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("zone,A,B\nx,2,10\ny,3,3\nz,0,4\n")
    return path


def test_counts_from_a_file_and_what_is_kept_to_another(capsys, table, tmp_path):
    out, picture = tmp_path / "kept.csv", tmp_path / "curve.svg"
    assert run(["static", str(table), "--keep", "6", "--format", "json", "--out", str(out), "--plot", str(picture)]) == 0
    said = capsys.readouterr()
    figures = json.loads(said.out)
    assert figures["n_output"] == 9 and figures["n_exact"] == 29 and figures["method"] == "optimal" and figures["n_lost"] == 20
    assert list(csv.reader(out.read_text().splitlines())) == [["zone", "A", "B"], ["x", "0", "0"], ["y", "3", "3"], ["z", "0", "0"]]
    assert "What a truncated join keeps" in picture.read_text()
    assert run(["static", str(table), "--drop", "A=3,B=14", "--method", "ndg"]) == 0
    assert "loses at most twice" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "message"), (
    (["--keep", "-1"], "--keep must be a whole number >= 0, got '-1'"),
    (["--keep", "1", "--drop", "1"], "got both"),
    ([], "got neither"),
    (["--keep", "1", "--method", "best"], "method must be one of"),
    (["--keep", "1", "--on", "zoo"], "--on must name columns of"),
    (["--keep", "1", "--on", "A"], "counts must be whole numbers"),
    (["--keep", "A=1,B"], "must read like A=1,B=2"),
    (["--keep", "C=1"], "keep must have a number for each of A, B, got C"),
    (["--keep", "1", "--time", "t"], "belong together"),
    (["--keep", "1", "--plot", "x.gif"], "--plot must be a file that ends in"),
    (["--keep", "1", "--out", "kept"], "--out must be a file that ends in"),
))  # fmt: skip
def test_bad_options_are_one_sentence_and_status_2(capsys, table, options, message):
    assert run(["static", str(table), *options]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1 and said.startswith("penstock: ")


def test_files_that_are_not_there_or_not_counts_are_refused(capsys, tmp_path):
    assert run(["static", str(tmp_path / "no.csv"), "--keep", "1"]) == 2
    assert run(["static", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--on", "k", "--keep", "1"]) == 2
    twice = tmp_path / "twice.csv"
    twice.write_text("k,A,B\nx,1,1\nx,2,2\n")
    assert run(["static", str(twice), "--keep", "1"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert "there is no file" in said[0] and "there is no file" in said[1] and "one row per key" in said[2]


STRANGE = {
    "a series": ([pd.Series(list("aaab")).value_counts(), pd.Series(list("abbb")).value_counts()], 6),
    "not a number": ([{np.nan: 3, 1.0: 1}, {float("nan"): 2, 1.0: 2}], 2),
    "one object that is not a number": ([{np.nan: 3}, {np.nan: 2}], 0),
    "no time": ([{pd.NaT: 2}, {pd.NaT: 2}], 0),
}


@pytest.mark.parametrize(("relations", "exact"), STRANGE.values(), ids=STRANGE)
def test_histograms_of_pandas_mean_what_they_say(relations, exact):
    assert ps.truncate(relations, keep=8).n_exact == exact


@pytest.mark.parametrize(
    ("relations", "said"),
    (
        ([dict.fromkeys(range(20), 2**59), {1: 1}], "fewer than 2\\*\\*60 tuples"),
        ([{None: -1}, {None: 1}], "relation A must have counts"),
        ({1: {"x": 1}, 2: {"x": 1}}, "relations must be called by texts, got 1"),
    ),
)
def test_counts_beyond_all_bounds_are_refused(relations, said):
    with pytest.raises(ps.PenstockError, match=said):
        ps.truncate(relations, keep=1)
