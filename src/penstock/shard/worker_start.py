"""What a Python worker of Spark does once, when it has done its first task."""

from __future__ import annotations

import gc
from functools import cache


@cache
def spare_from_collection(work: str) -> None:
    """Once per process and kind of work: what is loaded by now stays, and is no longer searched for garbage.

    Spark's workers collect all garbage after every task. With the modules and compiled loops of a join loaded that took a tenth of a
    second each time, and a batch has several tasks.
    """
    gc.collect()
    gc.freeze()
