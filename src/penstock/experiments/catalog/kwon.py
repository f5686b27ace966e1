"""Kwon 5: shedding by the order in which keys visit the streams, of keys that come once."""

from __future__ import annotations

from functools import partial

from penstock.experiments.catalog.real_data import VISITS, WEB, requests, visits
from penstock.experiments.cells.cell import Cell, X
from penstock.experiments.cells.checks import about, all_rise, at_least, at_most, best, flat, gap_grows, ratio_flat, rises
from penstock.experiments.cells.experiment import Claim, Experiment
from penstock.experiments.cells.joins import run, streams, value

NAMES = ("R", "S", "T", "U", "V", "W", "X")
_PAPERS = ("ep", "frequency", "output", "random")
_LINES = (*_PAPERS, "learned")
_MEMORIES = (100, 200, 300, 400, 500)
_WINDOW = 1000  # ticks of a tenth of a second
_TUPLES = 10_000
_DELAY = 50
_SETTING = (
    "10,000 tuples of each stream, 10 per second; window of 100 s; every key visits some streams in an order, all ordered "
    "choices of streams being possible"
)
_CHANGED = (
    "The paper gives no delays between the visits of a key: here they are exponential with a mean of 5 s. LEARNED is ours. "
    "Where orders are skewed the most frequent one visits all streams, without which there may be no output."
)
_UNIFORM = (
    "Where all orders are equally likely, a key that has been in some streams comes to the others with about the same chance, "
    "whichever they were: patterns say little, and EP keeps old tuples of the best pattern while young ones go. How well it "
    "does depends on the delays, which the paper does not give (docs/arrival-orders.md). From an exponent of 1.5 on EP is "
    "ahead."
)
_COUNTS = (
    "By our reading FREQUENCY counts a key in all windows, as the paper's text has it: of keys that come once, in how many "
    "streams they have been. That says how near a key is to be complete. Counted in the window of the tuple alone every key has "
    "frequency 1, and the oldest goes."
)
_PRODUCED = (
    "Keys that come once produce nothing before they are complete, so that all tuples are equal, and the oldest goes: not a "
    "random one. Which is better depends on the delays."
)


def _play(cell: Cell, *, n: int = 5, memory: int = 500, orders: float = 0.0, rate: float = 1.0, tuples: int = _TUPLES, vary: str) -> float:
    said = {"n": n, "memory": memory, "orders": orders, "rate": rate} | {vary: cell.x}
    n, memory, rate, orders = int(said["n"]), int(said["memory"]), float(said["rate"]), float(said["orders"])
    trace = streams(
        round(tuples / rate),
        seed=cell.seed,
        streams=NAMES[:n],
        orders=orders,
        delay=_DELAY,
        rate=rate,
        first="complete" if orders else "any",
    )
    return value(trace, cell.line, window=_WINDOW, memory=n * memory, seed=cell.seed)


def _time(cell: Cell, *, n: int = 5, memory: int = 500, vary: str) -> float:
    """Microseconds per tuple, those of playing alone: the random policy has a place in them too, but no decisions of its own."""
    said = {"n": n, "memory": memory} | {vary: cell.x}
    tuples = 20_000 if cell.quick else 80_000
    trace = streams(tuples, seed=cell.seed, streams=NAMES[: int(said["n"])], orders=0.0, delay=_DELAY)
    small = streams(200, seed=0, streams=NAMES[: int(said["n"])], orders=0.0, delay=_DELAY)
    for one in (small, trace):
        found = run(one, cell.line, window=_WINDOW, memory=int(said["n"]) * int(said["memory"]), objective="count", seed=cell.seed)
    return 1e6 * found.seconds / len(trace)


def _normal(cell: Cell) -> float:
    tuples = 3000 if cell.quick else _TUPLES
    trace = streams(tuples, seed=cell.seed, streams=NAMES[:5], orders=0.0, delay=_DELAY, repeats=float(cell.x))
    return value(trace, cell.line, window=_WINDOW, memory=5 * 500, seed=cell.seed)


_REAL = {"web requests": (requests, 3600), "visits of users": (visits, 600)}


def _real(cell: Cell) -> float:
    make, window = _REAL[cell.panel]
    return value(make(cell.seed), cell.line, window=window, memory=4 * int(cell.x), seed=cell.seed)


def _by(
    number: str, title: str, vary: str, xs: tuple[X, ...], x: str, claims: tuple[Claim, ...], *, orders: float = 0.0, log: bool = False
) -> Experiment:
    return Experiment(
        name=f"kwon-fig{number}",
        title=title,
        setting=_SETTING,
        play=partial(_play, vary=vary, orders=orders),
        lines=_LINES,
        xs=xs,
        x=x,
        y="outputs",
        claims=claims,
        changed=_CHANGED,
        log=log,
    )


def _speed(letter: str, vary: str, xs: tuple[int, ...], x: str, claims: tuple[Claim, ...]) -> Experiment:
    return Experiment(
        name=f"kwon-fig09{letter}",
        title=f"Time per tuple by {x}",
        setting=f"80,000 tuples of each stream; {_SETTING.partition('; ')[2]}",
        play=partial(_time, vary=vary),
        lines=("ep", "frequency", "output"),
        xs=xs,
        quick=(xs[0], xs[-1]),
        x=x,
        y="microseconds per tuple",
        timed=True,
        most_seeds=3,
        claims=claims,
        changed=f"{_CHANGED} Ours are compiled, and keep statistics of the keys in memory alone, not of all that there are.",
    )


_OTHERS = _PAPERS[1:]
_AMPLE = "In the largest memory EP and RANDOM keep nearly all outputs, and RANDOM is 0.5 % ahead."
_HIGHER = "At a higher rate the same memory holds a shorter time, and fewer keys are complete in it."
_REPEATS = (
    "Keys that repeat have been in all streams, so that EP takes them for finished and lets them go first, whatever the "
    "variance. The paper's figure ends with both close to each other."
)
_TABLES = (
    "In the paper a value-based policy looks its keys up in a table of all keys that there are. Ours keeps the keys in memory "
    "alone, in a tournament: all three take a few microseconds."
)

EXPERIMENTS = (
    _by(
        "05",
        "Outputs by memory",
        "memory",
        _MEMORIES,
        "memory of each window",
        (
            Claim("All policies make more outputs with more memory.", all_rise(_PAPERS)),
            Claim("EP is significantly better than all others, in every memory.", best("ep", _PAPERS), _UNIFORM),
            Claim("FREQUENCY is as good as RANDOM.", about("frequency", "random", 0.25), _COUNTS),
            Claim("OUTPUT is as good as RANDOM.", about("output", "random", 0.25), _PRODUCED),
        ),
    ),
    _by(
        "06",
        "Outputs by skew of the orders",
        "orders",
        (0.0, 0.5, 1.0, 1.5, 2.0),
        "Zipf exponent of the orders",
        (
            Claim("EP becomes better with skew.", gap_grows("ep", "random")),
            Claim("EP is best at every skew.", best("ep", _PAPERS), _UNIFORM),
            Claim(
                "The skew does not change what RANDOM makes.",
                flat("random", 0.5),
                "The more keys go one way, the one that visits all streams, the more outputs there are to be made, by any policy.",
            ),
        ),
        log=True,
    ),
    _by(
        "07",
        "Outputs by rate, without overload",
        "rate",
        (1.0, 1.25, 1.67, 2.5),
        "tuples per stream and tenth of a second",
        (
            Claim("EP is better than all others at every rate.", best("ep", _PAPERS), _UNIFORM),
            Claim("EP makes more outputs at higher rates, up to 16.7 per second.", rises("ep", at=(1.0, 1.25, 1.67)), _HIGHER),
            Claim(
                "What RANDOM makes hardly depends on the rate.",
                flat("random", 0.3),
                _HIGHER,
            ),
        ),
    ),
    _by(
        "08",
        "Outputs by number of streams",
        "n",
        (3, 4, 5, 6, 7),
        "streams",
        (
            Claim("EP is better than all others with any number of streams.", best("ep", _PAPERS), _UNIFORM),
            Claim("The lead of EP hardly depends on the number of streams.", ratio_flat("ep", "random", 0.5), _UNIFORM),
        ),
        log=True,
    ),
    _speed(
        "a",
        "memory",
        _MEMORIES,
        "memory of each window",
        (
            Claim("EP takes far less time per tuple than FREQUENCY.", at_most("ep", 0.8, "frequency"), _TABLES),
            Claim("FREQUENCY and OUTPUT take about the same time.", about("frequency", "output", 0.5)),
        ),
    ),
    _speed(
        "b",
        "n",
        (3, 4, 5, 6, 7),
        "number of streams",
        (
            Claim("The time of EP rises with the number of streams.", rises("ep", slack=0.1), _TABLES),
            Claim("The time of FREQUENCY hardly depends on the number of streams.", flat("frequency", 0.3), _TABLES),
            Claim("Even with seven streams EP takes less time than FREQUENCY.", at_most("ep", 1.0, "frequency", at=(7,)), _TABLES),
        ),
    ),
    Experiment(
        name="kwon-fig10",
        title="Outputs where keys repeat, by a normal distribution",
        setting=f"keys by a normal distribution around 100; memory of 500 per window; {_SETTING}",
        play=_normal,
        lines=_LINES,
        xs=(15, 20, 25, 30, 35),
        quick=(15, 35),
        x="variance of the keys",
        y="outputs",
        claims=(
            Claim("FREQUENCY is better than EP.", at_least("frequency", 1.0, "ep")),
            Claim("OUTPUT is better than EP.", at_least("output", 1.0, "ep")),
            Claim("With a variance of 35 they are similar.", about("frequency", "ep", 0.5, at=(35,)), _REPEATS),
        ),
        log=True,
        changed=_CHANGED,
    ),
    Experiment(
        name="kwon-fig11",
        title="Outputs on real orders of visits",
        setting="four streams; the first visit of a host, or user, to each; window of an hour, or of 600 s",
        play=_real,
        lines=_LINES,
        panels=tuple(_REAL),
        xs=(),
        panel_xs={"web requests": (5, 10, 20, 40), "visits of users": (10, 20, 40, 80)},
        x="memory of each window",
        y="outputs",
        data=f"{WEB},{VISITS}",
        claims=(
            Claim("EP is better than all others: web requests.", best("ep", _PAPERS, panel="web requests"), _AMPLE),
            Claim(
                "EP is better than all others: visits of users.",
                best("ep", _PAPERS, panel="visits of users"),
                "Users visit these categories in many orders, the most frequent of which has 23 % of those who visit all four; "
                "most never do.",
            ),
            Claim(
                "The others are much alike: FREQUENCY and RANDOM, web requests.",
                about("frequency", "random", 0.3, panel="web requests"),
                _COUNTS,
            ),
            Claim(
                "The others are much alike: OUTPUT and RANDOM, web requests.",
                about("output", "random", 0.3, panel="web requests"),
                _PRODUCED,
            ),
        ),
        changed="In the place of ClarkNet, which is not to be had: requests of 1995 for four files that come with a page, 85 % "
        "of the hosts in one order; and visits of users of msnbc.com to four categories, whose orders are real and whose times "
        "are made up (30 s to 5 min apart). Memories are those in which these streams overflow. LEARNED is ours.",
    ),
)
