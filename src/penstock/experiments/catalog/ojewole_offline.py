"""Ojewole 5.1: the optimum by memory states (ODJA) and by flow (ESJA): what it is worth, how long it takes, how much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

from penstock.experiments.catalog.ojewole_online import CHANGED, special
from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.checks import all_rise, at_least, best, flat, gap_grows, lowest, rises
from penstock.experiments.cells.experiment import Claim, Experiment
from penstock.experiments.cells.joins import seconds, value
from penstock.optimum.optimum import optimum

_LENGTHS = (800, 1600, 2800, 4200, 5600)
_LIVES = (100, 200, 400, 800)
_FLOW = (
    "The paper solves Das's graph, with a node for each tuple and instant of its life. Our flow is over chains of matches, with "
    "about as many nodes as tuples and matches, and compiled; memory states are sets, in Python. So here the flow is the "
    "quicker one, and grows the less."
)
_LISTS = (
    "What memory states need beside the two instants is a list of all matches, in Python; the flow holds as many nodes and "
    "arcs, compiled. The states themselves are constant, as the paper has it."
)
_METHODS = {"odja": "states", "esja": "chain"}


def _kept(cell: Cell) -> float:
    memory, trace = 2 * int(cell.x), special(cell.seed)
    line = {"esja": "opt", "odja (in place)": "opt"}.get(cell.line, cell.line)
    model = "inplace" if cell.line == "odja (in place)" else "buffered"
    return value(trace, line, window=10, memory=memory, start=20, stats="window", objective="min", model=model, seed=cell.seed)


def solve(line: str, seed: int, n: int, window: int, half: int) -> float:
    """The value of the optimum by one of the two methods; of ODJA the value alone, which needs two instants in memory."""
    trace = special(seed, n=n)
    return optimum(
        trace,
        window=window,
        memory=2 * half,
        allocation="fixed",
        start=2 * window,
        objective="min",
        method=_METHODS[line],
        schedule=line != "odja",
    ).value


def _time(cell: Cell, *, by: str, large: bool) -> float:
    n, window = (int(cell.x), 400) if by == "n" else (5600, int(cell.x))
    solve(cell.line, 0, 100, 10, 1)  # what is imported and compiled is not timed
    special(cell.seed, n=n)
    return seconds(lambda: solve(cell.line, cell.seed, n, window, window - 1 if large else 1))


def _memory(cell: Cell) -> float:
    """Megabytes that another process takes at its peak beyond what it has after a small run."""
    code = (
        "import gc, json, pathlib, re, sys\nfrom penstock.experiments.catalog.ojewole_offline import solve\ndef size(name):\n "
        "return int(re.search(name + r':\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1]) / 1024\nline, seed, n = "
        "json.loads(sys.argv[1])\nsolve(line, seed, 500, 400, "
        "1)\ngc.collect()\npathlib.Path('/proc/self/clear_refs').write_text('5')\nbefore = size('VmRSS')\nsolve(line, seed, n, "
        "400, 1)\nprint(max(0.0, size('VmHWM') - before))\n"
    )
    said = json.dumps([cell.line, cell.seed, int(cell.x)])
    return float(subprocess.run([sys.executable, "-c", code, said], capture_output=True, text=True, check=True).stdout)


def _times(number: str, title: str, *, by: str, large: bool, claims: tuple[Claim, ...]) -> Experiment:
    xs = _LENGTHS if by == "n" else _LIVES
    return Experiment(
        name=f"ojewole-fig{number}",
        title=title,
        setting=f"Zipf(1) and uniform, 100 keys; memory of each stream: {'the window less 1' if large else '1'}; "
        + ("window of 400" if by == "n" else "5,600 tuples of each stream"),
        play=partial(_time, by=by, large=large),
        lines=tuple(_METHODS),
        xs=xs,
        quick=(xs[0], xs[-2]) if large else (xs[0], xs[-1]),
        x="tuples of each stream" if by == "n" else "lifetime of tuples",
        y="seconds of the processor",
        timed=True,
        most_seeds=3,
        log=True,
        claims=claims,
        changed=f"{CHANGED} {_FLOW}",
    )


_SMALLEST = Claim("ODJA takes less time than ESJA in the smallest memory.", at_least("esja", 1.0, "odja"), _FLOW)
_LEAD = Claim("The lead of ODJA grows along the figure.", gap_grows("esja", "odja"), _FLOW)

EXPERIMENTS = (
    Experiment(
        name="ojewole-fig02",
        title="Importance by memory, offline",
        setting="5,600 tuples of each stream; Zipf(1) and uniform, 100 keys; lifetime of 10",
        play=_kept,
        lines=("exact", "esja", "odja (in place)", "sja", "rand"),
        xs=(1, 2, 3, 4, 5),
        x="memory of each stream",
        y="importance of the outputs",
        claims=(
            Claim("ODJA and ESJA have the largest importance of all.", best("esja", ("esja", "sja", "rand"))),
            Claim(
                "SJA, which maximises outputs, is below it in small memories.",
                at_least("esja", 1.05, "sja", at=(1, 2)),
                "With keys that are special in a twenty-fifth of the tuples nearly every pair is worth 1, and most outputs is "
                "nearly most importance.",
            ),
            Claim("RAND is the lowest.", lowest("rand", ("esja", "sja", "rand"))),
            Claim("With memory for five of ten, the optimum misses 1 %.", at_least("esja", 0.985, "exact", at=(5,))),
            Claim("All rise with memory.", all_rise(("esja", "sja", "rand"))),
        ),
        changed=CHANGED + " ODJA as printed sheds before a tuple meets the partner of the same instant (in place); otherwise "
        "both are the same number.",
    ),
    _times("03", "Time of the optimum by length of the streams, memory 1", by="n", large=False, claims=(_SMALLEST, _LEAD)),
    _times("04", "Time of the optimum by lifetime, memory 1", by="w", large=False, claims=(_SMALLEST, _LEAD)),
    _times(
        "05",
        "Time of the optimum by length of the streams, memory w - 1",
        by="n",
        large=True,
        claims=(
            Claim(
                "Beyond 800 tuples ODJA takes less time than ESJA in the largest memory.",
                at_least("esja", 1.0, "odja", at=_LENGTHS[1:]),
                _FLOW,
            ),
            _LEAD,
        ),
    ),
    _times(
        "06",
        "Time of the optimum by lifetime, memory w - 1",
        by="w",
        large=True,
        claims=(
            Claim("ODJA takes less time than ESJA in the largest memory.", at_least("esja", 1.0, "odja"), _FLOW),
            Claim("ODJA gains on ESJA as lifetime shrinks.", gap_grows("odja", "esja")),
        ),
    ),
    Experiment(
        name="ojewole-fig07",
        title="Memory of the optimum by length of the streams",
        setting="Zipf(1) and uniform, 100 keys; window of 400; memory of each stream: 1",
        play=_memory,
        lines=tuple(_METHODS),
        xs=_LENGTHS,
        quick=(800, 5600),
        x="tuples of each stream",
        y="megabytes",
        timed=True,
        most_seeds=3,
        claims=(
            Claim("The memory of ESJA grows with the streams.", rises("esja")),
            Claim("The memory of ODJA hardly depends on the streams.", flat("odja", 0.5), _LISTS),
            Claim("ESJA needs 25 to 45 times the memory of ODJA.", at_least("esja", 25.0, "odja"), _LISTS),
        ),
        changed=f"{CHANGED} Memory is what a process takes beyond a small run, matches of the streams and all. {_FLOW}",
    ),
)
