"""The manifest of a page: what one attempt at a batch wrote in one shard, and which attempts it followed. Spark-free.

    manifests/batch-000000012-shard-0003-run-0002-0f3a…json    named by its own digest, so that no attempt overwrites another
    batches/  batch-000000012-shard-0003-run-0002-0f3a….parquet the page of the same attempt; none, where nothing happened

A shard's state names its last attempt, and each manifest names those before it: for a committed batch exactly the pages count that are
named so. What else lies in the folder, of attempts that failed or of runs that were overtaken, is not read.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from penstock.core.errors import PenstockError

LAYOUT = 3
"""From 2 on, columns of the user are named in pages by their positions in the result (in 0.1.0, which had no manifests, they had their
names); from 3 on, a manifest names its query."""
_NAME = re.compile(r"batch-(\d{9,})-shard-(\d{4,})-run-(\d{4,})-([0-9a-f]{32})\.(?:json|parquet)")

Span = tuple[int, int]
"""The smallest and the largest time of some tuples."""


class Attempt(NamedTuple):
    """An attempt at a batch in a shard, by a run of the query; `digest` is that of its manifest.

    >>> Attempt(12, 3, 2, "0f3a" * 8).stem
    'batch-000000012-shard-0003-run-0002-0f3a0f3a0f3a0f3a0f3a0f3a0f3a0f3a'
    """

    batch: int
    shard: int
    epoch: int
    digest: str

    @property
    def stem(self) -> str:
        """The name of its files, without their suffix."""
        return f"batch-{self.batch:09}-shard-{self.shard:04}-run-{self.epoch:04}-{self.digest}"


@dataclass(frozen=True)
class Manifest:
    """What an attempt wrote, and what it followed."""

    batch: int
    shard: int
    shards: int  # of the join, at that time
    epoch: int
    after: tuple[Attempt, ...]  # one; all shards of the state before, where the number of shards has changed; none at the beginning
    rows: int
    size: int  # of the page, in bytes
    sha256: str | None  # of the page; None: there is none, since nothing happened
    spans: tuple[Span | None, ...]  # by stream: the times of what arrived
    promised: tuple[int | None, ...]  # by stream: no later tuple has an earlier time, if promises of lateness are kept
    continues: bool = False  # a ledger of 0.1.0, whose pages have no manifests
    last: bool = False  # of a run over DataFrames that do not stream
    layout: int = LAYOUT
    query: str | None = None  # None: written before it was named
    facts: tuple[str, ...] = ()  # by relation, the last page of its facts, where one goes on; the first shard says it
    begins: int | None = None  # no fact that becomes known later begins before, if promises of lateness are kept

    def text(self) -> bytes:
        """As JSON."""
        facts = asdict(self)
        if self.query is None:  # its digest is of a text without it
            del facts["query"]
        if not self.facts:
            del facts["facts"]
        if self.begins is None:
            del facts["begins"]
        return (json.dumps(facts, sort_keys=True) + "\n").encode()

    @property
    def attempt(self) -> Attempt:
        """The attempt that it is of."""
        return Attempt(self.batch, self.shard, self.epoch, _digest(self.text()))

    @classmethod
    def of(cls, text: bytes | None, name: str) -> Manifest:
        """The manifest in the text of the file `name`, which has its digest."""
        if text is None:
            raise PenstockError(f"manifest {name} is missing")
        named = attempt_in(name.rpartition("/")[2])
        if named is None or _digest(text) != named.digest:
            raise PenstockError(f"manifest {name} is damaged: its digest is not the one in its name")
        try:
            facts: dict[str, Any] = json.loads(text)
            if facts["layout"] > LAYOUT:
                raise PenstockError(f"manifest {name} is of a newer release of Penstock (layout {facts['layout']}); use that release")
            facts["after"] = tuple(Attempt(*one) for one in facts["after"])
            facts["spans"] = tuple(None if span is None else (span[0], span[1]) for span in facts["spans"])
            facts["facts"] = tuple(facts.get("facts", ()))
            found = cls(**facts | {"promised": tuple(facts["promised"])})
        except PenstockError:
            raise
        except (ValueError, TypeError, LookupError, RecursionError):
            raise PenstockError(f"manifest {name} is damaged: it is no manifest as Penstock writes them") from None
        if found.attempt[:3] != named[:3]:
            raise PenstockError(f"manifest {name} is damaged: it is of batch {found.batch}, shard {found.shard}, run {found.epoch}")
        return found


def attempt_in(name: str) -> Attempt | None:
    """The attempt in the name of a file, or None: no attempt's.

    >>> attempt_in(f"batch-000000012-shard-0003-run-0002-{'0f3a' * 8}.json").epoch, attempt_in("plan.json")
    (2, None)
    """
    match = _NAME.fullmatch(name)
    return None if match is None else Attempt(int(match[1]), int(match[2]), int(match[3]), match[4])


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:32]
