"""Summaries of shards in a folder that all can read, a small file for each batch and shard. Spark-free.

    <folder>/<name>-<query>/shares/batch-000000012-shard-0003.json

A share follows from the summaries of the batches before alone, and these are committed: a batch that is played again writes the same
share, whichever attempt it is, so no name has to tell attempts apart. Where the last summaries of all shards are not there, whole and of
one batch, everybody holds what it held: nothing of that needs an agreement.
"""

from __future__ import annotations

import logging
import re
from concurrent.futures import ThreadPoolExecutor

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.ledger.ledger import READERS, folder_of_query
from penstock.ledger.sealed import sealed, unsealed
from penstock.ledger.store import Store
from penstock.shard.shares.moves import EQUAL, Summary, next_shares

logger = logging.getLogger("penstock")
_NAME = re.compile(r"batch-(\d{9,})-shard-(\d{4,})\.json")
_KEPT = 16
"""Summaries of a shard that stay: a restart needs the last one, a checkpoint that was set back needs older ones."""
_warned: set[tuple[str, str]] = set()


class Exchange:
    """The summaries of the shards of one query, and which shares follow from them.

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

    def __init__(self, folder: str, name: str, query: str, shards: int, argument: str = "shared") -> None:
        self.store, self.shards = Store(folder, argument), shards
        self.folder = f"{folder_of_query(name, query)}/shares"
        self.there: list[tuple[int, int]] = []  # batches and shards, as they were when a share was asked for

    def share(self, batch: int, shard: int, held: tuple[int, ...]) -> Ints | None:
        """The share of a shard from a batch on; None: what it has `held` before."""
        try:
            found = self._latest(batch)
            if found is None:
                return None
            if found[shard].share != held:
                raise ValueError(f"shard {shard} holds {held}, and is said to hold {found[shard].share}")
            return next_shares(found)[shard]
        except (PenstockError, ValueError, KeyError, TypeError) as error:
            self._warn(error)
            return None

    def tell(self, summary: Summary) -> None:
        """Publish what a shard holds and what its tuples are worth; what cannot be written fails the batch."""
        self.store.put(self._file(summary.batch, summary.shard), sealed(summary.facts()))
        mine = sorted(of for of, shard in self.there if shard == summary.shard and of < summary.batch)
        for of in mine[:-_KEPT]:
            self.store.delete(self._file(of, summary.shard))

    def _latest(self, batch: int) -> list[Summary] | None:
        """The last summaries of all shards before a batch; None where there are none at all."""
        names = (_NAME.fullmatch(name) for name in self.store.names(self.folder))
        self.there = [(int(match[1]), int(match[2])) for match in names if match]
        before = [of for of, _ in self.there if of < batch]
        if not before:
            return None
        last = max(before)
        with ThreadPoolExecutor(READERS) as pool:
            found = list(pool.map(lambda shard: self._read(last, shard), sorted(shard for of, shard in self.there if of == last)))
        if any(one.shards != self.shards for one in found):
            return None  # it was another number of shards then
        if len(found) < self.shards:
            raise ValueError(f"of batch {last} there are {len(found)}, and {self.shards} shards")
        shares = [one.share for one in found]
        if len({len(share) for share in shares}) > 1 or any(sum(pool) > self.shards * EQUAL for pool in zip(*shares, strict=True)):
            raise ValueError("the shares of all shards together are no memory")
        return found

    def _read(self, batch: int, shard: int) -> Summary:
        name = self._file(batch, shard)
        found = Summary.of(unsealed(self.store.read(name), name))
        if (found.batch, found.shard) != (batch, shard):
            raise ValueError(f"{name} is of batch {found.batch} and shard {found.shard}")
        return found

    def _file(self, batch: int, shard: int) -> str:
        return f"{self.folder}/batch-{batch:09}-shard-{shard:04}.json"

    def _warn(self, error: Exception) -> None:
        """Tell once in a worker, not in every batch."""
        if (self.store.given, self.folder) not in _warned:
            _warned.add((self.store.given, self.folder))
            logger.warning(
                "shares of memory stay as they are while the summaries in %s/%s are not whole: %s", self.store.given, self.folder, error
            )
