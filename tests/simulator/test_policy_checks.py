"""`ps.check_policy`: what every policy keeps, and what it says of those that do not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind
from penstock.simulator.policy_checks import CHECKS, SETTINGS, Trial, has_one_meaning, keeps_to_the_budget
from strategies import COMPILED, later


class Productive(ps.Policy):
    """The example of the README."""

    name = "productive"

    def score(self, view: ps.View) -> Any:
        return view.produced + view.remaining / 1000


class Moody(ps.Policy):
    """Looks at past outputs, keeps a state in itself and a number per tuple."""

    name = "moody"

    def __init__(self) -> None:
        self.mood = 0

    def score(self, view: ps.View) -> Any:
        self.mood += len(view.outputs)
        view.memo[view.new] = self.mood % 5
        return view.produced + (view.memo + view.row * self.mood) % 7


class Fickle(ps.Policy):
    """Draws from what nobody seeds."""

    name = "fickle"
    drawn = itertools.count()

    def score(self, view: ps.View) -> Any:
        return np.random.default_rng(next(self.drawn)).random(len(view))


class Forgetful(ps.Policy):
    """Remembers what it does not keep."""

    name = "forgetful"

    def __init__(self) -> None:
        self.calls = 0

    def score(self, view: ps.View) -> Any:
        self.calls += 1
        return (view.row * self.calls) % 11

    def snapshot(self) -> dict[str, Any]:
        return {}


class TwoFaced(ps.Policy):
    """Says one thing and has another compiled."""

    name = "two-faced"

    def score(self, view: ps.View) -> Any:
        return view.importance

    def ranking(self, problem: Any) -> Ranking:
        return Ranking(Kind.ARRIVAL)


class Short:
    """No policy of ours: an object with a score, and that is wrong."""

    def score(self, view: ps.View) -> Any:
        return view.importance[1:]


OWN = {"the README's": Productive, "with a state": Moody}
MAKERS = {name: lambda name=name: name for name in ps.POLICIES} | OWN
compiled_only = pytest.mark.skipif(not COMPILED, reason="all checks in all settings take minutes without compilation")
# Without compilation every second setting must do.
SOME = list(SETTINGS) if COMPILED else list(SETTINGS)[1::2]
# Each check has every second setting in `make test`, in turn, and one step by step.
CASES = [
    (check, setting, stepwise)
    if not COMPILED or (setting == "late" if stepwise else number % 2 == turn % 2)
    else later(check, setting, stepwise)
    for turn, check in enumerate(CHECKS)
    for number, setting in enumerate(SOME)
    for stepwise in ((False, True) if COMPILED else (False,))
    if not (check is has_one_meaning and stepwise)  # plays both forms
    if not (check is keeps_to_the_budget and setting not in ("plain", "late"))  # plays seven budgets
]


@pytest.mark.wide
@pytest.mark.parametrize(("check", "setting", "stepwise"), CASES, ids=lambda one: getattr(one, "__name__", str(one)))
@pytest.mark.parametrize("policy", MAKERS)
def test_every_policy_keeps_the_contract(check, policy, setting, stepwise):
    ticks = 32 if COMPILED else 16
    assert check(Trial(MAKERS[policy], setting, stepwise, ticks)) is None


@compiled_only
def test_the_report_is_a_sentence_per_check():
    report = ps.check_policy(Moody())
    assert report.ok and len(report.findings) == len(CHECKS)
    lines = str(report).splitlines()
    assert lines[0] == "moody: all checks hold" and lines[-1].startswith("  holds   ") and len(lines) == 1 + len(CHECKS)


@compiled_only
@pytest.mark.parametrize(
    ("policy", "broken", "said"),
    (
        later(
            Fickle,
            {"The same seed gives the same run.", "Cutting the input into batches changes nothing."},
            "seeded by `view.problem.seed`",
        ),
        (Forgetful, {"A snapshot that is restored goes on as if nothing had happened."}, "must be in `snapshot` and `restore`"),
        later(TwoFaced, {"The compiled form, where there is one, does what `score` says."}, "`ranking` and `score` differ over"),
        (Short, {"It plays: one score for every candidate, and no error."}, "must return one number per candidate"),
    ),
)
def test_what_a_policy_does_not_keep_is_named(policy, broken, said):
    report = ps.check_policy(policy())
    assert not report.ok
    assert broken <= {finding.check for finding in report.findings if not finding.holds}
    assert said in str(report)


@pytest.mark.slow
@compiled_only
def test_a_policy_that_is_refused_for_a_setting_is_tried_in_the_others():
    report = ps.check_policy("life")
    assert report.ok and not report.undefined

    class NoRows(ps.Policy):
        name = "no-rows"

        def check(self, problem: Any) -> None:
            if any(window.kind == "rows" for window in problem.windows):
                raise ps.PenstockError("policy 'no-rows' wants a window of time")

        def score(self, view: ps.View) -> Any:
            return view.time

    report = ps.check_policy(NoRows)
    assert report.ok and list(report.undefined) == ["counted in rows"]
    assert "refused counted in rows: policy 'no-rows' wants a window of time" in str(report)


def test_what_is_no_policy_is_refused():
    with pytest.raises(ps.PenstockError, match="policy must be"):
        ps.check_policy("porb")
