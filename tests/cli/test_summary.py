"""What a pipeline says at its end: its life, and the command that gets back what it owes."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.summary import summary
from penstock.ledger.ledger import Ledger, find
from penstock.ledger.settled_marks import Mark
from penstock.pipeline.recipe import Recipe, changed, check_recipe
from recipes import FILES, GOOD
from shards import plan_of

EVENT = {
    "n_input": 50, "n_output": 20, "total_n_input": 1200, "total_n_output": 900, "total_n_shed": 300, "total_n_late": 0,
    "total_lost": 100.0, "total_lost_is_exact": True, "total_recall": 0.9, "total_recall_low": 0.9, "total_recall_high": 0.9,
}  # fmt: skip
LIFE = "in the life of the query: recall 90.0 %, 900 joined rows made, 100 lost, 300 of 1,200 tuples shed"


def recipe(**changes: Any) -> Recipe:
    return check_recipe(changed(GOOD | FILES, {name.replace("__", "."): value for name, value in changes.items()}))


def test_a_run_its_life_and_what_is_owed():
    lines = summary(recipe(join__archive="my ledger", sink__path="out/joined/"), [EVENT, EVENT])
    assert lines == [
        "2 batches: 100 rows in and 40 joined rows out in out/joined/",
        LIFE,
        "100 outputs are owed; to get them: penstock settle 'my ledger' --checkpoint state --to out/joined-settled",
    ]


def test_without_an_archive_there_is_nothing_to_settle_from_and_without_a_loss_nothing_to_say():
    assert "cannot be made up for" in summary(recipe(), [EVENT])[-1]
    whole = EVENT | {"total_lost": 0.0, "total_recall": 1.0, "total_n_late": 3}
    (first, life) = summary(recipe(), [whole])
    assert first.startswith("1 batch: 50 rows in")
    assert life.endswith("recall 100.0 %, 900 joined rows made, 0 lost, 300 of 1,200 tuples shed, 3 late")
    assert summary(recipe(), [whole | {"total_n_done": 70}])[1].endswith("tuples shed, 70 done, as promised, 3 late")
    assert summary(recipe(), []) == ["nothing new in the sources since the checkpoint in state"]


def test_an_estimate_says_so():
    guess = {"total_lost_is_exact": False, "total_recall_low": 0.85, "total_recall_high": 0.95}
    lines = summary(recipe(join__archive="a"), [EVENT | guess])
    assert "recall 90.0 % (between 85.0 and 95.0 %)" in lines[1] and "about 100 lost" in lines[1]
    assert lines[2].startswith("about 100 outputs are owed")


@pytest.mark.parametrize(("rows", "said"), ((60, "40 outputs are owed"), (100, "nothing is owed: what was lost has been settled")))
def test_what_has_been_settled_is_not_owed(tmp_path, rows, said):
    archive, checkpoint = tmp_path / "ledger", tmp_path / "state"
    Ledger(archive, plan_of((8, 8)), "q1")
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id":"q1"}')
    Mark(-1, 3, "file:///settled", rows, [], []).write(find(archive))
    (line,) = summary(recipe(join__archive=str(archive), sink__checkpoint=str(checkpoint)), [EVENT])[2:]
    assert line.startswith(said)


@pytest.mark.parametrize("stopped", (False, True))
def test_a_run_without_a_batch_still_says_what_earlier_ones_owe(tmp_path, stopped):
    archive, checkpoint = tmp_path / "ledger", tmp_path / "state"
    Ledger(archive, plan_of((8, 8)), "q1")
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"q1"}')
    made = recipe(join__archive=str(archive), sink__checkpoint=str(checkpoint))
    first = [] if stopped else [f"nothing new in the sources since the checkpoint in {checkpoint}"]
    assert summary(made, [], stopped=stopped) == first
    for batch in range(6):
        (checkpoint / "commits" / str(batch)).touch()
    command = f"penstock settle {archive} --checkpoint {checkpoint}"
    assert summary(made, [], stopped=stopped) == [
        *first,
        f"what batches 0 to 5 owe has not been settled; to count it: {command} --debt; to get it: {command} --to out-settled",
    ]
    Mark(-1, 3, "file:///settled", 60, [], []).write(find(archive))
    assert summary(made, [], stopped=stopped)[-1].startswith("what batches 4 to 5 owe has not been settled")
    Mark(3, 5, "file:///settled", 0, [], []).write(find(archive))
    assert summary(made, [], stopped=stopped) == first
    assert summary(recipe(join__archive=str(tmp_path / "none"), sink__checkpoint=str(checkpoint)), [], stopped=stopped) == first
