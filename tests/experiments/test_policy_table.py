"""The table that judges every policy by the best and the optimum: what is counted, what is wanted, and how it is written."""

from __future__ import annotations

import json

import pytest

import penstock as ps
from penstock.cli import run as command_line
from penstock.core.tables import read_table
from penstock.experiments import policy_table as experiment
from penstock.experiments.policy_chart import shares_of_optimum
from penstock.experiments.policy_page import page
from penstock.experiments.policy_sets import SETS
from penstock.experiments.policy_table import JUDGED, PolicyPoint, PolicyRow

TINY = 0.004


def row(data: str = "orders", memory: float = 0.1, best: float = 100.0, optimum: float | None = 200.0, **values: float) -> PolicyRow:
    return PolicyRow(data, memory, {"ep-printed": 80.0, "dgl": 10.0, "prob": 1.0, JUDGED: best} | values, optimum)


def test_every_policy_is_played_and_none_beats_the_optimum():
    points = experiment.play("orders", 1, (0.1, 0.5), TINY)
    assert [point.policy for point in points] == [*ps.POLICIES, "ep-printed", "output-printed", "opt"] * 2
    for share in (0.1, 0.5):
        kept = {point.policy: point.value for point in points if point.memory == share}
        assert 0 < max(kept.values()) == kept["opt"]
        assert len({point.rows for point in points if point.memory == share}) == 1


def test_outputs_count_from_the_end_of_the_warm_up():
    trace, window = SETS["sessions"].make(0, TINY, None), SETS["sessions"].window
    points = {point.policy: point for point in experiment.play("sessions", 0, (0.25,), TINY)}
    span = int(trace.time.max() - trace.time.min()) + 1
    assert span < 10 * window  # so that two thirds are warm-up
    rows = round(0.25 * len(trace) * window / span)
    begin = int(trace.time.min()) + 2 * span // 3
    outputs = ps.simulate(trace, window=window, memory=rows, policy="fifo", keep=ps.Keep(outputs=True)).outputs
    assert outputs is not None
    assert points["fifo"].rows == rows
    assert points["fifo"].value == (outputs[:, 0] >= begin).sum() > 0


def test_ten_windows_of_a_long_trace_are_warm_up():
    trace = ps.generate(400, keys=5)
    assert experiment._start(trace, 20) == 200
    assert experiment._start(trace, 36) == 266


@pytest.mark.jit_only  # minutes without compilation
def test_more_than_two_streams_have_no_optimum():
    points = experiment.play("kwon", 0, (0.5,), 0.002)
    assert {point.policy for point in points} == {*ps.POLICIES, "ep-printed", "output-printed"}
    assert experiment.policy_rows(points)[0].optimum is None


def test_a_row_is_the_sum_over_parts():
    points = [
        PolicyPoint("orders", part, memory, 10, policy, value)
        for memory, part, policy, value in (
            (0.1, 0, "ep", 5.0), (0.1, 0, "opt", 9.0), (0.1, 1, "ep", 6.0), (0.1, 1, "opt", 8.0), (0.5, 0, "ep", 7.0),
        )
    ]  # fmt: skip
    assert experiment.policy_rows(points) == [PolicyRow("orders", 0.1, {"ep": 11.0}, 17.0), PolicyRow("orders", 0.5, {"ep": 7.0}, None)]


def test_quotients_are_to_the_best_of_all_and_nothing_of_nothing_is_all():
    assert (row().best, row().best_of_papers, row().quotient("ep-printed"), row().quotient(JUDGED)) == (JUDGED, "ep-printed", 0.8, 1.0)
    assert (row(elife=200.0).best, row(elife=200.0).best_of_papers, row(elife=200.0).quotient(JUDGED)) == ("elife", "ep-printed", 0.5)
    assert PolicyRow("orders", 0.1, {"ep": 0.0, JUDGED: 0.0}, 0.0).quotient(JUDGED) == 1.0


def test_targets_are_met_or_not_or_not_played():
    rows = [row(), row(memory=0.25), row("sessions", **{"ep-printed": 125.0})]
    found = experiment.wanted(rows)
    assert [target.verdict for target in found] == ["no", "no", "yes", "yes", "no"]
    assert [target.found for target in found] == pytest.approx([(1 + 1 + 0.8) / 3, 0.8, 10.0, 1.25, 0.5])
    assert [target.verdict for target in experiment.wanted([row("taxi")])] == ["yes", "yes", "not played", "not played", "not played"]


def test_the_page_has_a_line_per_row_and_says_what_is_met():
    rows = [row(), row(memory=0.25, optimum=None), row("taxi", **{"ep-printed": 125.0})]
    written = page(rows, parts=5, picture="table.png")
    assert "| orders: unique keys, a partner for 70 %, gamma delays (`orders`) | 10 % | `ep-printed` 80 | 1 | **100** |" in written
    assert "|  | 25 % | `ep-printed` 80 | 1 | **100** | 0.010 | 1.000 | 1.25 |  |" in written
    assert "| taxi | 10 % | 0.800 | 1.000 |" in written
    assert "| times `ep`, as printed, on orders at 10 % | 1.25 | 1.250 | yes |" in written
    assert "0.800 in the worst\n(taxi, 10 %, behind `ep-printed`)" in written
    assert "](table.png)" in written
    assert "msnbc.com" not in page(rows[:2], parts=2)  # nothing of real data where there is none


def test_the_picture_has_a_panel_per_data_set():
    sets = ("orders", "sessions", "taxi", "kwon", "drift")
    chart = shares_of_optimum([row(data, memory, optimum=None if data == "kwon" else 200.0) for data in sets for memory in (0.1, 0.5)])
    lines = chart.to_dict()["vconcat"]
    assert [len(line["hconcat"]) for line in lines] == [4, 1]
    assert "(share of the best)" in " ".join(lines[0]["hconcat"][3]["title"]["text"])
    with pytest.raises(ps.PenstockError, match="rows must be at least one"):
        shares_of_optimum([])


@pytest.mark.jit_only  # minutes without compilation
def test_the_table_from_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("PENSTOCK_DATA", raising=False)
    files = {"--csv": tmp_path / "runs.csv", "--page": tmp_path / "table.md", "--plot": tmp_path / "table.svg"}
    options = [text for option, file in files.items() for text in (option, str(file))]
    command = ["reproduce", "policies", "--quick", "--sets", "zipf,taxi", "--seeds", "1", "--jobs", "1"]
    assert command_line([*command, *options, "--format", "json"]) == 0
    said = capsys.readouterr()
    assert said.err == "note: taxi left out: PENSTOCK_DATA names no folder that has it\n"
    found = json.loads(said.out)
    assert found["judged"] == JUDGED
    assert [line["memory"] for line in found["rows"]] == list(experiment.MEMORIES)
    assert all(0 <= line["quotient"] <= 1 for line in found["rows"])
    runs = read_table(files["--csv"]).to_pylist()
    assert len(runs) == len(experiment.MEMORIES) * (len(ps.POLICIES) + 3)
    assert sum(run["value"] for run in runs if run["policy"] == "opt") == sum(line["optimum"] for line in found["rows"])
    assert "![share of the optimum against memory, by policy](table.svg)" in files["--page"].read_text()
    assert "<svg" in files["--plot"].read_text()


@pytest.mark.jit_only  # minutes without compilation
def test_processes_give_what_one_gives():
    one, two = (experiment.sweep(["zipf", "orders"], seeds=1, memories=(0.1,), scale=TINY, jobs=jobs) for jobs in (1, 2))
    assert one == two
    said: list[tuple[str, int]] = []
    experiment.sweep(["orders"], seeds=2, memories=(0.1,), scale=TINY, done=lambda label, points: said.append((label, len(points))))
    assert said == [("orders, part 1 of 2", len(ps.POLICIES) + 3), ("orders, part 2 of 2", 2 * len(ps.POLICIES) + 6)]


def test_the_table_for_people(capsys, monkeypatch):
    points = [PolicyPoint("orders", 0, 0.25, 10, policy, 5.0 + (policy == JUDGED)) for policy in (*ps.POLICIES, "opt")]
    monkeypatch.setattr(experiment, "sweep", lambda *_, **__: points)
    assert command_line(["reproduce", "policies", "--sets", "orders"]) == 0
    said = capsys.readouterr().out
    assert "best of the papers" in said
    assert f"{JUDGED}: 1.200 of the optimum on orders at 25 % (wanted 0.94): yes" in said
    assert "times dgl on sessions at 10 % (wanted 1.6): not played" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--sets order", "--sets must be one of"),
        ("--sets taxi", "--sets must be data sets that are there, such as orders,sessions, got taxi"),
        ("--sets orders --seeds 6", "seeds must be 1 to 5, the parts of a data set, got 6"),
        ("--seeds none", "--seeds must be a whole number"),
        ("--jobs 0", "--jobs must be"),
        ("--page table.html", "--page must be a file that ends in .md"),
        ("--csv a.txt", "--csv must be a file that ends in"),
    ],
)
def test_bad_options_are_named(options, message, capsys, monkeypatch):
    monkeypatch.delenv("PENSTOCK_DATA", raising=False)
    assert command_line(["reproduce", "policies", *options.split()]) == 2
    assert message in capsys.readouterr().err
