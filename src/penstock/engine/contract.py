"""The engine's contract, and what it asks of a policy and of statistics.

An engine takes batches of rows (`play`), says what happened, and can be written to bytes and restored between batches. Any split of a
trace into batches between instants gives the same run. Outputs may be far more than rows: `pieces` hands them out as they are made.
The *compiled* form (compiled/engine.py) serves every policy of the table; the *stepwise* form (stepwise.py) serves whatever has a
user's Python in it, and a few orders that cannot be compiled. `opening.py` chooses, and `finding.py` says how partners are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core.batch import Batch, OnProgress
from penstock.core.errors import PenstockError
from penstock.core.facts import Facts
from penstock.core.problem import Problem
from penstock.core.trace import Bools, Floats, Ints
from penstock.engine.chance_steps import Scale
from penstock.engine.ranking_codes import FirstScore, Kind, Prices
from penstock.engine.view import View

Renumber = Callable[[int, Ints], Ints]
"""The keys of an engine, which is the first, second, ... of several, by the numbers that they have where all are together."""
Chosen = Callable[[int, Ints], Bools]
"""Which keys of an engine, the first, second, ... of several, are wanted."""
TUPLE = ("row", "stream", "time", "expiry", "key", "importance")
"""The columns of `Engine.tuples`."""
LOAD = "rows that would lie in the windows"
"""The unit of what tuples are worth where they have no worth of their own."""
PIECE = 1 << 19
"""Outputs that are made before they are handed on; 12 MB of two streams."""


@dataclass(frozen=True)
class Ranking:
    """How the compiled engine ranks tuples for a policy."""

    kind: Kind
    prices: Prices = Prices.NONE
    first_score: FirstScore = FirstScore.COLUMN
    ties: bool = False
    spares: bool = False  # arrivals leave only when nothing else is left
    column: Callable[[Batch, int], Floats] | None = None  # the fixed score of each row, given the first time of the run


@dataclass(frozen=True)
class Bands:
    """Prices that never change: equal prices of one stream have one number."""

    number: Ints  # by key and stream; the last row is for keys that match nothing
    price: Floats  # by number; rising within a stream
    stream: Ints  # by number; rising

    def of(self, batch: Batch) -> Ints:
        """The number of each row."""
        return self.number[np.where(batch.key < 0, len(self.number) - 1, batch.key), batch.stream]

    def priced(self, stream: Ints, price: Floats) -> Ints:
        """The numbers of these prices."""
        out = np.empty(len(price), dtype=np.int64)
        for number in np.unique(stream):
            mine = stream == number
            begin, end = np.searchsorted(self.stream, [number, number + 1])
            out[mine] = begin + np.searchsorted(self.price[begin:end], price[mine])
        return out


class PolicyContract(Protocol):
    """Decides who leaves. `score` is its definition; `ranking` says how the compiled engine may do the same faster."""

    name: str

    def score(self, view: View) -> Floats:
        """The score of every candidate; low leaves first."""

    def ties(self, view: View) -> tuple[Floats, ...]:
        """Tie-breaks between equal scores, before age."""

    def due(self, view: View) -> NDArray[np.bool_] | None:
        """The candidates that leave even where there is room; None for nobody (stepwise)."""

    def observe(self, view: View, stay: Ints) -> None:
        """What stays after shedding: positions of candidates, the next to leave first."""

    def after(self, view: View) -> None:
        """The end of an instant: `view.outputs` are complete in either model (stepwise)."""

    def ranking(self, problem: Problem) -> Ranking | None:
        """The compiled form, or None where there is none for this problem."""

    def snapshot(self) -> dict[str, Any]:
        """What is kept of it between two batches, as data (stepwise)."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` gave (stepwise)."""


class Statistics(Protocol):
    """Where probabilities come from."""

    @property
    def n_bytes(self) -> int:
        """What the state takes."""

    @property
    def room(self) -> int:
        """The bytes that it may take; 0 where that is not bounded, or nothing is counted by key."""

    @property
    def is_sketch(self) -> bool:
        """Whether keys share the cells of a sketch."""

    def age(self, batch: Batch, begin: int) -> int:
        """Before row `begin`: bring rates into the units of its time; by how many half-lives they have aged."""

    def reprice(self, key: Ints, stream: Ints) -> Floats:
        """The prices of tuples with these keys now that rates have aged."""

    def weigh(self, stream: Ints, key: Ints, values: Ints, importance: Floats | None) -> tuple[Floats, Floats]:
        """Where tuples with one key have rates of their own, and these have aged: those of tuples that were played, and of streams."""

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """For rows from `begin`: each key's rate in every stream; and where these end, because rates must age again."""

    def bands(self) -> Bands | None:
        """The prices of every key in every stream, where they never change; None where they may."""

    def units(self) -> tuple[int, float, int]:
        """The clock of rates that grow: origin, half-life (0 where rates do not grow) and half-lives moved."""

    def totals(self, key: Ints) -> Floats:
        """The rates of these keys in all streams together."""

    def known_rates(self) -> tuple[dict[str, Any], Floats]:
        """Through relations, what is known beforehand: rates by value and importance (`take_rates`), and of whole streams."""

    def take_chances(self) -> Floats | None:
        """What was learned of how soon keys come again, if it has been put into use since this was last asked."""

    def counted_returns(self) -> tuple[Ints, Scale] | None:
        """What was counted of how soon keys come again, and its scale of time; None where nothing is."""

    def priced(self, problem: Problem, batch: Batch) -> Batch:
        """A batch with p by row, where all rates are known beforehand; otherwise as it is."""

    def keys(self) -> Ints:
        """The keys that its state has numbers of, each at least once."""

    def values(self) -> Floats:
        """What links compare of the arrivals that it remembers, a row for each; nothing where it counts by key."""

    def arrive(self, view: View) -> None:
        """Take note of an instant's arrivals (stepwise)."""

    def prices(self, view: View) -> Floats:
        """p of every candidate (stepwise)."""

    def snapshot(self) -> dict[str, Any]:
        """The state, as arrays by name."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state."""

    def freeze(self) -> dict[str, Any]:
        """The state for another process of this machine: not for keeping."""

    def thaw(self, state: dict[str, Any]) -> None:
        """Take over what `freeze` gave, whose arrays nobody else may use."""

    def merge(self, states: Sequence[dict[str, Any]], renumber: Renumber) -> list[float]:
        """Take over several states as one; by how many half-lives the rates of each are behind the latest."""


@dataclass(frozen=True)
class Keep:
    """What an engine writes down beside the totals."""

    outputs: bool = False
    sheds: bool = False
    expired: bool = False
    retained: bool = False
    series: bool = False
    done: bool = False
    filtered: bool = False


def read_keep(keep: Any) -> Keep:
    """What is asked for; by default nothing.

    >>> read_keep(None).outputs, read_keep(Keep(outputs=True)).outputs
    (False, True)
    """
    if keep is None:
        return Keep()
    if not isinstance(keep, Keep):
        raise PenstockError(f"keep must be a ps.Keep, such as ps.Keep(outputs=True), got {keep!r}")
    return keep


@dataclass(frozen=True)
class Played:
    """What happened in one batch, as asked for by `Keep`."""

    outputs: Ints  # time, row per stream; where relations link the streams, the number of the fact per relation
    sheds: Ints
    expired: Ints
    retained: Ints  # number of the instant, row
    series: Ints  # time, tuples per stream
    shed_at: Ints  # the last instant in which each row of `sheds` took part
    expired_at: Ints  # and each of `expired`
    done: Ints  # rows that left after as many outputs as promised (`matches`)
    done_at: Ints  # and the last instant in which each took part
    filtered: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # rows that were never played, for want of a fact

    @classmethod
    def join(cls, parts: list[Played], streams: int, relations: int = 0) -> Played:
        """Several batches as one."""
        if not parts:
            empty = np.empty(0, dtype=np.int64)
            return cls(
                np.empty((0, streams + 1 + relations), np.int64),
                empty,
                empty,
                np.empty((0, 2), np.int64),
                np.empty((0, streams + 1), np.int64),
                empty,
                empty,
                empty,
                empty,
            )
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])))


@dataclass(frozen=True)
class Totals:
    """The counts of a run so far."""

    n_input: int = 0
    n_output: int = 0
    value: float = 0.0
    n_shed: int = 0
    n_expired: int = 0
    n_late: int = 0
    n_done: int = 0  # left after as many outputs as promised
    n_filtered: int = 0  # never played: a relation has no fact for them
    peak_memory: int = 0
    retained: int = 0
    used: int = 0  # rows or bytes, as the budget counts
    instant: int = 0
    next_row: int = 0
    n_steps: int = 0  # heap and list steps (compiled engine)
    n_gains: int = 0  # raised scores (dgl)
    n_attempts: int = 0  # arrivals whose key all other streams held, so that a join was attempted (compiled engine, buffered)


class Worths(NamedTuple):
    """Some tuples in memory: their pool, score and weight; each stands for as many others as there are of the rest."""

    pool: Ints
    score: Floats
    weight: Ints


class Engine(Protocol):
    """One instant after another."""

    statistics: Statistics
    keep: Keep

    @property
    def is_compiled(self) -> bool:
        """Whether it is of the compiled form, which takes O(log memory) per tuple."""

    @property
    def is_repeatable(self) -> bool:
        """Whether the same rows from the same state give the same, so that a log of rows may stand for a state."""

    @property
    def totals(self) -> Totals:
        """The counts so far."""

    @property
    def seen(self) -> Ints:
        """The largest time of each stream."""

    @property
    def arrivals(self) -> Ints:
        """The rows that have come, by stream."""

    @property
    def held(self) -> Ints:
        """The tuples in memory, by stream."""

    @property
    def n_bytes(self) -> int:
        """What the engine's arrays take."""

    @property
    def structure_bytes(self) -> int | None:
        """What its arrays take beside the tuples' numbers; None where they are not its own (stepwise)."""

    @property
    def n_examined(self) -> int | None:
        """The candidates that indexes have offered (joins by links); None where there is no index (stepwise)."""

    def keys(self) -> Ints:
        """The keys of the tuples in memory, each at least once."""

    def values(self) -> Floats:
        """What a predicate other than equality compares, a row for each of `tuples`; nothing where keys are compared."""

    def number_from(self, row: int) -> None:
        """Before the first batch: give rows numbers from this one on."""

    def know(self, facts: Sequence[Facts]) -> None:
        """The facts of each relation from now on, instead of those known before; equal values keep their numbers.

        To be said before the first batch, after `restore` and `thaw`, whose states hold no facts, and between batches when a relation
        has changed. What is in memory is filtered and counted by the new facts in the next instant.
        """

    def play(self, batch: Batch, progress: OnProgress | None = None) -> Played:
        """Play the next rows."""

    def pieces(self, batch: Batch, progress: OnProgress | None = None, most: int = PIECE) -> Iterator[Played]:
        """Play the next rows while what happens is asked for: in pieces of about so many outputs, which all together are what `play` gives.

        Until the last piece has been taken the engine is in the middle of a batch, and good for nothing else.
        """

    def advance(self, seen: Ints) -> Ints:
        """Between batches: how far each stream has come elsewhere (largest times). The rows that expire with that."""

    def trim(self) -> Ints:
        """Between batches: shed down to the budget, which may have become smaller. The rows that go."""

    def count_late(self, rows: int) -> None:
        """Count rows that came too late, and that it was not shown or did not count: it looks at their own windows only."""

    def dismiss(self, rows: Ints) -> None:
        """Let go of these rows, as if they had never come; they are counted nowhere."""

    def adopt(self, other: Engine) -> None:
        """Begin with the tuples of another engine for the same streams; what happened before counts nowhere."""

    def merge(self, others: Sequence[Engine], chosen: Chosen, renumber: Renumber, *, next_row: int, counts: bool, statistics: bool) -> None:
        """Begin with the chosen tuples of others of its kind, what they learned, and, if wanted, their counts and statistics."""

    def check_keepable(self) -> None:
        """Refuse a policy whose state cannot be kept between batches."""

    def retained(self) -> Ints:
        """The rows in memory, rising."""

    def worths(self) -> Worths | None:
        """What tuples are worth now, by a sample of at most some thousands; None where nobody can compare them between engines."""

    def worth_unit(self) -> str:
        """In what tuples are weighed, as text: engines of different joins can be compared where it is the same."""

    def tuples(self) -> dict[str, Any]:
        """The tuples in memory as columns, by row: row, stream, time, expiry, key, importance.

        In a window of rows of each key `expiry` is how many of them may still follow.
        """

    def snapshot(self) -> bytes:
        """The state between two batches."""

    def restore(self, state: bytes, *, trust: bool = False) -> None:
        """Go on from a snapshot; where it is a pickle, as those of 0.1.0 may be, only with `trust`."""

    def freeze(self) -> dict[str, Any]:
        """The state for another process of this machine: not for keeping."""

    def thaw(self, state: dict[str, Any]) -> None:
        """Go on from what `freeze` gave, whose arrays nobody else may use."""
