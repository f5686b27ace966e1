"""How many outputs a batch may have (`max_output_per_batch`): counted while they are made, and over all shards before a commit."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.errors import PenstockError


@dataclass
class Quota:
    """Counts the outputs of one batch, of a shard or of all, and fails it when they are too many.

    >>> quota = Quota(100, batch=7)
    >>> quota.take(60)
    >>> quota.made
    60
    """

    most: int | None  # None: any number
    batch: int | None = None  # None: a batch query, all of which counts
    whose: str = "all shards together have"
    made: int = 0

    def take(self, outputs: int) -> None:
        """Count outputs that have been made, and refuse the batch when they are too many."""
        self.made += outputs
        if self.most is not None and self.made > self.most:
            which = "this batch query" if self.batch is None else f"batch {self.batch}"
            raise PenstockError(
                f"max_output_per_batch must not be exceeded by any batch: it is {self.most:,}, and {self.whose} made {self.made:,} outputs "
                f"or more in {which}. Nothing of it is committed. A restart with a larger max_output_per_batch or with less input "
                "at a time (maxFilesPerTrigger, maxOffsetsPerTrigger) goes on from here; look for a key that very many rows share"
            )
