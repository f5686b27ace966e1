"""Beyond the papers: wrong and stale probabilities (Das 4.2), and policies and memories of ours beside those of the papers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from penstock.core.trace import Trace
from penstock.experiments.catalog.das_windows import MEMORIES, MEMORY
from penstock.experiments.catalog.ojewole_online import special
from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.checks import at_least, falls
from penstock.experiments.cells.experiment import Claim, Experiment, Outcome
from penstock.experiments.cells.joins import streams, value
from penstock.experiments.cells.results import Results
from penstock.generator.generate import generate
from penstock.optimum.optimum import optimum
from penstock.simulator.simulate import exact, simulate

_N, _WINDOW = 8000, 400
_SETTING = "8,000 tuples of each stream, one per tick, Zipf(1), 50 keys; window and memory of 400; equal parts of memory"
_START = 2 * _WINDOW


def _wrong(cell: Cell) -> float:
    trace = streams(_N, seed=cell.seed)
    common: dict[str, Any] = {"window": _WINDOW, "memory": _WINDOW, "allocation": "fixed", "objective": "count", "start": _START}
    if cell.line == "opt":
        return optimum(trace, **common).value
    if cell.line in ("learned", "rand"):
        return simulate(trace, policy=cell.line, seed=cell.seed, **common).value
    table = mixed(trace, float(cell.x), cell.seed)
    return simulate(trace, policy=cell.line, stats="given", given=table, seed=cell.seed, **common).value


def mixed(trace: Trace, wrong: float, seed: int) -> dict[tuple[str, Any], float]:
    """The probabilities of the whole stream, so far moved towards those of keys drawn by chance.

    >>> from penstock.generator.generate import generate
    >>> table = mixed(generate(100, keys=3, seed=1), 0.0, 0)
    >>> round(sum(rate for (stream, _), rate in table.items() if stream == "R"), 6)
    1.0
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(9,)))
    found: dict[tuple[str, Any], float] = {}
    ticks = int(trace.time.max()) + 1
    for number, name in enumerate(trace.streams):
        keys, counts = np.unique(np.asarray(trace.table["key"])[trace.stream == number], return_counts=True)
        rates = counts / ticks
        rates = (1 - wrong) * rates + wrong * rng.permutation(rates)
        found |= {(name, key): rate for key, rate in zip(keys.tolist(), rates.tolist(), strict=True)}
    return found


@lru_cache(maxsize=2)
def _drifting(seed: int, period: int) -> Trace:
    """Streams in which other keys become frequent every so many ticks, of the same fifty."""
    parts = [generate(period, seed=1000 * seed + at) for at in range(-(-_N // period))]
    columns = {
        "stream": np.concatenate([np.array(one.streams)[one.stream] for one in parts]),
        "time": np.concatenate([one.time + at * period for at, one in enumerate(parts)]),
        "key": np.concatenate([np.asarray(one.table["key"]) for one in parts]),
    }
    return Trace(columns, streams=("R", "S"))


def _stale(cell: Cell) -> float:
    trace = _drifting(cell.seed, 2000)
    common: dict[str, Any] = {"window": _WINDOW, "memory": _WINDOW, "allocation": "fixed", "objective": "count", "start": _START}
    if cell.line == "opt":
        return optimum(trace, **common).value
    half_life = float(cell.x) * _WINDOW
    return simulate(trace, policy=cell.line, half_life=half_life, seed=cell.seed, **common).value


def _beside(cell: Cell) -> float:
    trace, memory = streams(5600, seed=cell.seed), round(_WINDOW * float(cell.x))
    return value(trace, cell.line, window=_WINDOW, memory=memory, start=_START, stats="decayed", seed=cell.seed)


def _valued(cell: Cell) -> float:
    trace, memory = special(cell.seed), round(_WINDOW * float(cell.x))
    return value(trace, cell.line, window=_WINDOW, memory=memory, start=_START, stats="decayed", objective="min", seed=cell.seed)


def _shared(cell: Cell) -> float:
    n = int(cell.x)
    names = ("R", "S", "T", "U", "V")[:n]
    trace = generate(4000, streams=names, keys=200, rate=[1.0] + [0.25] * (n - 1), seed=cell.seed)
    policy, _, kind = cell.line.partition(", ")
    rows = round(0.2 * exact(trace, window=_WINDOW).peak_memory)
    allocation = "variable" if kind == "one memory" else "fixed"
    return simulate(trace, window=_WINDOW, memory=rows, policy=policy, allocation=allocation, objective="count", seed=cell.seed).value


def _forgets(results: Results) -> Outcome:
    slow, quick = (results.mean("prob", x) / results.mean("opt", x) for x in (64.0, 1.0))
    return Outcome(slow <= 0.95 * quick, f"of the optimum {slow:.3f} with 64 windows, {quick:.3f} with one")


EXPERIMENTS = (
    Experiment(
        name="beyond-wrong",
        title="How policies suffer when probabilities are wrong",
        setting=f"{_SETTING}; probabilities are mixed with those of keys drawn by chance",
        play=_wrong,
        lines=("opt", "prob", "life", "elife", "learned", "rand"),
        xs=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        x="how wrong: 0 is the whole stream, 1 is nothing but chance",
        y="outputs, as a share of the optimum's",
        of="opt",
        claims=(
            Claim("PROB keeps less the more wrong its probabilities are.", falls("prob", slack=0.02)),
            Claim("Up to 40 % wrong, PROB is still better than RAND.", at_least("prob", 1.0, "rand", at=(0.0, 0.2, 0.4))),
            Claim(
                "LEARNED, which is told nothing, is better than PROB when that is all wrong.", at_least("learned", 1.0, "prob", at=(1.0,))
            ),
        ),
        changed="Das 4.2 says that estimates may be poor; no figure of the paper shows what that costs.",
    ),
    Experiment(
        name="beyond-stale",
        title="How policies suffer when probabilities are stale",
        setting=f"{_SETTING}; every five windows other keys become frequent; statistics decay with this half-life",
        play=_stale,
        lines=("opt", "prob", "life", "elife", "learned"),
        xs=(0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0),
        x="half-life, in windows",
        y="outputs, as a share of the optimum's",
        of="opt",
        logx=True,
        claims=(
            Claim("With statistics that hardly forget, PROB keeps at most 95 % of what it keeps with a half-life of one window.", _forgets),
            Claim(
                "LEARNED keeps at least 99 % of what PROB keeps, at the default half-life.", at_least("learned", 0.99, "prob", at=(1.0,))
            ),
        ),
        changed="Das 4.2 says that estimates may be old; no figure of the paper shows what that costs.",
    ),
    Experiment(
        name="beyond-policies",
        title="Policies of ours beside the papers': outputs",
        setting="the streams of Das, Figure 7; statistics know the past alone",
        play=_beside,
        lines=("exact", "opt", "optv", "autov", "learned", "elife", "prob", "life", "rand"),
        xs=MEMORIES,
        x=MEMORY,
        y="outputs",
        claims=(
            Claim("ELIFE keeps at least 99 % of what LIFE keeps.", at_least("elife", 0.99, "life")),
            Claim("LEARNED keeps at least 98 % of what PROB keeps.", at_least("learned", 0.98, "prob")),
            Claim("AUTO with one memory keeps at least 98 % of what LEARNED keeps.", at_least("autov", 0.98, "learned")),
        ),
    ),
    Experiment(
        name="beyond-importance",
        title="Policies of ours beside the papers': importance",
        setting="the streams of Ojewole, Figure 9; statistics know the past alone",
        play=_valued,
        lines=("exact", "opt", "autov", "learned", "dimpprob", "dgl", "simpprob", "prob", "simp"),
        xs=MEMORIES,
        x=MEMORY,
        y="importance of the outputs",
        claims=(
            Claim("LEARNED keeps at least 95 % of what DIMPPROB keeps.", at_least("learned", 0.95, "dimpprob")),
            Claim("AUTO keeps at least 95 % of what DGL keeps.", at_least("autov", 0.95, "dgl")),
        ),
    ),
    Experiment(
        name="beyond-shared",
        title="One memory for n streams, or equal parts",
        setting="4,000 ticks; the first stream four times as fast as each other; Zipf(1), 200 keys; a fifth of what the exact join holds",
        play=_shared,
        lines=("prob, one memory", "prob, equal parts", "learned, one memory", "learned, equal parts"),
        xs=(2, 3, 4, 5),
        x="streams",
        y="outputs",
        log=True,
        claims=(
            Claim(
                "One memory keeps at least 98 % of what equal parts keep: PROB.", at_least("prob, one memory", 0.98, "prob, equal parts")
            ),
            Claim(
                "One memory keeps at least 98 % of what equal parts keep: LEARNED.",
                at_least("learned, one memory", 0.98, "learned, equal parts"),
            ),
        ),
    ),
)
