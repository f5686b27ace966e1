"""Summaries of shards in a folder that all can read, a small file for each batch and shard. Spark-free.

    <folder>/<name>-<query>/shares/batch-000000012-shard-0003.json

A share follows from the summaries of the batches before alone, and these are committed: a batch that is played again writes the same
share, whichever attempt it is, so no name has to tell attempts apart. Where the last summaries of all shards are not there and whole,
everybody holds what it held: nothing of that needs an agreement.

Joins that share a budget have a folder each, and read those of all. Spark calls a join in the batches that have rows for it, so the last
summaries of two joins may be of different batches; who was not called since holds what it held then. A join that has told nothing yet
holds its equal part, and the others have theirs. A summary says which batches its shard has *heard* of, so that summaries that were
there and are gone are noticed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.ledger.ledger import READERS, folder_of_query
from penstock.ledger.sealed import sealed, unsealed
from penstock.ledger.store import Store
from penstock.shard.shares.next_shares import EQUAL, Summary, next_shares

logger = logging.getLogger("penstock")
_NAME = re.compile(r"batch-(\d{9,})-shard-(\d{4,})\.json")
_KEPT = 16
"""Summaries of a shard that stay: a restart needs the last one, a checkpoint that was set back needs older ones."""
_warned: set[tuple[str, str]] = set()


class Exchange:
    """The summaries of the shards of one query, and which shares follow from them; of one join, or of all `joins` that share a budget.

    >>> from tempfile import TemporaryDirectory
    >>> points = (((1.0,), (2.0,)),)
    >>> with TemporaryDirectory() as folder:
    ...     exchange = Exchange(folder, "penstock", "7f3a", 2)
    ...     for shard, share in enumerate((EQUAL // 2, EQUAL)):
    ...         exchange.tell(Summary(6, shard, 2, (share,), (1,), points))
    ...     found = exchange.share(7, 0, (EQUAL // 2,)), exchange.share(6, 0, (EQUAL // 2,))
    >>> int(found[0][0]) / EQUAL, found[1]
    (1.0, None)
    """

    def __init__(self, folder: str, name: str, query: str, shards: int, argument: str = "shared", joins: Sequence[str] = ()) -> None:
        self.store, self.shards = Store(folder, argument), shards
        self.joins = tuple(joins) or (name,)
        self.own = self.joins.index(name)
        self.folders = [f"{folder_of_query(join, query)}/shares" for join in self.joins]
        self.there: list[tuple[int, int]] = []  # batches and shards of this join, as they were when a share was asked for
        self.heard: tuple[int, ...] = ()  # for the summary that follows: by join, the batch of the last one that is known

    def share(self, batch: int, shard: int, held: tuple[int, ...], heard: tuple[int, ...] = ()) -> Ints | None:
        """The share of a shard from a batch on; None: what it has `held` before. `heard`: what its last summary had as that."""
        self.heard = self._and_mine(heard or (-1,) * len(self.joins), batch)
        try:
            told = [self._latest(join, batch) for join in range(len(self.joins))]
            if not told[self.own]:  # it begins; or its folder is another than it was, and who has told nothing here may have moved there
                self.heard = self._and_mine(tuple(max(0, one) for one in heard) or self.heard, batch)
                return None
            last = tuple(one[0].batch if one else -1 for one in told)
            self._check(told, last, shard, held, heard)
            self.heard = self._and_mine(last, batch)
            before = sum(map(len, told[: self.own]))
            return next_shares([one for join in told for one in join])[before + shard]
        except (PenstockError, ValueError, KeyError, TypeError) as error:
            self._warn(error)
            return None

    def tell(self, summary: Summary) -> None:
        """Publish what a shard holds and what its tuples are worth; what cannot be written fails the batch."""
        self.store.put(self._file(self.own, summary.batch, summary.shard), sealed(summary.facts()))
        mine = sorted(of for of, shard in self.there if shard == summary.shard and of < summary.batch)
        for of in mine[:-_KEPT]:
            self.store.delete(self._file(self.own, of, summary.shard))

    def _and_mine(self, heard: tuple[int, ...], batch: int) -> tuple[int, ...]:
        return (*heard[: self.own], batch, *heard[self.own + 1 :])

    def _latest(self, join: int, batch: int) -> list[Summary]:
        """The last summaries of all shards of a join before a batch; none where it has told nothing, or had another number of shards."""
        names = (_NAME.fullmatch(name) for name in self.store.names(self.folders[join]))
        there = [(int(match[1]), int(match[2])) for match in names if match]
        if join == self.own:
            self.there = there
        before = [of for of, _ in there if of < batch]
        if not before:
            return []
        last = max(before)
        with ThreadPoolExecutor(READERS) as pool:
            found = list(pool.map(lambda shard: self._read(join, last, shard), sorted(shard for of, shard in there if of == last)))
        if any(one.shards != self.shards for one in found):
            return []
        if len(found) < self.shards:
            raise ValueError(f"of join {self.joins[join]} and batch {last} there are {len(found)}, and {self.shards} shards")
        return found

    def _check(self, told: list[list[Summary]], last: tuple[int, ...], shard: int, held: tuple[int, ...], heard: tuple[int, ...]) -> None:
        """Refuse summaries that cannot be the last ones of all who have told anything."""
        own, found = told[self.own][shard], [one for join in told for one in join]
        if own.share != held or (heard and own.batch != heard[self.own]):
            raise ValueError(f"shard {shard} holds {held}, and is said to hold {own.share} since batch {own.batch}")
        for known in {heard, *(one.heard for one in found)} - {()}:
            for join, there, wanted in zip(self.joins, last, known, strict=True):
                if wanted > there:
                    raise ValueError(f"join {join} has told of batch {wanted} or a later one, and its summaries are not there")
        shares = [one.share for one in found]
        if len({len(share) for share in shares}) > 1 or any(sum(pool) > len(found) * EQUAL for pool in zip(*shares, strict=True)):
            raise ValueError("the shares of all shards together are no memory")
        units = sorted({one.unit for one in found} - {""})
        if len(units) > 1:
            raise ValueError(f"tuples are weighed in different units, {' and '.join(units)}")

    def _read(self, join: int, batch: int, shard: int) -> Summary:
        name = self._file(join, batch, shard)
        found = Summary.of(unsealed(self.store.read(name), name))
        if (found.batch, found.shard) != (batch, shard):
            raise ValueError(f"{name} is of batch {found.batch} and shard {found.shard}")
        return found

    def _file(self, join: int, batch: int, shard: int) -> str:
        return f"{self.folders[join]}/batch-{batch:09}-shard-{shard:04}.json"

    def _warn(self, error: Exception) -> None:
        """Tell once in a worker, not in every batch."""
        folder = self.folders[self.own]
        if (self.store.given, folder) not in _warned:
            _warned.add((self.store.given, folder))
            logger.warning(
                "shares of memory stay as they are while the summaries in %s/%s are not whole: %s", self.store.given, folder, error
            )
